// Made by scripts/bind-rust of opportune.h with bindgen 0.60.1.

pub const OPPORTUNE_VERSION_MAJOR: u32 = 0;
pub const OPPORTUNE_VERSION_MINOR: u32 = 1;
pub const OPPORTUNE_VERSION_PATCH: u32 = 0;
pub const OPPORTUNE_VERSION: u32 = 256;
pub const OPPORTUNE_NO_CEILING: i32 = -1;
pub const OPPORTUNE_ADDRESS_SIZE: u32 = 128;
pub type __int32_t = std::os::raw::c_int;
pub type __uint32_t = std::os::raw::c_uint;
pub type __int64_t = std::os::raw::c_long;
pub type __uint64_t = std::os::raw::c_ulong;
extern "C" {
    pub fn opportune_version() -> u32;
    pub fn opportune_last_error() -> *const std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_scheduler {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_app {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_strand {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_listener {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_region {
    _unused: [u8; 0],
}
pub type opportune_function =
    ::std::option::Option<unsafe extern "C" fn(context: *mut std::os::raw::c_void)>;
pub const OPPORTUNE_BACKGROUND: opportune_band = 0;
pub const OPPORTUNE_FOREGROUND: opportune_band = 1;
pub const OPPORTUNE_REAL_TIME: opportune_band = 2;
pub type opportune_band = std::os::raw::c_uint;
pub const OPPORTUNE_PRIORITY_LOWEST: opportune_priority = 0;
pub const OPPORTUNE_PRIORITY_LOW: opportune_priority = 1;
pub const OPPORTUNE_PRIORITY_NORMAL: opportune_priority = 2;
pub const OPPORTUNE_PRIORITY_HIGH: opportune_priority = 3;
pub const OPPORTUNE_PRIORITY_HIGHEST: opportune_priority = 4;
pub type opportune_priority = std::os::raw::c_uint;
pub const OPPORTUNE_BACKGROUND_IDLE: opportune_background_class = 0;
pub const OPPORTUNE_BACKGROUND_NICE19: opportune_background_class = 1;
pub const OPPORTUNE_BACKGROUND_NICE19_LONG_SLICE: opportune_background_class = 2;
pub type opportune_background_class = std::os::raw::c_uint;
pub const OPPORTUNE_RECOVERY_FULL: opportune_recovery = 0;
pub const OPPORTUNE_RECOVERY_ONE_STEP: opportune_recovery = 1;
pub const OPPORTUNE_RECOVERY_NEVER: opportune_recovery = 2;
pub type opportune_recovery = std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_settings {
    pub size: u32,
    pub workers: u32,
    pub name: *const std::os::raw::c_char,
    pub quantum: u64,
    pub blocking_gap: u64,
    pub off_cpu_share: f64,
    pub demotion_step: u32,
    pub recovery: i32,
    pub overlap: u32,
    pub background_class: i32,
    pub demoted_per_core: u32,
    pub max_apps: u32,
    pub spare_delay: u64,
    pub real_time: u32,
    pub statistics: u32,
    pub memory_budget: u64,
    pub foreground_quantum: u64,
    pub foreground_share: f64,
}
extern "C" {
    pub fn opportune_settings_init(
        settings: *mut opportune_settings,
        size: u32,
    ) -> std::os::raw::c_int;
    pub fn opportune_scheduler_create(
        settings: *const opportune_settings,
        scheduler: *mut *mut opportune_scheduler,
    ) -> std::os::raw::c_int;
    pub fn opportune_scheduler_destroy(
        scheduler: *mut opportune_scheduler,
        timeout: i64,
    ) -> std::os::raw::c_int;
    pub fn opportune_scheduler_wait(
        scheduler: *mut opportune_scheduler,
        timeout: i64,
    ) -> std::os::raw::c_int;
    pub fn opportune_scheduler_width(scheduler: *mut opportune_scheduler) -> std::os::raw::c_int;
    pub fn opportune_scheduler_put_thread_in_foreground(
        scheduler: *mut opportune_scheduler,
    ) -> std::os::raw::c_int;
    pub fn opportune_app_create(
        scheduler: *mut opportune_scheduler,
        name: *const std::os::raw::c_char,
        band: std::os::raw::c_int,
        app: *mut *mut opportune_app,
    ) -> std::os::raw::c_int;
    pub fn opportune_app_release(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_set_band(
        app: *mut opportune_app,
        band: std::os::raw::c_int,
    ) -> std::os::raw::c_int;
    pub fn opportune_app_activate(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_background(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_band(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_suspend(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_resume(app: *mut opportune_app) -> std::os::raw::c_int;
}
pub const OPPORTUNE_ACTIVE: opportune_activity = 0;
pub const OPPORTUNE_SUSPENDING: opportune_activity = 1;
pub const OPPORTUNE_SUSPENDED: opportune_activity = 2;
pub type opportune_activity = std::os::raw::c_uint;
extern "C" {
    pub fn opportune_app_activity(app: *mut opportune_app) -> std::os::raw::c_int;
    pub fn opportune_app_wait_suspended(
        app: *mut opportune_app,
        timeout: i64,
    ) -> std::os::raw::c_int;
    pub fn opportune_app_wait(app: *mut opportune_app, timeout: i64) -> std::os::raw::c_int;
    pub fn opportune_app_terminate(app: *mut opportune_app, timeout: i64) -> std::os::raw::c_int;
    pub fn opportune_submit(
        app: *mut opportune_app,
        run: opportune_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn opportune_submit_with(
        app: *mut opportune_app,
        priority: std::os::raw::c_int,
        run: opportune_function,
        cancelled: opportune_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn opportune_strand_create(
        app: *mut opportune_app,
        name: *const std::os::raw::c_char,
        priority: std::os::raw::c_int,
        ceiling: std::os::raw::c_int,
        strand: *mut *mut opportune_strand,
    ) -> std::os::raw::c_int;
    pub fn opportune_strand_release(strand: *mut opportune_strand) -> std::os::raw::c_int;
    pub fn opportune_strand_submit(
        strand: *mut opportune_strand,
        run: opportune_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn opportune_strand_submit_with(
        strand: *mut opportune_strand,
        run: opportune_function,
        cancelled: opportune_function,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn opportune_strand_is_current(strand: *mut opportune_strand) -> std::os::raw::c_int;
}
pub type opportune_completion =
    ::std::option::Option<unsafe extern "C" fn(context: *mut std::os::raw::c_void, result: i64)>;
extern "C" {
    pub fn opportune_open(
        app: *mut opportune_app,
        path: *const std::os::raw::c_char,
        flags: std::os::raw::c_int,
        mode: u32,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_close(
        app: *mut opportune_app,
        descriptor: std::os::raw::c_int,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_read(
        app: *mut opportune_app,
        descriptor: std::os::raw::c_int,
        bytes: *mut std::os::raw::c_void,
        count: usize,
        offset: i64,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_write(
        app: *mut opportune_app,
        descriptor: std::os::raw::c_int,
        bytes: *const std::os::raw::c_void,
        count: usize,
        offset: i64,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_sync(
        app: *mut opportune_app,
        descriptor: std::os::raw::c_int,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_connect(
        app: *mut opportune_app,
        address: *const std::os::raw::c_char,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_connect_host(
        app: *mut opportune_app,
        host: *const std::os::raw::c_char,
        port: std::os::raw::c_int,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_receive(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        bytes: *mut std::os::raw::c_void,
        count: usize,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_send(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        bytes: *const std::os::raw::c_void,
        count: usize,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
}
pub const OPPORTUNE_RECEIVING: opportune_half = 0;
pub const OPPORTUNE_SENDING: opportune_half = 1;
pub const OPPORTUNE_BOTH: opportune_half = 2;
pub type opportune_half = std::os::raw::c_uint;
extern "C" {
    pub fn opportune_shutdown(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        half: std::os::raw::c_int,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_listen(
        app: *mut opportune_app,
        address: *const std::os::raw::c_char,
        backlog: std::os::raw::c_int,
        listener: *mut *mut opportune_listener,
    ) -> std::os::raw::c_int;
    pub fn opportune_listen_with(
        app: *mut opportune_app,
        address: *const std::os::raw::c_char,
        backlog: std::os::raw::c_int,
        no_delay: std::os::raw::c_int,
        reuses_port: std::os::raw::c_int,
        listener: *mut *mut opportune_listener,
    ) -> std::os::raw::c_int;
    pub fn opportune_listener_port(listener: *mut opportune_listener) -> std::os::raw::c_int;
    pub fn opportune_accept(
        listener: *mut opportune_listener,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_listener_close(listener: *mut opportune_listener) -> std::os::raw::c_int;
}
pub const OPPORTUNE_NO_DELAY: opportune_socket_option = 0;
pub const OPPORTUNE_KEEP_ALIVE: opportune_socket_option = 1;
pub const OPPORTUNE_REUSE_ADDRESS: opportune_socket_option = 2;
pub const OPPORTUNE_REUSE_PORT: opportune_socket_option = 3;
pub const OPPORTUNE_RECEIVE_BUFFER: opportune_socket_option = 4;
pub const OPPORTUNE_SEND_BUFFER: opportune_socket_option = 5;
pub type opportune_socket_option = std::os::raw::c_uint;
extern "C" {
    pub fn opportune_set_socket_option(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        option: std::os::raw::c_int,
        value: i64,
    ) -> std::os::raw::c_int;
    pub fn opportune_get_socket_option(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        option: std::os::raw::c_int,
    ) -> i64;
    pub fn opportune_socket_address(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        address: *mut std::os::raw::c_char,
    ) -> std::os::raw::c_int;
    pub fn opportune_datagram_socket(
        app: *mut opportune_app,
        address: *const std::os::raw::c_char,
        reuses_port: std::os::raw::c_int,
    ) -> std::os::raw::c_int;
    pub fn opportune_send_to(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        bytes: *const std::os::raw::c_void,
        count: usize,
        address: *const std::os::raw::c_char,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_receive_from(
        app: *mut opportune_app,
        socket: std::os::raw::c_int,
        bytes: *mut std::os::raw::c_void,
        count: usize,
        sender: *mut std::os::raw::c_char,
        timeout: i64,
        completion: opportune_completion,
        context: *mut std::os::raw::c_void,
    ) -> i64;
    pub fn opportune_region_create(
        app: *mut opportune_app,
        bytes: usize,
        region: *mut *mut opportune_region,
    ) -> std::os::raw::c_int;
    pub fn opportune_region_release(region: *mut opportune_region) -> std::os::raw::c_int;
}
pub type opportune_region_body = ::std::option::Option<
    unsafe extern "C" fn(
        context: *mut std::os::raw::c_void,
        bytes: *mut std::os::raw::c_void,
        count: usize,
        intact: std::os::raw::c_int,
    ) -> std::os::raw::c_int,
>;
extern "C" {
    pub fn opportune_region_use(
        region: *mut opportune_region,
        body: opportune_region_body,
        context: *mut std::os::raw::c_void,
    ) -> std::os::raw::c_int;
    pub fn opportune_region_is_purged(region: *mut opportune_region) -> std::os::raw::c_int;
    pub fn opportune_app_purge(app: *mut opportune_app) -> i64;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_waiting {
    pub samples: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_app_statistics {
    pub submitted: u64,
    pub pending: u64,
    pub turns: u64,
    pub cancelled: u64,
    pub cpu_time: u64,
    pub demotions: u64,
    pub restored: u64,
    pub stolen: u64,
    pub wakeups: u64,
    pub waiting: opportune_waiting,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_pool_statistics {
    pub working: u32,
    pub demoted: u32,
    pub sleeping: u32,
    pub reserved: u32,
    pub wakeups: u64,
    pub replaced: u64,
}
pub const OPPORTUNE_ACCESS_UNASKED: opportune_real_time_access = 0;
pub const OPPORTUNE_ACCESS_REFUSED: opportune_real_time_access = 1;
pub const OPPORTUNE_ACCESS_REALTIME_KIT: opportune_real_time_access = 2;
pub const OPPORTUNE_ACCESS_ROUND_ROBIN: opportune_real_time_access = 3;
pub type opportune_real_time_access = std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct opportune_scheduler_statistics {
    pub apps: u64,
    pub pending: u64,
    pub queue_memory: u64,
    pub lock_inversions: u64,
    pub lock_holders_raised: u64,
    pub cpus_cleared: u64,
    pub pools: [opportune_pool_statistics; 3usize],
    pub real_time_access: u32,
    pub reserved: u32,
    pub real_time_left: u64,
    pub real_time_exhausted: u64,
}
extern "C" {
    pub fn opportune_app_read_statistics(
        app: *mut opportune_app,
        statistics: *mut opportune_app_statistics,
        size: u32,
    ) -> std::os::raw::c_int;
    pub fn opportune_scheduler_read_statistics(
        scheduler: *mut opportune_scheduler,
        statistics: *mut opportune_scheduler_statistics,
        size: u32,
        timeout: i64,
    ) -> std::os::raw::c_int;
}
