//! Moves an invocation that is expected to be longer than N: in hardware, or in software at every
//! kernel entry.
//!
//! Both use the same predictor and the same threshold; what differs is what a decision costs.

use alloc::vec;

use halfwink_units::Time;

use super::{
    Action, Cause, Event, KernelEntry, Offload, Parameters, Pending, Place, Predictor, Source,
    Threshold, HARDWARE_CYCLES, SOFTWARE_CYCLES,
};
use crate::{Policy, Snapshot};

/// Parameters of the policy.
#[derive(Clone, Debug)]
pub struct PredictedParameters {
    /// Parameters of the predictor.
    pub predictor: Parameters,
    /// N: an invocation moves if it is expected to be longer.
    pub threshold: Threshold,
    /// Cost of every decision, in cycles.
    pub decision_cycles: u32,
    /// The cause of the entry takes part in the hash. Not published: for study.
    pub hashes_cause: bool,
    /// Interrupts stay, and neither use nor train the predictor (Nellans 2014, Sec 4.6.2: a
    /// refinement that was not explored).
    pub leaves_out_interrupts: bool,
}

impl PredictedParameters {
    /// The published predictor in hardware.
    #[must_use]
    pub fn hardware(predictor: Parameters, threshold: Threshold) -> PredictedParameters {
        PredictedParameters {
            predictor,
            threshold,
            decision_cycles: HARDWARE_CYCLES,
            hashes_cause: false,
            leaves_out_interrupts: false,
        }
    }

    /// Dynamic instrumentation: the same by software, at every kernel entry.
    #[must_use]
    pub fn software(predictor: Parameters, threshold: Threshold) -> PredictedParameters {
        PredictedParameters {
            decision_cycles: SOFTWARE_CYCLES,
            ..PredictedParameters::hardware(predictor, threshold)
        }
    }
}

/// The policy of one core.
#[derive(Clone, Debug)]
pub struct Predicted {
    predictor: Predictor,
    threshold: Threshold,
    decision_cycles: u32,
    hashes_cause: bool,
    leaves_out_interrupts: bool,
    /// AState of the invocation that runs.
    running: Option<u64>,
    expected: u64,
    local: bool,
    pending: Pending,
}

impl Predicted {
    /// A policy that knows nothing yet.
    #[must_use]
    pub fn new(parameters: PredictedParameters) -> Predicted {
        Predicted {
            predictor: Predictor::new(parameters.predictor),
            threshold: parameters.threshold,
            decision_cycles: parameters.decision_cycles,
            hashes_cause: parameters.hashes_cause,
            leaves_out_interrupts: parameters.leaves_out_interrupts,
            running: None,
            expected: 0,
            local: false,
            pending: None,
        }
    }

    /// Expected length of the last invocation that was decided, in instructions.
    #[inline]
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns the present threshold, in instructions.
    #[inline]
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.threshold.instructions()
    }

    #[inline]
    fn enter(&mut self, entry: &KernelEntry) {
        // An invocation whose end was never told teaches nothing.
        self.running = None;
        if self.leaves_out_interrupts && matches!(entry.cause, Cause::Interrupt { .. }) {
            self.pending = Some(Action { place: Place::Here, decision_cycles: 0 });
            return;
        }
        let cause = if self.hashes_cause { entry.cause.code() } else { 0 };
        let astate = entry.registers.astate() ^ cause;
        let prediction = self.predictor.predict(astate);
        self.running = Some(astate);
        self.expected = prediction.instructions;
        self.local = prediction.source == Source::Local;
        let moves = prediction.instructions > self.threshold.instructions();
        let place = if moves { Place::OsCore } else { Place::Here };
        self.pending = Some(Action { place, decision_cycles: self.decision_cycles });
    }
}

impl Policy for Predicted {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            Event::Enter(entry) => self.enter(entry),
            Event::Exit { instructions } => {
                if let Some(astate) = self.running.take() {
                    self.predictor.train(astate, *instructions);
                }
            }
            Event::Sample(sample) => self.threshold.on_sample(sample),
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![
            ("threshold", self.threshold() as i64),
            ("expected", self.expected() as i64),
            ("local", i64::from(self.local)),
            ("entries", self.predictor.entries() as i64),
        ]
    }
}

impl Offload for Predicted {}
