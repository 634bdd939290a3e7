//! Warm caches for the next request of an unmodified server on stock Linux (after Gottschlag 2016).
//!
//! ```text
//!  announcement, SYN, timer ─▶ daemon: policy ─▶ BPF program: lines of the kernel
//!                                          └───▶ thread in the server: its own lines, its pages
//!  estimate: evict, one request, time a load of each candidate ─▶ set, bound to build ids
//! ```
//!
//! `crates/preheat-preload` is what servers are made to load; all that it does is here
//! ([`helper`]), so that it can be tested without a server.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[cfg(feature = "host")]
pub mod client;
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod daemon;
pub mod helper;
pub mod shared;

#[cfg(feature = "host")]
pub mod bpf;
#[cfg(feature = "host")]
pub mod harness;
#[cfg(feature = "host")]
pub mod kernel;
#[cfg(feature = "host")]
pub mod learn;
#[cfg(feature = "host")]
pub mod load;
#[cfg(feature = "host")]
pub mod maps;
#[cfg(feature = "host")]
pub mod pages;
#[cfg(feature = "host")]
pub mod place;
#[cfg(feature = "host")]
pub mod set;
#[cfg(feature = "host")]
pub mod statistics;

/// Name of the variable that tells the preload library where to report.
pub const VARIABLE: &str = "HALFWINK_PREHEAT";

/// Returns the features of this machine that preheating uses, with reasons for missing ones.
#[cfg(feature = "host")]
#[must_use]
pub fn features() -> Vec<(&'static str, String)> {
    let image = kernel::Image::running();
    let programs = image.and_then(|image| bpf::Lines::open(&image)).err();
    let own = 0x1000..0x2000;
    vec![
        ("preheat: lines of the kernel", programs.unwrap_or_default()),
        ("preheat: restarts", bpf::Sockets::open().err().unwrap_or_default()),
        ("preheat: handshakes", daemon::Syn::open(0, 1).err().unwrap_or_default()),
        (
            "preheat: pages of servers",
            maps::pages(halfwink_live::sys::getpid(), &own, maps::Pages::Present)
                .err()
                .unwrap_or_default(),
        ),
        ("preheat: stopped servers", pages::freeze::may_stop().err().unwrap_or_default()),
    ]
}

/// Technique by which `halfwink replay` makes [`policy`] from a log.
#[cfg(feature = "host")]
pub const TECHNIQUE: &str = "preheat:late=skip,training=1,cores=1,only_cold=no";

/// Returns the policy of live programs: the published controller, with loads cut when the request
/// is due, since an unmodified server cannot be held back; one dump, since sets are learned
/// beforehand ([`learn`]).
#[cfg(feature = "host")]
#[must_use]
pub fn policy() -> halfwink_policy::preheat::PreheatPolicy {
    use halfwink_policy::preheat::{Late, Preheater, PreheaterParameters};
    let published = PreheaterParameters::published();
    let parameters = PreheaterParameters { training: 1, late: Late::Skip, cores: 1, ..published };
    Box::new(Preheater::new(parameters))
}

/// Returns what a test needs of the machine, or `None` with a message where rights are missing; any
/// other reason is a failure.
#[cfg(all(test, feature = "host"))]
fn skipped<T>(found: Result<T, String>) -> Option<T> {
    // SAFETY: no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    match found {
        Ok(found) => Some(found),
        Err(why) => {
            let required = std::env::var_os("HALFWINK_REQUIRE_ALL").is_some();
            assert!(!required && !is_root, "{why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}
