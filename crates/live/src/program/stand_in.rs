//! A policy that takes over from one in a file of the user's, once that has failed.
//!
//! A live program does not end for a module that traps or uses up its fuel. After each call it
//! asks whether the policy failed ([`Watch::take`]), replaces it, and tells the new one the same
//! event again.

use serde::Serialize;

/// A policy, and the one that takes over if it fails. `N` is that other one, with what its program
/// needs to begin it.
pub struct Deciding<P, N> {
    /// The policy that decides.
    pub policy: P,
    /// The policy that takes over; none for policies that cannot fail.
    pub stand_in: Option<StandIn<N>>,
}

impl<P, N> From<P> for Deciding<P, N> {
    fn from(policy: P) -> Deciding<P, N> {
        Deciding { policy, stand_in: None }
    }
}

/// A policy that waits for another one to fail.
pub struct StandIn<N> {
    fault: Box<dyn Fn() -> Option<String> + Send>,
    name: String,
    next: N,
}

impl<N> StandIn<N> {
    /// Creates one that takes over as soon as `fault` returns what is wrong with the other.
    pub fn new(
        fault: impl Fn() -> Option<String> + Send + 'static,
        name: impl Into<String>,
        next: N,
    ) -> StandIn<N> {
        StandIn { fault: Box::new(fault), name: name.into(), next }
    }

    /// Returns the policy that would take over.
    pub fn next(&self) -> &N {
        &self.next
    }
}

/// Faults of policies in files, as reports have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyFaults {
    /// Policies in files that failed, and were replaced.
    pub policy_faults: u64,
    /// The last such fault: policy, time and event; null without one.
    pub policy_fault: Option<String>,
}

/// Watches the policy that decides.
pub struct Watch<N> {
    stand_in: Option<StandIn<N>>,
    faults: PolicyFaults,
}

impl<N> Watch<N> {
    /// Watches a policy, if another one stands in for it.
    #[must_use]
    pub fn new(stand_in: Option<StandIn<N>>) -> Watch<N> {
        Watch { stand_in, faults: PolicyFaults::default() }
    }

    /// Watches another policy from now on. Faults of earlier ones stay counted.
    pub fn watch(&mut self, stand_in: Option<StandIn<N>>) {
        self.stand_in = stand_in;
    }

    /// Returns the policy that takes over, once, if the one that decides has failed; that is said.
    #[inline]
    pub fn take(&mut self) -> Option<N> {
        let fault = (self.stand_in.as_ref()?.fault)()?;
        Some(self.taken(fault))
    }

    #[cold]
    fn taken(&mut self, fault: String) -> N {
        let StandIn { name, next, .. } = self.stand_in.take().expect("it has just failed");
        crate::say!("halfwink: {}; {name} decides from now on", super::config::plain(&fault));
        self.faults.policy_faults += 1;
        self.faults.policy_fault = Some(fault);
        next
    }

    /// Returns the faults up to now.
    #[must_use]
    pub fn faults(&self) -> PolicyFaults {
        self.faults.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn another_takes_over_once_and_is_counted() {
        let failed = Arc::new(AtomicBool::new(false));
        let stand_in = |next| {
            let failed = failed.clone();
            let fault = move || failed.load(Ordering::Relaxed).then(|| "a.wasm: it trapped".into());
            Some(StandIn::new(fault, "spin", next))
        };
        let mut watch = Watch::new(stand_in(1));
        assert_eq!((watch.take(), watch.faults()), (None, PolicyFaults::default()));
        failed.store(true, Ordering::Relaxed);
        assert_eq!((watch.take(), watch.take()), (Some(1), None));
        watch.watch(stand_in(2));
        assert_eq!(watch.take(), Some(2));
        let faults = watch.faults();
        assert_eq!(faults.policy_faults, 2);
        assert_eq!(faults.policy_fault.as_deref(), Some("a.wasm: it trapped"));
    }
}
