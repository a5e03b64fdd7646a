//! Four functions of the C library, replaced in the program that links this crate: `clock_gettime`,
//! `epoll_wait`, `getrandom` and `getpid`.
//!
//! On a thread that has called [`show`] they answer with what a simulated process is to see. Everything
//! that production code reads (`Instant`, `SystemTime`, `CLOCK_BOOTTIME`, hash keys, UUIDs, the wait of
//! tokio's driver) goes through them, so that it runs unchanged in virtual time and in the same way each
//! time. On every other thread they are the system calls.

mod heap_usage;

pub use heap_usage::{CountingAllocator, bytes_held};

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_uint, c_void},
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};

/// What a process sees of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: Duration,
    /// `CLOCK_BOOTTIME`.
    pub boot: Duration,
    /// `CLOCK_REALTIME`.
    pub wall: Duration,
    /// The id of the process.
    pub pid: i32,
}

/// The wait of a runtime for its next event.
struct Idle {
    /// Who wants to know of it.
    waker: Option<Waker>,
    /// For how long the runtime would have waited; `Some(None)`: for ever.
    wait: Option<Option<Duration>>,
}

thread_local! {
    static VIEW: Cell<Option<View>> = const { Cell::new(None) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static IDLE: RefCell<Idle> = const { RefCell::new(Idle { waker: None, wait: None }) };
}

/// What this thread sees from now on; `None`: the real machine.
pub fn show(view: Option<View>) {
    heap_usage::allocate_for(view.map_or(0, |view| view.pid));
    VIEW.set(view);
}

/// The time that this process has had on a core, which is never simulated.
#[must_use]
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[allow(unsafe_code, reason = "a system call")]
    // SAFETY: the system call writes the timespec that it is given.
    unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_PROCESS_CPUTIME_ID,
            &raw mut time,
        );
    }
    let (seconds, nanos) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Where the random numbers of this thread begin.
pub fn seed(seed: u64) {
    RANDOM.set(seed);
}

/// Completes when the runtime that polls it has nothing to do, with the time until its next timer; `None`
/// if it has none. The runtime must have its I/O driver enabled, and this thread a [`View`].
pub async fn idle() -> Option<Duration> {
    poll_fn(|cx| {
        IDLE.with_borrow_mut(|idle| match idle.wait.take() {
            Some(wait) => Poll::Ready(wait),
            None => {
                idle.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    })
    .await
}

/// The next number of the sequence SplitMix64.
fn next_random() -> u64 {
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[allow(unsafe_code, reason = "the C library's functions are declared so")]
mod symbols {
    use super::{Duration, IDLE, VIEW, c_int, c_uint, c_void, next_random};

    #[unsafe(no_mangle)]
    extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
        let seen = VIEW.get().and_then(|view| match clock {
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE => {
                Some(view.monotonic)
            }
            libc::CLOCK_BOOTTIME => Some(view.boot),
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Some(view.wall),
            _ => None,
        });
        match seen {
            Some(seen) => {
                // SAFETY: the caller passes a timespec that may be written, as POSIX demands.
                unsafe {
                    (*time).tv_sec = seen.as_secs().try_into().unwrap_or(libc::time_t::MAX);
                    (*time).tv_nsec = seen.subsec_nanos().into();
                }
                0
            }
            // SAFETY: the arguments are the caller's, passed on as they are.
            None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int },
        }
    }

    #[unsafe(no_mangle)]
    extern "C" fn epoll_wait(
        epoll: c_int,
        events: *mut libc::epoll_event,
        most: c_int,
        timeout: c_int,
    ) -> c_int {
        if VIEW.get().is_none() {
            // SAFETY: the arguments are the caller's; without a mask `epoll_pwait` is `epoll_wait`.
            return unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait,
                    epoll,
                    events,
                    most,
                    timeout,
                    std::ptr::null::<c_void>(),
                    size_of::<u64>(),
                ) as c_int
            };
        }
        if timeout == 0 {
            return 0;
        }
        let waker = IDLE.with_borrow_mut(|idle| {
            idle.wait = Some(timeout.try_into().ok().map(Duration::from_millis));
            idle.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        0
    }

    #[unsafe(no_mangle)]
    extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
        if VIEW.get().is_none() {
            // SAFETY: the arguments are the caller's, passed on as they are.
            return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize };
        }
        for at in 0..length {
            let [byte, ..] = next_random().to_ne_bytes();
            // SAFETY: the caller passes a buffer of this length that may be written.
            unsafe { buffer.cast::<u8>().add(at).write(byte) };
        }
        isize::try_from(length).unwrap_or(isize::MAX)
    }

    #[unsafe(no_mangle)]
    extern "C" fn getpid() -> libc::pid_t {
        match VIEW.get() {
            Some(view) => view.pid,
            // SAFETY: this system call has no arguments and always succeeds.
            None => unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t },
        }
    }
}
