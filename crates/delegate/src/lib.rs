//! The library that `halfwink live delegate` makes a program load: libc's own names for the calls
//! that can be delegated, over `halfwink_live_delegate`.
//!
//! What a wrapper does not see: calls that libc makes inside itself (`fread`, `getaddrinfo`,
//! `posix_spawn`), calls by inline assembly (Go), programs without dynamic linking. They run as
//! ever.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod arena;
mod calls;
mod descriptors;
mod identity;
mod jumps;
mod real;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use halfwink_live_delegate::shared::Shared;
use halfwink_live_delegate::{hub, VARIABLE};

/// Key whose destructor tells that a thread ends; `u32::MAX` while there is none.
static THREAD_END: AtomicU32 = AtomicU32::new(u32::MAX);

/// Runs when the library has been loaded, before the program's `main`.
extern "C" fn begin() {
    real::resolve();
    let mut key = 0;
    // SAFETY: the key outlives the call; the destructor takes any value.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        THREAD_END.store(key, Ordering::Relaxed);
    }
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    // A file that cannot be had (another user's, a run that is over) leaves the program alone.
    if let Ok((shared, options)) = Shared::open(Path::new(&path)) {
        hub::install(shared, options, thread_begins);
    }
}

#[used]
#[link_section = ".init_array"]
static BEGIN: extern "C" fn() = begin;

/// A value other than null makes libc call the destructor.
fn thread_begins() {
    let key = THREAD_END.load(Ordering::Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was created; the value is never followed.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    }
}

unsafe extern "C" fn thread_ends(_: *mut libc::c_void) {
    hub::detach();
}

/// Converts the kernel's answer as libc does.
#[inline]
fn result(answer: i64) -> i64 {
    if halfwink_live::sys::is_error(answer) {
        // SAFETY: libc gives each thread a valid place.
        unsafe { *libc::__errno_location() = -answer as i32 };
        return -1;
    }
    answer
}
