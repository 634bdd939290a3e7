//! What the policy asks for is done.

use halfwink_engine::draw::exponential;
use halfwink_policy::scaling::{Action, Depth, Event, Rest};
use halfwink_policy::StuckTimer;
use halfwink_techniques::router::Point;
use halfwink_units::Time;

use super::{World, NEVER};
use crate::cpu::Phase;

/// A moved entry: what came to `to` after `at` waits for what came to `from` before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) until: u64,
    pub(super) at: u64,
}

impl World<'_> {
    /// A P-state begins to hold, or the policy's timer rings.
    pub(super) fn on_special(&mut self, at: u64) -> Result<(), StuckTimer> {
        if self.changing.first().is_some_and(|c| c.0 == at) {
            let (_, step) = self.changing.remove(0);
            for cpu in &mut self.cpus {
                cpu.account(at, self.step, &self.watts);
            }
            self.step = step;
            self.refresh();
            return Ok(());
        }
        self.policy.expire(Time(at))?;
        self.act(at);
        Ok(())
    }

    pub(super) fn refresh(&mut self) {
        let point = Point { cores: self.in_use, step: self.step };
        self.service = self.model.service(self.app, point).0;
    }

    /// Does what the policy asks for.
    pub(super) fn act(&mut self, at: u64) {
        self.take_actions(at);
        // A policy hears of what its actions led to once all of them are done.
        while let Some(core) = self.newly_parked.pop_front() {
            self.policy.notify(Time(at), &Event::Empty { core });
            self.take_actions(at);
        }
        self.timer = self.policy.due().0;
    }

    #[inline]
    fn take_actions(&mut self, at: u64) {
        while let Some(action) = self.policy.next_action() {
            match action {
                Action::Rest { core, rest } => self.rest(usize::from(core), rest, at),
                Action::Move { entry, to, in_order } => self.redirect(at, entry, to, in_order),
                Action::SetStep { step } => {
                    self.wishes.fill(step);
                    self.asked = step;
                    self.change_step(at, step);
                }
                Action::Wish { core, step } => {
                    self.wishes[usize::from(core)] = step;
                    self.follow_wishes(at);
                }
                Action::Wake { core } => self.park(core, at, false),
                Action::Park { core } => self.park(core, at, true),
            }
        }
    }

    pub(super) fn rest(&mut self, core: usize, rest: Rest, at: u64) {
        let cpu = &mut self.cpus[core];
        cpu.account(at, self.step, &self.watts);
        // A parked core sleeps as deep as it can, whatever the policy says.
        let rest = if cpu.parked { Rest::Halt(Depth::C6) } else { rest };
        let alarm = cpu.rest(at, rest, &self.watts);
        self.next[core] = alarm.min(self.background(core, at));
        if let Some(raised) = self.fates.get(core).and_then(|fate| fate.raised(at)) {
            // It was told to rest otherwise while packets wait whose interrupt was lost.
            self.next[core] = self.next[core].min(raised);
        }
    }

    fn change_step(&mut self, at: u64, step: u8) {
        let settled = Time::from_ns(self.model.spec().cores.p_switch_us * 1e3).0;
        let holds = if at == 0 { 0 } else { at + settled };
        self.counts.changes += 1;
        self.changing.push((holds, step));
    }

    /// The rail follows the most demanding core that takes part.
    fn follow_wishes(&mut self, at: u64) {
        let taking_part = self.wishes.iter().zip(&self.cpus).filter(|(_, cpu)| !cpu.parked);
        let most = taking_part.map(|(&step, _)| step).max().unwrap_or(self.asked);
        if most != self.asked {
            self.asked = most;
            self.change_step(at, most);
        }
    }

    fn background(&mut self, core: usize, at: u64) -> u64 {
        let hz = self.model.spec().sleep.background_hz;
        if !self.options.background || hz <= 0.0 || self.cpus[core].phase != Phase::Rest {
            return NEVER;
        }
        at + (1e12 / hz * exponential(&mut self.noise)) as u64
    }

    pub(super) fn redirect(&mut self, at: u64, entry: u8, to: u8, in_order: bool) {
        self.keeps_order &= in_order;
        let from = usize::from(self.table.queue(u32::from(entry)));
        self.table.set(entry, to);
        let to = usize::from(to);
        let until = self.cpus[from].ring.put;
        if in_order && from != to && self.cpus[from].done < until {
            self.barriers.push(Barrier { from, to, until, at });
        }
    }

    pub(super) fn park(&mut self, core: u8, at: u64, parked: bool) {
        let core = usize::from(core);
        if self.cpus[core].parked == parked {
            return;
        }
        self.note_cores(at);
        self.counts.changes += 1;
        self.cpus[core].parked = parked;
        self.in_use = self.cpus.iter().filter(|cpu| !cpu.parked).count() as u8;
        self.refresh();
        self.follow_wishes(at);
        // One that rests already asks again how, and sleeps deeper.
        if parked && matches!(self.cpus[core].phase, Phase::Rest | Phase::Spin) {
            self.newly_parked.push_back(core as u8);
        }
    }
}
