//! The library that `halfwink live preheat` makes servers load: a thread that sleeps until it is
//! asked to load lines of its own process ([`halfwink_live_preheat::helper`]). It replaces no
//! function, and a server that is never asked never sees it wake.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::sync::OnceLock;

use halfwink_live_preheat::shared::Shared;
use halfwink_live_preheat::{helper, VARIABLE};

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Runs when the library has been loaded, before the program's `main`.
extern "C" fn begin() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    // A file that cannot be had (another user's, a run that is over) leaves the server alone.
    let Ok(shared) = Shared::open(Path::new(&path)) else { return };
    if SHARED.set(shared).is_ok() {
        // SAFETY: the process has just begun.
        unsafe { helper::start(shared) };
        // SAFETY: the handler is a function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Threads do not survive a fork: the child gets its own.
extern "C" fn in_child() {
    if let Some(shared) = SHARED.get() {
        // SAFETY: the child of a fork has one thread.
        unsafe { helper::start(*shared) };
    }
}

#[used]
#[link_section = ".init_array"]
static BEGIN: extern "C" fn() = begin;
