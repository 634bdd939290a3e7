//! Calls that move: the decision, the legs, the body, the way back.

use halfwink_engine::Class;
use halfwink_policy::offload::{Cause, Event as Told, KernelEntry, Place, Registers};
use halfwink_units::Time;

use super::core::{Account, Ends, Item, Then};
use super::program::{Arrival, Step};
use super::world::{Event, LegTimes, World};
use super::{span, Kernel};
use crate::model::{Configuration, CoreKind, Model, ModelError, Version};

impl World<'_> {
    /// Asks the policy where the call runs, and begins it: its body here, or the way out.
    pub(super) fn call(&mut self, core: usize, thread: usize, call: usize) -> Item {
        self.made[call] += 1;
        let asked = &self.workload.calls[call];
        let (number, asks) = (asked.number, asked.asks);
        let entry = KernelEntry {
            cause: Cause::SystemCall { number },
            args: [asks; 6],
            bytes_in_memory: Some(asks),
            registers: Registers::x86_64(0, u64::from(number), asks, asks),
        };
        let policy = &mut self.policies[core];
        let action = policy.decide(self.now, &Told::Enter(entry));
        let place = action.map_or(Place::Here, |a| a.place);
        let check_ns = action.map_or(0.0, |a| f64::from(a.decision_cycles));
        // The decision costs the application core its cycles whether the call moves or not.
        let check = span(check_ns / self.kinds[core].clock_ghz);
        let has_os = core < self.apps && self.apps < self.cores.len();
        // An OS core decides too, with its own policy, but its calls are where they would go.
        if place != Place::OsCore || !has_os {
            let mut item = self.body(core, thread, call);
            item.left += check;
            return item;
        }
        self.moved[call] += 1;
        let to = self.os_core(core);
        self.leave(core, to, thread, check, Some(call))
    }

    /// The least loaded OS core; among equals the one that belongs to this application core.
    fn os_core(&self, core: usize) -> usize {
        let os = self.cores.len() - self.apps;
        let own = self.apps + core % os;
        // The own OS core among equals: its caches hold what this core's calls used last.
        let key = |&to: &usize| (self.cores[to].load(), to != own, to);
        (self.apps..self.cores.len()).min_by_key(key).unwrap_or(own)
    }

    fn leave(
        &mut self,
        core: usize,
        to: usize,
        thread: usize,
        check: Time,
        body: Option<usize>,
    ) -> Item {
        // A source with other threads has to choose one and switch to it: `when_busy` names the
        // version of the mechanism that does so.
        let others = !self.cores[core].queue.is_empty();
        let leg = self.legs[usize::from(others)][core][to];
        let target = &mut self.cores[to];
        // A busy target finds the thread in its queue when it is done: it needs neither interrupt
        // nor power-up, only the line.
        let [source, gap, takes] = if !target.is_free() {
            [leg.awake[0], self.line, leg.target_busy]
        } else if target.is_idle() && target.sleep.is_off() {
            // The way out wakes it: the leg has the power-up in it.
            target.book(self.now);
            target.sleep.rouse(self.now);
            leg.asleep
        } else {
            leg.awake
        };
        let then = Then::Leave { to, gap, takes, body };
        let left = source + check;
        Item { thread, left, account: Account::Switch, call: None, then }
    }

    /// The body of a call on this core.
    pub(super) fn body(&mut self, core: usize, thread: usize, call: usize) -> Item {
        let step = self.steps[self.threads[thread].step];
        let body_ns = if let Step::Call { body_ns, .. } = step { body_ns } else { 0.0 };
        let mut ns = self.kernel_ns(core, body_ns);
        if core >= self.apps {
            // Data that the call reads or writes is in the application core's cache and moves line
            // by line.
            let lines = self.workload.calls[call].asks / 64;
            ns += lines as f64 * self.model.spec().mechanism.data_line_ns;
        }
        let (left, then) = (span(ns), Then::Return { call });
        Item { thread, left, account: Account::Call, call: Some(call), then }
    }

    pub(super) fn after_body(&mut self, core: usize, thread: usize, call: usize) -> Option<Item> {
        if self.arrival == Arrival::Device(call) {
            // The wait stands at the end of the call; what comes after it in the call is counted
            // with what comes before.
            let device_ns = self.workload.calls[call].device_ns.unwrap_or(0.0);
            let until = self.now + span(device_ns);
            let to = self.interrupt_core();
            let interrupt = self.unit_interrupt(to, Ends::Device { thread, core });
            self.events.push(until, Class(0), Event::Interrupt { core: to, interrupt });
            return None;
        }
        match self.away(core, thread) {
            Some(home) => Some(self.leave(core, home, thread, Time(0), None)),
            None => {
                self.threads[thread].step += 1;
                self.step(core, thread)
            }
        }
    }

    /// The core to which a thread has to go back, if it is on another.
    fn away(&self, core: usize, thread: usize) -> Option<usize> {
        self.threads[thread].home.filter(|&home| home != core)
    }

    /// The device of a call is done, and its interrupt handled.
    pub(super) fn device_done(&mut self, thread: usize, core: usize) {
        match self.away(core, thread) {
            Some(home) => {
                let item = self.leave(core, home, thread, Time(0), None);
                self.enqueue(core, item);
            }
            None => {
                self.threads[thread].step += 1;
                self.wake(thread);
            }
        }
    }

    pub(super) fn user_factor(&self, core: usize) -> f64 {
        let kind = self.kinds[core];
        kind.user_cycles * self.model.spec().reference_ghz / kind.clock_ghz
    }

    /// Nanoseconds of the program's kernel code that takes the reference core `ns`.
    pub(super) fn kernel_ns(&self, core: usize, ns: f64) -> f64 {
        ns * self.kernel_factors[core]
    }
}

/// Legs between all cores on the usual path, and on that of a source with other threads.
pub(super) fn legs(
    model: &Model,
    configuration: &Configuration,
    kinds: &[&CoreKind],
    kernel: &Kernel,
) -> Result<[Vec<Vec<LegTimes>>; 2], ModelError> {
    // Stock and bound kernels never move a call, so that they need no legs.
    let Kernel::Switching(name) = kernel else { return Ok([Vec::new(), Vec::new()]) };
    if configuration.os.is_empty() {
        let message = format!("`{}` has no OS core to switch to", configuration.name);
        return Err(ModelError::at("configurations", message));
    }
    let usual = model.version(name)?;
    let busy = usual.when_busy.as_ref().map_or(Ok(usual), |other| model.version(other))?;
    let mechanism = &model.spec().mechanism;
    let times = |version: &Version, source: &CoreKind, target: &CoreKind| {
        let takes = version.leg_cycles * (1.0 - mechanism.source_share);
        let at = |cycles: f64| {
            let leg = model.leg(version, configuration, [source, target], cycles);
            [leg.source_ns, leg.gap_ns, leg.target_ns].map(span)
        };
        LegTimes {
            asleep: at(mechanism.power_up_cycles),
            awake: at(0.0),
            target_busy: span(model.kernel_ns(target, configuration, takes)),
        }
    };
    let all = |version: &Version| -> Vec<Vec<LegTimes>> {
        let row = |&source: &&CoreKind| kinds.iter().map(|t| times(version, source, t)).collect();
        kinds.iter().map(row).collect()
    };
    Ok([all(usual), all(busy)])
}
