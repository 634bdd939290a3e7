//! What goes wrong with a device: answers that come late or never, interrupts that are lost.
//!
//! ```text
//!   taken ──▶ answered, late now and then ── interrupt ──▶ heard
//!     │                                   └─ or lost ─────▶ unheard ── next interrupt ──▶ heard
//!     └── never answered ── timeout ──▶ heard, as an error      └── or its timeout ──▶ heard
//! ```
//!
//! What Linux' NVMe driver does: at its timeout an I/O's completion is looked for, which finds what
//! an interrupt was lost for; else it is aborted and ends as an error. An answer that comes after
//! that is dropped (a request's generation tells).

use std::collections::VecDeque;

use halfwink_engine::draw::{comes, exponential};
use halfwink_engine::{stream, Stream};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use crate::description::{at_least, within, wrong, DescriptionError};

/// Faults that are injected; the default is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of I/Os that the device never answers, 0 to 1.
    pub io_lost: f64,
    /// Share of the others that it answers late, 0 to 1.
    pub io_late: f64,
    /// Mean delay of a late answer, in milliseconds; exponential.
    pub late_ms: f64,
    /// Share of the device's interrupts that are lost, 0 to 1.
    pub interrupt_lost: f64,
    /// An I/O that was not heard of so long after the device took it is looked for, or ends as an
    /// error; in milliseconds.
    pub timeout_ms: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            io_lost: 0.0,
            io_late: 0.0,
            late_ms: 0.0,
            interrupt_lost: 0.0,
            // Linux, nvme_core.io_timeout: 30 s.
            timeout_ms: 30_000.0,
        }
    }
}

/// Number of faults since the start, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// I/Os that ended as errors.
    pub errors: u64,
    /// I/Os that the device answered late.
    pub late: u64,
    /// Interrupts that were lost.
    pub interrupts_lost: u64,
    /// I/Os whose answer was found at their timeout.
    pub found: u64,
    /// Answers that came after the I/O had ended as an error.
    pub stale: u64,
}

/// A violated invariant, which holds under any faults: an error of the policy or of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// I/Os were issued and neither ended nor are they anywhere.
    #[error("{0} I/Os were issued, {1} ended or are on their way")]
    Unbalanced(u64, u64),
    /// An I/O ended that was not on its way.
    #[error("I/O {0} ended twice")]
    Twice(u32),
    /// A CPU waits although no event will wake it.
    #[error("CPU {0} rests for ever with {1} I/Os to see to")]
    Stranded(u16, usize),
}

impl Faults {
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        for (name, share) in [
            ("faults.io_lost", self.io_lost),
            ("faults.io_late", self.io_late),
            ("faults.interrupt_lost", self.interrupt_lost),
        ] {
            at_least(name, share, 0.0)?;
            within(name, share, 1.0)?;
        }
        at_least("faults.late_ms", self.late_ms, 0.0)?;
        // Else what is lost would be waited for for ever.
        if !(1e-3..=1e7).contains(&self.timeout_ms) {
            let message = format!("found {}, expected 0.001 to 10000000", self.timeout_ms);
            return Err(wrong("faults.timeout_ms", message));
        }
        Ok(())
    }

    /// Returns whether any fault is enabled.
    pub(crate) fn any(&self) -> bool {
        self.io_lost > 0.0 || self.io_late > 0.0 || self.interrupt_lost > 0.0
    }

    /// Creates the fault state of a device with at most `ios` I/Os, if any fault is enabled.
    pub(crate) fn of(&self, seed: u64, ios: usize) -> Option<Box<Fate>> {
        self.any().then(|| {
            Box::new(Fate {
                faults: *self,
                random: stream(seed, "faults of the device"),
                timeout: Time::from_ns(self.timeout_ms * 1e6).0,
                tickets: vec![0; ios],
                is_out: vec![false; ios],
                has_failed: vec![false; ios],
                deadlines: VecDeque::new(),
                unheard: Vec::new(),
                counts: FaultCounts::default(),
            })
        })
    }
}

