//! Keeps every policy of every family from being left out by the linker: what they would import
//! from a host, this module imports.

use std::hint::black_box;

use halfwink_policy::Policy;

include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// Makes all of a policy's code reachable. The addresses are of no use; that they are taken is.
fn keep<P: Policy>() -> usize {
    let calls = [
        P::on_event as *const (),
        P::on_timer as *const (),
        P::next_timer as *const (),
        P::poll_action as *const (),
        P::snapshot as *const (),
    ];
    black_box(calls).len()
}

/// Returns the number of calls that are kept.
#[no_mangle]
pub extern "C" fn probe() -> usize {
    all()
}
