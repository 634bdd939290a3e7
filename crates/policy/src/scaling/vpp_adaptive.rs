//! VPP's adaptive input: polls while its vectors are long, waits for interrupts while they are
//! short.
//!
//! ```text
//!              ┌── 10 packets or more in the last 128 loops ──▶┐
//!          interrupt                                        polling
//!              └◀── one more poll ◀── 5 packets at most ◀──────┘
//! ```
//!
//! Follows FD.io VPP: `dispatch_node` of `src/vlib/main.c` (both changes and their thresholds,
//! which are of a whole window, not of a vector),
//! `vlib_node_runtime_update_main_loop_vector_stats` of
//! `src/vlib/node_funcs.h` (the window: the 128 loops before those that are counted now), and
//! `src/vlib/unix/input.c` (a worker whose inputs all wait for interrupts sleeps, 10 ms at most).
//! An adaptive interface begins by waiting for interrupts.
//!
//! Deviations: a worker has one input and nothing else to do, so a loop is a poll; that a worker
//! goes on looping while its loops average two vectors, or half a second after a barrier, is left
//! out. Empty polls that a packet cuts short are counted by their time.

use halfwink_units::Time;

use super::apart::{Apart, Resting};
use super::{Depth, Rest};

/// Value of `max_timeout_ms` in `unix/input.c`.
const TIMEOUT: Time = Time::ns(10_000_000);

/// Parameters of VPP's adaptive input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VppAdaptiveParameters {
    /// Cores that forward, each with a queue of its own.
    pub cores: u8,
    /// Loops of a window: `1 << VLIB_LOG2_MAIN_LOOPS_PER_STATS_UPDATE`.
    pub window: u32,
    /// Packets of a window from which on the input polls: `polling_threshold_vector_length`.
    pub to_polling: u32,
    /// Packets of a window up to which it waits for interrupts:
    /// `interrupt_threshold_vector_length`.
    pub to_interrupt: u32,
    /// Duration of an empty poll.
    pub empty_poll: Time,
    /// Idle state of a sleeping worker; the operating system chooses it.
    pub depth: Depth,
}

impl VppAdaptiveParameters {
    /// Returns the parameters with VPP's thresholds.
    #[must_use]
    pub const fn published(cores: u8, empty_poll: Time) -> VppAdaptiveParameters {
        VppAdaptiveParameters {
            cores,
            window: 128,
            to_polling: 10,
            to_interrupt: 5,
            empty_poll,
            depth: Depth::C1,
        }
    }
}

/// The input of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input {
    polling: bool,
    /// Whether it polls once more, while VPP's driver enables its interrupt, and then waits for
    /// that.
    leaving: bool,
    /// Main loops so far.
    loops: u64,
    /// Window of the last dispatch, counted from the start.
    window: u64,
    /// Packets of that window, and of the one before it.
    packets: [u32; 2],
    /// Time and number of polls that it was granted on its own, the last of which it reports.
    granted: Option<(Time, u32)>,
}

impl Input {
    /// Dispatches the input in a loop, in which it takes so many packets.
    fn dispatch(&mut self, taken: u32, p: &VppAdaptiveParameters) {
        let window = self.loops / u64::from(p.window);
        self.packets = match window - self.window {
            0 => self.packets,
            1 => [0, self.packets[0]],
            _ => [0, 0],
        };
        self.window = window;
        self.packets[0] = self.packets[0].saturating_add(taken);
        self.loops += 1;
        self.switch(self.packets[1], p);
    }

    /// Changes how it waits, by the packets of the last window.
    fn switch(&mut self, packets: u32, p: &VppAdaptiveParameters) {
        if !self.polling && packets >= p.to_polling {
            (self.polling, self.leaving) = (true, false);
        } else if self.polling && packets <= p.to_interrupt {
            self.polling = !core::mem::replace(&mut self.leaving, true);
        }
    }

    /// Polls to the first one that can change how it waits: that of the next window, but the very
    /// next one if it is leaving.
    fn until_next(&self, p: &VppAdaptiveParameters) -> u32 {
        let into = (self.loops % u64::from(p.window)) as u32;
        if self.leaving || into == 0 {
            1
        } else {
            p.window - into + 1
        }
    }
}

/// All workers take part for ever.
pub type VppAdaptive = Apart<Input>;

impl Apart<Input> {
    /// Starts with every input waiting for interrupts.
    #[must_use]
    pub fn new(parameters: VppAdaptiveParameters) -> VppAdaptive {
        let window = parameters.window.max(1);
        let parameters = VppAdaptiveParameters { window, ..parameters };
        Apart::alike(&Input::default(), parameters.cores, parameters)
    }
}

impl Resting for Input {
    type Parameters = VppAdaptiveParameters;

    fn polled(&mut self, now: Time, taken: u32, p: &VppAdaptiveParameters) {
        if taken == 0 {
            return;
        }
        if let Some((since, polls)) = self.granted.take() {
            let passed = now.saturating_sub(since).0 / p.empty_poll.0.max(1);
            self.loops += passed.min(u64::from(polls - 1));
        }
        self.dispatch(taken, p);
    }

    fn rest(&mut self, now: Time, p: &VppAdaptiveParameters) -> Rest {
        let polls = self.granted.take().map_or(1, |(_, polls)| polls);
        if self.polling {
            // All but the last change nothing: see `until_next`.
            self.loops += u64::from(polls - 1);
            self.dispatch(0, p);
        } else {
            // The loop goes round, but without an interrupt it does not dispatch the input.
            self.loops += 1;
        }
        if self.polling {
            let polls = self.until_next(p);
            self.granted = Some((now, polls));
            Rest::Again { polls }
        } else {
            Rest::HaltFor { span: TIMEOUT, depth: p.depth }
        }
    }
}