/// Fault state of the I/Os at a device.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    faults: Faults,
    random: Stream,
    timeout: u64,
    /// Number of times that each I/O was taken: a completion of an earlier time is stale.
    tickets: Vec<u32>,
    /// Taken and not heard of.
    is_out: Vec<bool>,
    /// Heard of as an error.
    has_failed: Vec<bool>,
    /// Deadline of each I/O, in the order of time; finished ones are skipped.
    deadlines: VecDeque<(u64, u32, u32)>,
    /// Answered, and the CPU that would have been interrupted.
    unheard: Vec<(usize, u32)>,
    pub(crate) counts: FaultCounts,
}

impl Fate {
    /// The device takes an I/O: the ticket on its answer, and how late that is; none if there will
    /// be none.
    pub(crate) fn take(&mut self, now: u64, io: u32) -> (u32, Option<u64>) {
        let n = io as usize;
        self.tickets[n] = self.tickets[n].wrapping_add(1);
        self.is_out[n] = true;
        // One timeout for all keeps the deadlines in order, so that a queue does instead of a
        // heap.
        self.deadlines.push_back((now.saturating_add(self.timeout), io, self.tickets[n]));
        if comes(&mut self.random, self.faults.io_lost) {
            return (self.tickets[n], None);
        }
        let mut by = 0;
        if comes(&mut self.random, self.faults.io_late) {
            self.counts.late += 1;
            by = Time::from_ns(exponential(&mut self.random) * self.faults.late_ms * 1e6).0;
        }
        (self.tickets[n], Some(by))
    }

    /// Returns whether a completion is still expected, and counts stale ones.
    pub(crate) fn is_awaited(&mut self, io: u32, ticket: u32) -> bool {
        // The ticket tells this use of an I/O from an earlier one that timed out, as the
        // generation in the tag of Linux' NVMe driver does.
        let is_awaited = self.is_out[io as usize] && self.tickets[io as usize] == ticket;
        self.counts.stale += u64::from(!is_awaited);
        is_awaited
    }

    /// Draws whether the CPU's interrupt for this I/O is lost.
    pub(crate) fn loses_interrupt(&mut self, cpu: usize, io: u32) -> bool {
        let is_lost = comes(&mut self.random, self.faults.interrupt_lost);
        if is_lost {
            self.counts.interrupts_lost += 1;
            self.unheard.push((cpu, io));
        }
        is_lost
    }

    /// A CPU hears of an I/O, and of all that it should have heard of before.
    pub(crate) fn hear(&mut self, cpu: usize, io: u32, heard: &mut VecDeque<u32>) {
        // An interrupt handler reads the whole completion queue: whatever an earlier lost
        // interrupt was for is found now.
        self.unheard.retain(|&(of, before)| {
            if of == cpu && before != io {
                self.is_out[before as usize] = false;
                heard.push_back(before);
            }
            of != cpu
        });
        self.is_out[io as usize] = false;
        heard.push_back(io);
    }

    /// Returns the time of the next timeout.
    pub(crate) fn due(&mut self) -> u64 {
        while let Some(&(due, io, ticket)) = self.deadlines.front() {
            if self.is_out[io as usize] && self.tickets[io as usize] == ticket {
                return due;
            }
            self.deadlines.pop_front();
        }
        u64::MAX
    }

    /// The next times out: it is found, or has failed.
    pub(crate) fn expire(&mut self) -> Option<u32> {
        let (_, io, _) = self.deadlines.pop_front()?;
        // The device did answer and only its interrupt was lost: a look at the queue at the
        // timeout finds it, so that it is no error.
        if self.unheard.iter().any(|&(_, of)| of == io) {
            self.counts.found += 1;
        } else {
            self.has_failed[io as usize] = true;
        }
        Some(io)
    }

    /// Ends an I/O, and returns whether it failed.
    pub(crate) fn ends_as_error(&mut self, io: u32) -> bool {
        let failed = std::mem::take(&mut self.has_failed[io as usize]);
        self.counts.errors += u64::from(failed);
        failed
    }

    /// Returns the number of I/Os without a known result.
    pub(crate) fn out(&self) -> usize {
        self.is_out.iter().filter(|is_out| **is_out).count()
    }
}
