// Made by scripts/bind-rust of opportune-core.h with bindgen 0.60.1.

pub const OPPC_VERSION_MAJOR: u32 = 0;
pub const OPPC_VERSION_MINOR: u32 = 1;
pub const OPPC_VERSION_PATCH: u32 = 0;
pub const OPPC_VERSION: u32 = 256;
pub const OPPC_WORKERS_MAX: u32 = 1024;
pub const OPPC_APPS_MAX: u32 = 65536;
pub const OPPC_NAME_MAX: u32 = 63;
pub type __uint32_t = std::os::raw::c_uint;
pub type __int64_t = std::os::raw::c_long;
pub type __uint64_t = std::os::raw::c_ulong;
extern "C" {
    pub fn oppc_version() -> u32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_scheduler {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_app {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_strand {
    _unused: [u8; 0],
}
pub type oppc_function =
    ::std::option::Option<unsafe extern "C" fn(context: *mut std::os::raw::c_void)>;
pub const OPPC_BACKGROUND: oppc_band = 0;
pub const OPPC_FOREGROUND: oppc_band = 1;
pub type oppc_band = std::os::raw::c_uint;
pub const OPPC_CLASS_IDLE: oppc_class = 0;
pub const OPPC_CLASS_NICE19: oppc_class = 1;
pub const OPPC_CLASS_NORMAL: oppc_class = 2;
pub type oppc_class = std::os::raw::c_uint;
pub const OPPC_PRIORITY_HIGH: oppc_priority = 0;
pub const OPPC_PRIORITY_NORMAL: oppc_priority = 1;
pub const OPPC_PRIORITY_LOW: oppc_priority = 2;
pub type oppc_priority = std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_options {
    pub size: u32,
    pub foreground_workers: u32,
    pub background_workers: u32,
    pub background_class: u32,
    pub max_apps: u32,
    pub reserved: u32,
    pub stack_bytes: u64,
    pub name: *const std::os::raw::c_char,
}
extern "C" {
    pub fn oppc_scheduler_create(
        options: *const oppc_options,
        scheduler: *mut *mut oppc_scheduler,
    ) -> std::os::raw::c_int;
    pub fn oppc_scheduler_destroy(scheduler: *mut oppc_scheduler) -> std::os::raw::c_int;
    pub fn oppc_scheduler_wait(scheduler: *mut oppc_scheduler, timeout: i64)
        -> std::os::raw::c_int;
    pub fn oppc_app_create(
        scheduler: *mut oppc_scheduler,
        name: *const std::os::raw::c_char,
        band: std::os::raw::c_int,
        app: *mut *mut oppc_app,
    ) -> std::os::raw::c_int;
    pub fn oppc_app_release(app: *mut oppc_app);
    pub fn oppc_app_name(app: *const oppc_app) -> *const std::os::raw::c_char;
    pub fn oppc_app_set_band(app: *mut oppc_app, band: std::os::raw::c_int) -> std::os::raw::c_int;
    pub fn oppc_app_band(app: *const oppc_app) -> std::os::raw::c_int;
    pub fn oppc_app_suspend(app: *mut oppc_app) -> std::os::raw::c_int;
    pub fn oppc_app_resume(app: *mut oppc_app) -> std::os::raw::c_int;
    pub fn oppc_app_is_suspended(app: *const oppc_app) -> bool;
    pub fn oppc_app_wait_quiet(app: *mut oppc_app, timeout: i64) -> std::os::raw::c_int;
    pub fn oppc_app_wait(app: *mut oppc_app, timeout: i64) -> std::os::raw::c_int;
    pub fn oppc_submit(
        app: *mut oppc_app,
        run: oppc_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn oppc_submit_with(
        app: *mut oppc_app,
        priority: std::os::raw::c_int,
        run: oppc_function,
        cancelled: oppc_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn oppc_strand_create(
        app: *mut oppc_app,
        priority: std::os::raw::c_int,
        strand: *mut *mut oppc_strand,
    ) -> std::os::raw::c_int;
    pub fn oppc_strand_release(strand: *mut oppc_strand);
    pub fn oppc_strand_submit(
        strand: *mut oppc_strand,
        run: oppc_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn oppc_strand_submit_with(
        strand: *mut oppc_strand,
        run: oppc_function,
        cancelled: oppc_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn oppc_strand_is_current(strand: *const oppc_strand) -> bool;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_waiting {
    pub samples: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_app_statistics {
    pub submitted: u64,
    pub run: u64,
    pub cancelled: u64,
    pub pending: u64,
    pub running: u64,
    pub busy: u64,
    pub waiting: oppc_waiting,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct oppc_pool_statistics {
    pub workers: u32,
    pub working: u32,
    pub wakeups: u64,
    pub waiting: oppc_waiting,
}
extern "C" {
    pub fn oppc_app_read_statistics(
        app: *const oppc_app,
        statistics: *mut oppc_app_statistics,
        size: u32,
    ) -> std::os::raw::c_int;
    pub fn oppc_pool_read_statistics(
        scheduler: *const oppc_scheduler,
        band: std::os::raw::c_int,
        statistics: *mut oppc_pool_statistics,
        size: u32,
    ) -> std::os::raw::c_int;
}
