//! What the live parts can use of this machine.

use crate::idle::{Mechanism, Watch};
use crate::{clock, measure, router};

/// Names of features, and why each is not there; empty if it is.
#[must_use]
pub fn features() -> Vec<(&'static str, String)> {
    let records = Watch::begin(Some(Mechanism::SwitchRecords)).map(Watch::end).err();
    let ring = io_uring::IoUring::new(2).err().map(|e| e.to_string());
    let waits = measure::waits_in_hardware();
    let constant = clock::is_constant();
    let absent = |there: bool, why: &str| if there { String::new() } else { why.to_owned() };
    let [xdp, packets, tap] = router::sockets().map(|r| r.err().unwrap_or_default());
    vec![
        ("constant time-stamp counter", absent(constant, "its rate may change")),
        ("io_uring", ring.unwrap_or_default()),
        ("switch records", records.unwrap_or_default()),
        ("router: AF_XDP sockets", xdp),
        ("router: packet sockets", packets),
        ("router: TAP devices", tap),
        ("waiting in hardware", absent(waits, "neither WAITPKG nor MONITORX")),
    ]
}
