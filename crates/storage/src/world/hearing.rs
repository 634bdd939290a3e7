//! A CPU hears of an I/O: by an interrupt, when it asks, or when the I/O timed out.

use halfwink_policy::completion::Hears;

use super::cpu::Stage;
use super::{World, HEARS, TIMEOUTS};

impl World<'_, '_> {
    pub(super) fn device_done(&mut self, now: u64) {
        let Some((io, ticket)) = self.device.pop() else { return };
        self.lanes.set(self.device_lane(), self.device.due());
        let cpu = self.hears_of(io);
        if let Some(fate) = &mut self.fate {
            if !fate.is_awaited(io, ticket)
                // A poll reads the completion queue itself, so that it needs no interrupt to lose.
                || (self.hears != Hears::Polled && fate.loses_interrupt(cpu, io))
            {
                return;
            }
        }
        self.hear(cpu, now, io);
    }

    /// An I/O was not heard of in time: it is found, or ends as an error. What looks for it costs
    /// what an interrupt does (assumption).
    pub(super) fn time_out(&mut self, now: u64) {
        let Some(io) = self.fate.as_mut().and_then(|fate| fate.expire()) else { return };
        self.hear(self.hears_of(io), now, io);
    }

    /// The CPU that hears of an I/O.
    fn hears_of(&self, io: u32) -> usize {
        match self.hears {
            Hears::One => usize::from(HEARS),
            Hears::Issuer | Hears::Polled => usize::from(self.issuer(io)),
        }
    }

    fn hear(&mut self, cpu: usize, now: u64, io: u32) {
        if let Some(fate) = &mut self.fate {
            fate.hear(cpu, io, &mut self.cpus[cpu].heard);
            // Hearing of an I/O ends its deadline, which may have been the next one.
            self.lanes.set(self.cpus.len() + TIMEOUTS, fate.due());
        } else {
            self.cpus[cpu].heard.push_back(io);
        }
        self.attract(cpu, now, self.hears != Hears::Polled);
    }

    /// The CPU that issued an I/O.
    pub(super) fn issuer(&self, io: u32) -> u16 {
        self.issuers[io as usize]
    }

    /// There is something for a CPU: an interrupt takes it from what it issues, a mailbox waits.
    pub(super) fn attract(&mut self, cpu: usize, now: u64, interrupts: bool) {
        let it = &mut self.cpus[cpu];
        // Nothing is lost here: the work is in the CPU's queues already, and the end of its stage
        // or of its rest looks there.
        if !it.is_interruptible() || now < it.deaf_until {
            return;
        }
        if it.stage == Stage::Submit {
            if !interrupts {
                return;
            }
            debug_assert!(it.left.is_none(), "a submission was interrupted twice");
            it.left = Some(self.lanes.due(cpu) - now);
        }
        self.next(cpu, now);
    }
}
