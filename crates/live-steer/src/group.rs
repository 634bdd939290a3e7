//! Machines that wake together and sleep together, such as those of one chassis: while the policy
//! wants one of them awake, all are, and the last one that may sleep lets all of them go.
//!
//! The policy decides on each machine by itself and knows of no groups. A machine that it sends to
//! sleep stays on for as long as its group is needed, and serves at once if it is asked to wake. A
//! machine that its group has woken is taken for asleep by the policy until the policy wakes it.

use halfwink_policy::steering::Side;
use halfwink_units::Time;

use super::machine::{Leave, Machine};
use super::meter::State;
use super::power::Wanted;
use super::steps::Inner;

/// State that a group shares: of those of its machines that can be reached.
struct Common {
    /// The policy wants one of them awake.
    is_needed: bool,
    /// All of them sleep, or may.
    are_allowed: bool,
    /// Latest time until which one of them stays on.
    held: Time,
}

impl Common {
    fn of<'a>(members: impl Iterator<Item = &'a Machine>) -> Common {
        let nothing = Common { is_needed: false, are_allowed: true, held: Time::ZERO };
        members.fold(nothing, |common, machine| {
            let is_leaving = machine.is_leaving();
            let is_allowed = match machine.state {
                State::Asleep => true,
                _ => is_leaving && machine.leave != Leave::Unasked,
            };
            Common {
                is_needed: common.is_needed || machine.wanted == Wanted::Awake,
                are_allowed: common.are_allowed && is_allowed,
                held: if is_leaving { common.held.max(machine.held) } else { common.held },
            }
        })
    }
}

impl Machine {
    /// Does what its group asks of it. Returns whether its keeper has something to do.
    fn follow(&mut self, now: Time, common: &Common) -> bool {
        match self.state {
            State::Asleep if common.is_needed => {
                self.become_(now, State::Waking);
                self.counts.followed += 1;
                self.follows = true;
                true
            }
            State::GoingDown if self.is_leaving() && self.leave != Leave::Begun => {
                let is_early = self.held < common.held && now < common.held;
                if common.is_needed || is_early {
                    // All are asked at one time, since what was said before may not hold any more.
                    self.leave = Leave::Unasked;
                }
                let is_waiting = self.leave == Leave::Allowed && !common.are_allowed;
                // It has been on up to now.
                let was_kept = std::mem::replace(&mut self.kept, true);
                self.book(now);
                self.kept = common.is_needed || is_waiting;
                if is_early {
                    self.held = common.held;
                }
                was_kept && !self.kept
            }
            _ => false,
        }
    }
}

impl Inner {
    /// Has the machines of each group wake together, and sleep together. A machine that cannot be
    /// reached is not waited for.
    pub fn gather(&mut self, now: Time) {
        for group in 0..self.machines.len() as u8 {
            let is_member = |m: &&mut Machine| m.group == Some(group) && m.state != State::Lost;
            let common = Common::of(self.machines.iter_mut().filter(is_member).map(|m| &*m));
            for machine in self.machines.iter_mut().filter(is_member) {
                if machine.follow(now, &common) {
                    self.ring.keeper_of(machine.side);
                }
                debug_assert!(
                    !(common.is_needed && machine.state == State::Asleep),
                    "no machine sleeps while its group is needed"
                );
            }
        }
    }

    /// Records that a machine which goes down may sleep. Returns whether its power is to be changed
    /// now.
    pub fn leave_service(&mut self, side: Side, now: Time) -> bool {
        let machine = self.of(side);
        if machine.state != State::GoingDown {
            return false;
        }
        if machine.wanted == Wanted::Awake {
            // It was on while it was asked about.
            machine.held = Time::NEVER;
            self.keep_on(side, now);
            return false;
        }
        if machine.is_held(now) {
            return false;
        }
        machine.leave = Leave::Allowed;
        if machine.group.is_some() {
            self.gather(now);
        }
        let machine = self.of(side);
        let is_now = machine.leave == Leave::Allowed && !machine.kept;
        if is_now {
            machine.book(now);
            machine.leave = Leave::Begun;
        }
        is_now
    }
}
