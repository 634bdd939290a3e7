//! Chooses what goes to the kernel's bank, and steps back where the kernel runs little (Nellans
//! 2014, Sec 5.2.2 and 5.2.4).
//!
//! ```text
//!  SAMPLE each route ─▶ KEEP the one that missed least
//!  10 M instructions     for ever, or sampled again after a while
//!
//!  beside it, every 1 M instructions: kernel share < 10 % ─▶ interleaved banks, one LRU cache
//! ```

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, LookUp, Pending, Route, Rule, Sample, Segregation, Span};
use crate::{Policy, Snapshot};

/// Constants of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankChoiceParameters {
    /// Order in which banks are looked up.
    pub look_up: LookUp,
    /// The one route to keep to; none to choose.
    pub route: Option<Route>,
    /// Instructions for each route that is tried: 10 million.
    pub sample_instructions: u64,
    /// Instructions between looks at the kernel's share: 1 million.
    pub epoch_instructions: u64,
    /// Share of the kernel, in millionths, under which banks are interleaved: 100,000. 0: never.
    pub least_share_ppm: u64,
    /// Instructions after which routes are tried again; 0: never, as printed.
    pub again_instructions: u64,
}

impl BankChoiceParameters {
    /// Returns the published parameters.
    #[must_use]
    pub fn published(look_up: LookUp) -> BankChoiceParameters {
        BankChoiceParameters {
            look_up,
            route: None,
            sample_instructions: 10_000_000,
            epoch_instructions: 1_000_000,
            least_share_ppm: 100_000,
            again_instructions: 0,
        }
    }

    /// Divides all epochs by `by`, for short traces.
    #[must_use]
    pub fn shortened(mut self, by: u64) -> BankChoiceParameters {
        for epoch in [&mut self.sample_instructions, &mut self.epoch_instructions] {
            *epoch = (*epoch / by.max(1)).max(1);
        }
        self.again_instructions /= by.max(1);
        self
    }
}

/// Policy that chooses a route by trial.
#[derive(Clone, Debug)]
pub struct BankChoice {
    parameters: BankChoiceParameters,
    /// Index of the route that is being tried, while one is.
    tried: Option<usize>,
    /// Counters of that trial.
    trial: Sample,
    /// Best so far: misses of a million accesses, and route.
    best: Option<(u64, Route)>,
    /// Instructions since the choice.
    since: u64,
    interleaved: bool,
    pending: Pending,
}

impl BankChoice {
    /// A choice that has not begun.
    #[must_use]
    pub fn new(parameters: BankChoiceParameters) -> BankChoice {
        BankChoice {
            tried: parameters.route.is_none().then_some(0),
            parameters,
            trial: Sample::default(),
            best: None,
            since: 0,
            interleaved: false,
            pending: Pending::default(),
        }
    }

    fn route(&self) -> Route {
        let tried = self.tried.map(|index| Route::ALL[index]);
        let kept = || self.best.map(|(_, route)| route);
        self.parameters.route.or(tried).or_else(kept).unwrap_or_default()
    }

    fn rule(&self) -> Rule {
        if self.interleaved {
            Rule { look_up: self.parameters.look_up, ..Rule::LRU }
        } else {
            Rule::banks(self.route(), self.parameters.look_up)
        }
    }

    /// An epoch is over.
    fn on_sample(&mut self, sample: &Sample) {
        let before = self.rule();
        let total = sample.total_instructions();
        let share = u128::from(sample.instructions[1]) * 1_000_000;
        let least = u128::from(total) * u128::from(self.parameters.least_share_ppm);
        let was_interleaved = self.interleaved;
        self.interleaved = share < least;
        // What was counted in one cache says nothing about banks.
        if !was_interleaved {
            self.try_routes(sample);
        }
        if self.rule() != before {
            self.pending.rule = Some(self.rule());
        }
    }

    fn try_routes(&mut self, sample: &Sample) {
        let Some(index) = self.tried else {
            self.since += sample.total_instructions();
            let again = self.parameters.again_instructions;
            if again > 0 && self.since >= again && self.parameters.route.is_none() {
                (self.since, self.best, self.tried) = (0, None, Some(0));
            }
            return;
        };
        self.trial.add(sample);
        if self.trial.total_instructions() < self.parameters.sample_instructions {
            return;
        }
        let trial = core::mem::take(&mut self.trial);
        let misses = u128::from(trial.misses[0] + trial.misses[1]) * 1_000_000;
        let accesses = u128::from(trial.accesses[0] + trial.accesses[1]);
        let rate = (misses / accesses.max(1)) as u64;
        if self.best.is_none_or(|(best, _)| rate < best) {
            self.best = Some((rate, Route::ALL[index]));
        }
        self.tried = (index + 1 < Route::ALL.len()).then_some(index + 1);
    }
}

impl Policy for BankChoice {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            Event::Begin { .. } => self.pending.rule = Some(self.rule()),
            Event::Sample(sample) => self.on_sample(sample),
        }
        self.pending.after = Some(Span::Instructions(self.parameters.epoch_instructions));
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let route = match self.route() {
            Route::Data => 0,
            Route::Instructions => 1,
            Route::Both => 2,
        };
        vec![
            ("route", route),
            ("choosing", i64::from(self.tried.is_some())),
            ("interleaved", i64::from(self.interleaved)),
        ]
    }
}

impl Segregation for BankChoice {}
