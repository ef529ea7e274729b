//! Preloaded into a server, this adds to its wall clock the microseconds that stand in the
//! file named by LEASEHOLD_TEST_CLOCK. Compiled by `src/clock.rs`, with no crate at all.

#![no_std]

use core::ffi::{c_char, c_int, c_long, c_void};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[repr(C)]
pub struct Timespec {
    sec: i64,
    nsec: i64,
}

#[repr(C)]
pub struct Timeval {
    sec: i64,
    usec: i64,
}

#[link(name = "c")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn close(fd: c_int) -> c_int;
}

#[cfg(target_arch = "x86_64")]
const SYS_CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const SYS_CLOCK_GETTIME: c_long = 113;
const CLOCK_REALTIME: c_int = 0;

fn offset_micros() -> i64 {
    let mut offset = 0i64;
    unsafe {
        let path = getenv(c"LEASEHOLD_TEST_CLOCK".as_ptr());
        if path.is_null() {
            return 0;
        }
        let fd = open(path, 0);
        if fd < 0 {
            return 0;
        }
        let got = read(fd, (&raw mut offset).cast(), 8);
        close(fd);
        if got == 8 { offset } else { 0 }
    }
}

fn wall_micros() -> i64 {
    let mut time = Timespec { sec: 0, nsec: 0 };
    unsafe { syscall(SYS_CLOCK_GETTIME, CLOCK_REALTIME, &raw mut time) };
    time.sec * 1_000_000 + time.nsec / 1_000 + offset_micros()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Timeval, _zone: *mut c_void) -> c_int {
    let now = wall_micros();
    unsafe { *time = Timeval { sec: now.div_euclid(1_000_000), usec: now.rem_euclid(1_000_000) } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(out: *mut i64) -> i64 {
    let now = wall_micros().div_euclid(1_000_000);
    if !out.is_null() {
        unsafe { *out = now };
    }
    now
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    if clock == CLOCK_REALTIME {
        let now = wall_micros();
        let (sec, nsec) = (now.div_euclid(1_000_000), now.rem_euclid(1_000_000) * 1_000);
        unsafe { *time = Timespec { sec, nsec } };
        return 0;
    }
    unsafe { syscall(SYS_CLOCK_GETTIME, clock, time) as c_int }
}
