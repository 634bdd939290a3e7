//! Laws of offload: a core that enters the kernel and comes back.

use halfwink_policy::offload::{
    Action, Cause, Counts, Event, KernelEntry, OffloadPolicy, Registers, Sample, Traits,
};
use halfwink_techniques::{Choice, Gating, Make, Plan};
use halfwink_units::Time;

use super::{no_laws, Broken, Dice, Law, Machines};
use crate::error::StudyError;

/// Clock cycles of a move to another core.
const MOVE_CYCLES: u64 = 1000;

pub(super) struct Scene {
    is_faulty: bool,
}

fn entry(dice: &mut Dice) -> KernelEntry {
    let number = dice.below(400) as u32;
    let cause = match dice.below(4) {
        0 => Cause::Interrupt { vector: dice.below(256) as u8 },
        1 => Cause::Exception { vector: dice.below(32) as u8 },
        _ => Cause::SystemCall { number },
    };
    // Interrupts and exceptions have no arguments; a policy that learned from noise there would
    // differ from one in any world.
    let args = match cause {
        Cause::SystemCall { .. } => [0; 6].map(|_: u64| dice.below(1 << 20)),
        _ => [0; 6],
    };
    let bytes_in_memory = dice.comes(0.1).then(|| dice.below(1 << 20));
    let registers = Registers::x86_64(dice.below(8), number.into(), args[0], args[1]);
    KernelEntry { cause, args, bytes_in_memory, registers }
}

fn sample(dice: &mut Dice, kernel: u64) -> Sample {
    let user = dice.below(1 << 20);
    let mut counts = || {
        let accesses = dice.below(1 << 16);
        Counts { accesses, hits: dice.below(accesses + 1) }
    };
    let l2 = [counts(), counts()];
    let traits = Traits {
        fp: dice.below(user + 1),
        mispredicted: dice.below(1 << 10),
        l1d_misses: dice.below(1 << 12),
    };
    Sample { instructions: [user, kernel], l2, user: traits }
}

impl super::Scene for Scene {
    type Policy = OffloadPolicy;

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, OffloadPolicy), StudyError> {
        let Make::Gating(Gating { offload: Some(make), plan: Plan::Once, .. }) =
            choice.technique().make
        else {
            return Err(no_laws(choice));
        };
        Ok((Scene { is_faulty }, make(choice, MOVE_CYCLES, &[])))
    }

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn events(&mut self, _now: Time, dice: &mut Dice) -> Vec<Event> {
        let entry = entry(dice);
        let instructions = dice.time(Time(1 << 24)).0;
        let mut events = vec![Event::Enter(entry), Event::Exit { instructions }];
        events.push(Event::Sample(sample(dice, instructions)));
        // Returns and samples that are lost: the next entry comes all the same.
        if self.is_faulty && dice.comes(0.3) {
            events.truncate(1 + dice.below(2) as usize);
        }
        events
    }

    fn follow(
        &mut self,
        _now: Time,
        event: Option<&Event>,
        actions: &[Action],
        _dice: &mut Dice,
    ) -> Result<(), Broken> {
        let count = actions.len();
        match event {
            Some(Event::Enter(entry)) if count == 1 => {
                actions[0].check(entry).map_err(|found| (Law::Possible, found))
            }
            Some(Event::Enter(_)) => {
                let found = format!("answered {count} times, expected one place");
                Err((Law::Answers, found))
            }
            Some(_) if count <= 1 => Ok(()),
            None if count == 0 => Ok(()),
            _ => {
                let found = format!("requested {count} places unasked, expected one at most");
                Err((Law::Answers, found))
            }
        }
    }
}
