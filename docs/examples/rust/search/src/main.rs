//! A search in the foreground beside an indexer in the background, in Rust.

use opportune_core_sys as sys;
use std::ffi::{c_void, CString};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}

/// Owns the scheduler. Dropping it waits for the jobs that run; closures that have not begun are dropped.
struct Scheduler(*mut sys::oppc_scheduler);

// SAFETY: any thread may make any call.
unsafe impl Send for Scheduler {}
unsafe impl Sync for Scheduler {}

impl Scheduler {
    fn new() -> io::Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: options are optional.
        check(unsafe { sys::oppc_scheduler_create(ptr::null(), &mut raw) })?;
        Ok(Scheduler(raw))
    }

    fn app(&self, name: &str, band: u32) -> io::Result<App> {
        let (name, mut raw) = (CString::new(name)?, ptr::null_mut());
        // SAFETY: the scheduler lives, and the name is copied.
        check(unsafe { sys::oppc_app_create(self.0, name.as_ptr(), band as i32, &mut raw) })?;
        Ok(App(raw))
    }

    fn wait(&self) -> io::Result<()> {
        // SAFETY: the scheduler lives.
        check(unsafe { sys::oppc_scheduler_wait(self.0, -1) })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle. Apps keep the memory that they need.
        unsafe { sys::oppc_scheduler_destroy(self.0) };
    }
}

struct App(*mut sys::oppc_app);

// SAFETY: as above.
unsafe impl Send for App {}
unsafe impl Sync for App {}

impl App {
    fn submit<Body: FnOnce() + Send + 'static>(&self, body: Body) -> io::Result<()> {
        // A panic that leaves an `extern "C"` function aborts the program.
        unsafe extern "C" fn run<Body: FnOnce()>(context: *mut c_void) {
            Box::from_raw(context.cast::<Body>())()
        }
        unsafe extern "C" fn cancel<Body>(context: *mut c_void) {
            drop(Box::from_raw(context.cast::<Body>()))
        }
        let context = Box::into_raw(Box::new(body));
        // SAFETY: exactly one of the two functions is called with the context, once; neither if this fails.
        let result = unsafe {
            let priority = sys::OPPC_PRIORITY_NORMAL as i32;
            sys::oppc_submit_with(
                self.0,
                priority,
                Some(run::<Body>),
                Some(cancel::<Body>),
                context.cast(),
            )
        };
        if result < 0 {
            // SAFETY: it was not accepted, so it is still ours.
            drop(unsafe { Box::from_raw(context) });
        }
        check(result)
    }

    fn wait(&self) -> io::Result<()> {
        // SAFETY: the app lives.
        check(unsafe { sys::oppc_app_wait(self.0, -1) })
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle.
        unsafe { sys::oppc_app_release(self.0) };
    }
}

fn main() -> io::Result<()> {
    const DOCUMENTS: usize = 500;
    const QUERIES: usize = 100;
    let indexed = Arc::new(AtomicUsize::new(0));
    let answers = Arc::new(Mutex::new(Vec::new())); // the foreground's alone: background must not hold it up
    let scheduler = Scheduler::new()?;
    let ui = scheduler.app("ui", sys::OPPC_FOREGROUND)?;
    let indexer = scheduler.app("indexer", sys::OPPC_BACKGROUND)?;
    for document in 0..DOCUMENTS {
        let indexed = indexed.clone();
        indexer.submit(move || {
            let hash =
                (0..20_000u64).fold(document as u64, |hash, word| hash.wrapping_mul(31) ^ word);
            std::hint::black_box(hash);
            indexed.fetch_add(1, Ordering::Relaxed);
        })?;
    }
    for query in 0..QUERIES {
        let answers = answers.clone();
        ui.submit(move || answers.lock().unwrap().push(query))?;
    }
    ui.wait()?;
    let (answered, meanwhile) = (
        answers.lock().unwrap().len(),
        indexed.load(Ordering::Relaxed),
    );
    println!("{answered} answers, {meanwhile} documents indexed meanwhile");
    scheduler.wait()?;
    println!(
        "{} documents indexed in the end",
        indexed.load(Ordering::Relaxed)
    );

    // A closure that never runs is dropped with the scheduler.
    let held = Arc::new(());
    let copy = held.clone();
    // SAFETY: the app lives.
    check(unsafe { sys::oppc_app_suspend(indexer.0) })?;
    indexer.submit(move || drop(copy))?;
    drop(scheduler);
    assert_eq!(Arc::strong_count(&held), 1);
    assert_eq!(answers.lock().unwrap().len(), QUERIES);
    assert_eq!(indexed.load(Ordering::Relaxed), DOCUMENTS);
    Ok(())
}
