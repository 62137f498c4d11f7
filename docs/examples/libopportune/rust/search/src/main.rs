//! A search in the foreground beside an indexer in the background, in Rust, without Swift.

use opportune_sys as sys;
use std::ffi::{c_void, CStr, CString};
use std::io;
use std::mem::{size_of, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const FOREVER: i64 = -1;

/// What a call has failed with, in the library's words: they name the value and the limit.
fn check(result: i32) -> io::Result<()> {
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: valid until the next call of this thread that fails, and copied before.
    let words = unsafe { CStr::from_ptr(sys::opportune_last_error()) };
    let kind = io::Error::from_raw_os_error(-result).kind();
    Err(io::Error::new(kind, words.to_string_lossy()))
}

// A panic that leaves an `extern "C"` function aborts the program.
unsafe extern "C" fn run<Body: FnOnce()>(context: *mut c_void) {
    Box::from_raw(context.cast::<Body>())()
}

unsafe extern "C" fn cancel<Body>(context: *mut c_void) {
    drop(Box::from_raw(context.cast::<Body>()))
}

/// Hands the body to `accept`, which calls one of the two functions with it, once; neither if it fails.
fn hand_over<Body: FnOnce() + Send + 'static>(
    body: Body,
    accept: impl FnOnce(sys::opportune_function, sys::opportune_function, *mut c_void) -> i32,
) -> io::Result<()> {
    let context = Box::into_raw(Box::new(body));
    let result = accept(Some(run::<Body>), Some(cancel::<Body>), context.cast());
    if result < 0 {
        // SAFETY: it was not accepted, so it is still ours.
        drop(unsafe { Box::from_raw(context) });
    }
    check(result)
}

// Handles are no addresses: one that was released is an error. Any thread may make any call.

/// Dropping it runs what is queued; closures of suspended apps are dropped.
struct Scheduler(*mut sys::opportune_scheduler);

unsafe impl Send for Scheduler {}
unsafe impl Sync for Scheduler {}

impl Scheduler {
    fn new(quantum: u64) -> io::Result<Self> {
        let mut settings = MaybeUninit::<sys::opportune_settings>::zeroed();
        let mut raw = ptr::null_mut();
        // SAFETY: zeros are a value of each field, and the settings live through both calls.
        unsafe {
            let settings = settings.assume_init_mut();
            check(sys::opportune_settings_init(
                settings,
                size_of::<sys::opportune_settings>() as u32,
            ))?;
            settings.quantum = quantum;
            check(sys::opportune_scheduler_create(settings, &mut raw))?;
        }
        Ok(Scheduler(raw))
    }

    fn app(&self, name: &str, band: u32) -> io::Result<App> {
        let (name, mut raw) = (CString::new(name)?, ptr::null_mut());
        // SAFETY: the name is copied.
        check(unsafe { sys::opportune_app_create(self.0, name.as_ptr(), band as i32, &mut raw) })?;
        Ok(App(raw))
    }

    fn wait(&self) -> io::Result<()> {
        check(unsafe { sys::opportune_scheduler_wait(self.0, FOREVER) })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        unsafe { sys::opportune_scheduler_destroy(self.0, FOREVER) };
    }
}

struct App(*mut sys::opportune_app);

unsafe impl Send for App {}
unsafe impl Sync for App {}

impl App {
    fn submit(&self, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let priority = sys::OPPORTUNE_PRIORITY_NORMAL as i32;
        hand_over(body, |run, cancelled, context| unsafe {
            sys::opportune_submit_with(self.0, priority, run, cancelled, context)
        })
    }

    fn strand(&self, name: &str) -> io::Result<Strand> {
        let (name, mut raw) = (CString::new(name)?, ptr::null_mut());
        let priority = sys::OPPORTUNE_PRIORITY_LOW as i32;
        let ceiling = sys::OPPORTUNE_NO_CEILING;
        // SAFETY: the name is copied.
        check(unsafe {
            sys::opportune_strand_create(self.0, name.as_ptr(), priority, ceiling, &mut raw)
        })?;
        Ok(Strand(raw))
    }

