//! What a switch costs: two legs, each a race between a source that leaves and a target that takes
//! over (Strong 2013, Sec 3.2).
//!
//! ```text
//! source  ├ wake ┤├── save, choose, switch ──┤├ send ┤
//!              ╲ early wake                  │ signal: interrupt, or a store that is polled
//! target   power-up ┄┄┄┤├ resume ┤ poll …    ▼├ handler ┤├── switch, restore ──┤ runs
//! ```

use crate::model::{Configuration, CoreKind, Model, ModelError, Signal, Version};
use crate::profile::Workload;

/// One leg, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// The source is busy.
    pub source_ns: f64,
    /// Then nothing moves: a line travels, or the target powers up.
    pub gap_ns: f64,
    /// The target is busy, from its first instruction for this thread to the thread's own.
    pub target_ns: f64,
    /// The target was found polling or the signal was an interrupt by design; false if an early
    /// wake-up came too late.
    pub won: bool,
}

impl Leg {
    /// Returns the time from the call to the thread's first instruction on the target.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.source_ns + self.gap_ns + self.target_ns
    }
}

/// A call that switches twice and does nothing else, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// Time of the call itself.
    pub call_ns: f64,
    /// Way to the OS core.
    pub out: Leg,
    /// Back to the application core.
    pub back: Leg,
}

impl RoundTrip {
    /// Returns the time from the call until the thread continues in user mode, in nanoseconds.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.call_ns + self.out.total_ns() + self.back.total_ns()
    }
}

impl Model {
    /// A kind of core; configurations only name those that are there.
    pub(crate) fn kind(&self, name: &str) -> &CoreKind {
        &self.spec().cores[name]
    }

    /// Misses with the first-level caches of `configuration` over those with the first shape.
    fn l1_factor(&self, configuration: &Configuration) -> f64 {
        let l1 = &self.spec().l1;
        let base = l1.values().map(total).fold(0.0, f64::max);
        match configuration.l1.as_ref().and_then(|name| l1.get(name)) {
            Some(shape) if base > 0.0 => total(shape) / base,
            _ => 1.0,
        }
    }

    /// Time of kernel code on a core that takes the reference core `cycles`, in nanoseconds: cycles
    /// scale with the clock, misses do not.
    #[must_use]
    pub fn kernel_ns(&self, core: &CoreKind, configuration: &Configuration, cycles: f64) -> f64 {
        let misses = core.kernel_misses * self.l1_factor(configuration);
        cycles * (core.kernel_cycles / core.clock_ghz + misses * self.spec().l2_ns)
    }

    /// Time of a program's kernel code on each core of a configuration, application cores first,
    /// over that on the reference core.
    pub(crate) fn kernel_factors(&self, workload: &Workload, on: &Configuration) -> Vec<f64> {
        let code = workload.kernel_code.as_ref().map(|name| &self.spec().kernel_code[name]);
        let factor = |kind: &String| {
            let as_a_switch = || self.kernel_ns(self.kind(kind), on, self.spec().reference_ghz);
            code.and_then(|code| code.factor(kind, on)).unwrap_or_else(as_a_switch)
        };
        on.app.iter().chain(&on.os).map(factor).collect()
    }

    /// One leg of a version between two kinds of cores. `power_up_cycles` are the target's;
    /// `target_asleep` says whether it is there for nothing else.
    #[must_use]
    pub fn leg(
        &self,
        version: &Version,
        configuration: &Configuration,
        [source, target]: [&CoreKind; 2],
        power_up_cycles: f64,
    ) -> Leg {
        let m = &self.spec().mechanism;
        let on = |core: &CoreKind, cycles: f64| self.kernel_ns(core, configuration, cycles);
        let leaves_ns = on(source, version.leg_cycles * m.source_share);
        let takes_ns = on(target, version.leg_cycles * (1.0 - m.source_share));
        let send_ns = on(source, m.ipi_send_cycles);
        // The handler is cycles: it was measured at the reference clock.
        let handler_ns = m.ipi_handler_ns * self.spec().reference_ghz / target.clock_ghz;
        let power_up_ns = power_up_cycles / target.clock_ghz;
        let interrupted = Leg {
            source_ns: leaves_ns + send_ns,
            gap_ns: power_up_ns,
            target_ns: handler_ns + takes_ns,
            won: true,
        };
        match version.signal {
            Signal::Interrupt => interrupted,
            Signal::Poll => {
                Leg { source_ns: leaves_ns, gap_ns: m.line_ns, target_ns: takes_ns, won: true }
            }
            // The target powers up while the source still saves the thread: the longer of the two
            // counts, not their sum. That is the point of waking early.
            Signal::EarlyWake => {
                let wake_ns = on(source, m.wake_cycles);
                let signals_ns = wake_ns + leaves_ns;
                let awake_ns = wake_ns + power_up_ns;
                let polls_ns = awake_ns + on(target, m.resume_cycles);
                if polls_ns <= signals_ns {
                    let (source_ns, gap_ns) = (signals_ns, m.line_ns);
                    return Leg { source_ns, gap_ns, target_ns: takes_ns, won: true };
                }
                // The race is lost: an interrupt, taken when the target is up (Sec 3.2.6).
                let source_ns = signals_ns + send_ns;
                // The interrupt may be sent after the target is up, while it has not reached its
                // polling loop yet: then there is no gap.
                let gap_ns = (awake_ns - source_ns).max(0.0);
                Leg { source_ns, gap_ns, target_ns: handler_ns + takes_ns, won: false }
            }
        }
    }

    /// A round trip of an empty call from the first application core to the first OS core; without
    /// a version, the call alone.
    ///
    /// # Errors
    /// If there is no such version, or the configuration has no OS core.
    pub fn round_trip(
        &self,
        version: Option<&str>,
        configuration: &Configuration,
        power_up_cycles: f64,
    ) -> Result<RoundTrip, ModelError> {
        let app = self.kind(&configuration.app[0]);
        let none = Leg { source_ns: 0.0, gap_ns: 0.0, target_ns: 0.0, won: true };
        let call_ns = app.empty_call_ns;
        let Some(version) = version else {
            return Ok(RoundTrip { call_ns, out: none, back: none });
        };
        let version = self.version(version)?;
        let Some(os) = configuration.os.first() else {
            let message = format!("`{}` has no OS core to switch to", configuration.name);
            return Err(ModelError::at("configurations", message));
        };
        let os = self.kind(os);
        let leg = |pair| self.leg(version, configuration, pair, power_up_cycles);
        Ok(RoundTrip { call_ns, out: leg([app, os]), back: leg([os, app]) })
    }
}

fn total(shape: &crate::model::L1Shape) -> f64 {
    shape.instruction_misses + shape.data_misses
}
