//! What threads wait for: requests, interrupts, the network, the clock.

use halfwink_engine::{Class, Imbalance};
use halfwink_units::Time;

use super::core::{Account, Ends, Interrupt};
use super::program::Arrival;
use super::result::{close, CallCount, Run};
use super::span;
use super::world::{Event, Parked, World};

/// Background work (interrupts, data on the network) that a thread may have outstanding, in units:
/// one is done while the next is made (assumption).
const WINDOW: u64 = 2;

impl World<'_> {
    /// The core of the next interrupt: in turn, if several may have it.
    pub(super) fn interrupt_core(&mut self) -> usize {
        // No draw, so that kernels are compared on the same random numbers.
        self.next_interrupt += 1;
        self.interrupts_on[self.next_interrupt % self.interrupts_on.len()]
    }

    /// The interrupts of one unit, as one.
    pub(super) fn unit_interrupt(&mut self, core: usize, ends: Ends) -> Interrupt {
        let takes = span(self.kernel_ns(core, self.times.interrupt_ns));
        Interrupt { takes, account: Account::Interrupt, ends }
    }

    /// The interrupts that come while a thread's call runs; false if too many are still to be
    /// handled, in which case the thread waits.
    pub(super) fn post_background(&mut self, thread: usize) -> bool {
        if self.threads[thread].background >= WINDOW {
            self.threads[thread].parked = Parked::Background;
            return false;
        }
        self.threads[thread].background += 1;
        let core = self.interrupt_core();
        let interrupt = self.unit_interrupt(core, Ends::Background { thread });
        // Behind the call itself, which begins at this time too: the interrupt comes while it
        // runs.
        self.events.push(self.now, Class(2), Event::Interrupt { core, interrupt });
        true
    }

    pub(super) fn background_done(&mut self, thread: usize) {
        debug_assert!(
            self.threads[thread].background > 0,
            "background work ended that was not begun"
        );
        self.threads[thread].background -= 1;
        if self.threads[thread].parked == Parked::Background {
            self.threads[thread].parked = Parked::No;
            self.wake(thread);
        }
    }

    /// Puts a unit on the network; until when the thread has to wait, if too much is on it.
    pub(super) fn wire(&mut self) -> Option<Time> {
        let rate = self.workload.wire_per_s?;
        let unit_ns = self.workload.unit_amount / rate * 1e9;
        let unit = span(unit_ns);
        let passes = span(self.draws.around(unit_ns, self.workload.spread));
        // The wire sends one unit after the other; a thread that is behind meets a free one.
        let free = self.wire_free.0.max(self.now.0) + passes.0;
        self.wire_free = Time(free);
        // Until no more than the window is left on the wire, at its mean rate.
        let until = Time(free).saturating_sub(unit * WINDOW);
        (until > self.now).then_some(until)
    }

    /// A thread waits; an interrupt ends the wait, if none of the unit's come elsewhere.
    pub(super) fn wait(&mut self, thread: usize, until: Time) {
        if self.arrival == Arrival::Before && self.times.interrupt_ns > 0.0 {
            let core = self.interrupt_core();
            let interrupt = self.unit_interrupt(core, Ends::Wait { thread });
            self.events.push(until, Class(0), Event::Interrupt { core, interrupt });
        } else {
            self.events.push(until, Class(1), Event::Waited { thread });
        }
    }

    pub(super) fn waited(&mut self, thread: usize) {
        self.wake(thread);
    }

    /// The client asks for a batch.
    pub(super) fn batch(&mut self) {
        self.answered = 0;
        for _ in 0..self.workload.batch {
            let core = self.interrupt_core();
            let interrupt = self.unit_interrupt(core, Ends::Request);
            self.events.push(self.now, Class(0), Event::Interrupt { core, interrupt });
        }
    }

    /// A request is there.
    pub(super) fn request(&mut self) {
        self.requests += 1;
        // The lowest number first: any idle thread does, and runs repeat.
        let idle = self.threads.iter().position(|thread| thread.parked == Parked::Request);
        if let Some(thread) = idle {
            self.requests -= 1;
            self.threads[thread].parked = Parked::No;
            self.wake(thread);
        }
    }

    /// A thread has answered; false if no request is there for it, in which case it waits.
    pub(super) fn next_request(&mut self, thread: usize) -> bool {
        self.answered += 1;
        if self.answered == self.workload.batch as u64 {
            let pause_ns = self.times.wait_ns * self.workload.batch as f64;
            self.events.push(self.now + span(pause_ns), Class(0), Event::Batch);
        }
        if self.requests > 0 {
            self.requests -= 1;
            return true;
        }
        self.threads[thread].parked = Parked::Request;
        false
    }

    pub(super) fn tick(&mut self, core: usize) {
        let kernel = self.model.spec().kernel;
        let takes = span(self.kernel_ns(core, kernel.tick_ns));
        let interrupt = Interrupt { takes, account: Account::Tick, ends: Ends::Nothing };
        self.interrupt(core, interrupt);
        let next = self.now + span(1e9 / kernel.tick_hz);
        self.events.push(next, Class(0), Event::Tick { core });
    }

    pub(super) fn result(self) -> Result<Run, Imbalance> {
        let named = self.cores.iter().enumerate().map(|(n, core)| {
            let name = match n.checked_sub(self.apps) {
                None => format!("app{n}"),
                Some(os) => format!("os{os}"),
            };
            (name, self.kinds[n], core)
        });
        let (ledger, cores) = close(&named.collect::<Vec<_>>(), self.end)?;
        let seconds = self.end.as_s();
        let per_second = self.units as f64 * self.workload.unit_amount / seconds;
        let counts = self.workload.calls.iter().zip(self.made.iter().zip(&self.moved));
        let calls = counts
            .map(|(call, (&made, &moved))| CallCount { name: call.name.clone(), made, moved })
            .collect();
        let amount = per_second * self.workload.per_seconds;
        let power_w = self.slices.power.estimate().times(1e9);
        let units_per_s = self.slices.rate.estimate().times(1e9);
        let units = self.units;
        let pieces = self.slices.pieces;
        Ok(Run { seconds, units, amount, power_w, units_per_s, pieces, cores, calls, ledger })
    }
}