    fn wait(&self) -> io::Result<()> {
        check(unsafe { sys::opportune_app_wait(self.0, FOREVER) })
    }

    /// Returns once the app executes nothing.
    fn suspend(&self) -> io::Result<()> {
        check(unsafe { sys::opportune_app_suspend(self.0) })?;
        check(unsafe { sys::opportune_app_wait_suspended(self.0, FOREVER) })
    }

    fn resume(&self) -> io::Result<()> {
        check(unsafe { sys::opportune_app_resume(self.0) })
    }

    fn statistics(&self) -> io::Result<sys::opportune_app_statistics> {
        let mut figures = MaybeUninit::<sys::opportune_app_statistics>::zeroed();
        let size = size_of::<sys::opportune_app_statistics>() as u32;
        check(unsafe { sys::opportune_app_read_statistics(self.0, figures.as_mut_ptr(), size) })?;
        // SAFETY: zeros are a value of each field.
        Ok(unsafe { figures.assume_init() })
    }
}

impl Drop for App {
    fn drop(&mut self) {
        unsafe { sys::opportune_app_release(self.0) };
    }
}

/// Runs its closures one after the other.
struct Strand(*mut sys::opportune_strand);

unsafe impl Send for Strand {}
unsafe impl Sync for Strand {}

impl Strand {
    fn submit(&self, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        hand_over(body, |run, cancelled, context| unsafe {
            sys::opportune_strand_submit_with(self.0, run, cancelled, context)
        })
    }
}

impl Drop for Strand {
    fn drop(&mut self) {
        unsafe { sys::opportune_strand_release(self.0) };
    }
}

fn main() -> io::Result<()> {
    const DOCUMENTS: usize = 2_000;
    const QUERIES: usize = 200;
    let indexed = Arc::new(AtomicUsize::new(0));
    let answers = Arc::new(Mutex::new(Vec::new())); // the foreground's alone: background must not hold it up
    let scheduler = Scheduler::new(5_000_000)?; // 5 ms of CPU time until a job is demoted
    let ui = scheduler.app("ui", sys::OPPORTUNE_FOREGROUND)?;
    let indexer = scheduler.app("indexer", sys::OPPORTUNE_BACKGROUND)?;
    let log = Arc::new(ui.strand("log")?);

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
        let (answers, log) = (answers.clone(), log.clone());
        ui.submit(move || {
            log.submit(move || answers.lock().unwrap().push(query))
                .expect("the log takes closures")
        })?;
    }
    ui.wait()?;
    let answered = answers.lock().unwrap().len();
    let meanwhile = indexed.load(Ordering::Relaxed);
    println!("{answered} queries answered, {meanwhile} of {DOCUMENTS} documents indexed meanwhile");

    indexer.suspend()?;
    println!(
        "the indexer stands still at {}",
        indexed.load(Ordering::Relaxed)
    );
    // A closure that will never run is dropped, as its app is terminated or the scheduler destroyed.
    let stopped = scheduler.app("stopped", sys::OPPORTUNE_BACKGROUND)?;
    stopped.suspend()?;
    let held = Arc::new(());
    let copy = held.clone();
    stopped.submit(move || drop(copy))?;
    assert_eq!(Arc::strong_count(&held), 2);
    check(unsafe { sys::opportune_app_terminate(stopped.0, FOREVER) })?;
    assert_eq!(Arc::strong_count(&held), 1);
    let refused = stopped.submit(|| ()).unwrap_err();
    println!("what ends is refused: {refused}");

    indexer.resume()?;
    scheduler.wait()?;
    println!("it ends at {}", indexed.load(Ordering::Relaxed));
    let figures = ui.statistics()?;
    println!(
        "{} jobs of the foreground, waiting p99 {} us",
        figures.submitted,
        figures.waiting.p99 / 1_000
    );
    drop(scheduler);
    assert_eq!(answers.lock().unwrap().len(), QUERIES);
    assert_eq!(indexed.load(Ordering::Relaxed), DOCUMENTS);
    Ok(())
}
