//! What a policy asks for, as a matching: the one place where its answers are believed.

use halfwink_policy::circuits::{Action, CircuitsPolicy, Event};
use halfwink_policy::Host;
use halfwink_units::Time;

/// Asks the policy for the next day of a plane: fills in the destination of each sender, and
/// returns the day's length.
///
/// # Errors
///
/// A message of one line if an endpoint (named by `who`: host, rack) would send to two or receive
/// from two, or if there is no day.
pub(crate) fn ask(
    policy: &mut Host<CircuitsPolicy>,
    now: Time,
    (plane, slot): (u8, u32),
    who: &str,
    matching: &mut [Option<u16>],
) -> Result<Time, String> {
    matching.fill(None);
    let (mut day, mut wrong) = (None, None);
    let mut taken = vec![false; matching.len()];
    policy.deliver(now, &Event::Next { plane, slot }, |_, action| match action {
        Action::Join { plane: of, from, to } => {
            match (matching.get_mut(usize::from(from)), taken.get_mut(usize::from(to))) {
                (Some(free @ None), Some(receives)) if !*receives && of == plane => {
                    (*free, *receives) = (Some(to), true);
                }
                // Noted and not returned: the host takes all actions of a call.
                _ => wrong = Some(format!("{who} {from} cannot send to {to} as well")),
            }
        }
        Action::Day { length, .. } => day = Some(length),
    });
    match (day, wrong) {
        (Some(day), None) if day > Time::ZERO => Ok(day),
        (_, Some(wrong)) => Err(wrong),
        _ => Err("no day".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use halfwink_policy::circuits::Circuits;
    use halfwink_policy::{Policy, Snapshot};

    use super::*;

    /// Answers what it was told to.
    struct Told(VecDeque<Action>);

    impl Policy for Told {
        type Event = Event;
        type Action = Action;

        fn on_event(&mut self, _now: Time, _event: &Event) {}

        fn poll_action(&mut self) -> Option<Action> {
            self.0.pop_front()
        }

        fn snapshot(&self) -> Snapshot {
            vec![]
        }
    }

    impl Circuits for Told {}

    fn answer(joins: &[(u8, u16, u16)], day: Option<u64>) -> Result<Vec<Option<u16>>, String> {
        let joins = joins.iter().map(|&(plane, from, to)| Action::Join { plane, from, to });
        let day = day.map(|ns| Action::Day { plane: 0, length: Time::ns(ns) });
        let told: CircuitsPolicy = Box::new(Told(joins.chain(day).collect()));
        let mut matching = vec![None; 4];
        let asked = ask(&mut Host::new(told), Time::ZERO, (0, 7), "host", &mut matching);
        asked.map(|_| matching)
    }

    #[test]
    fn schedules_that_cannot_be_are_refused() {
        let good = answer(&[(0, 0, 1), (0, 1, 0)], Some(5)).unwrap();
        assert_eq!(good, [Some(1), Some(0), None, None]);
        let two_senders = answer(&[(0, 0, 2), (0, 1, 2)], Some(5));
        assert_eq!(two_senders.unwrap_err(), "host 1 cannot send to 2 as well");
        let two_receivers = answer(&[(0, 0, 1), (0, 0, 2)], Some(5));
        assert_eq!(two_receivers.unwrap_err(), "host 0 cannot send to 2 as well");
        for unknown in [(0, 4, 1), (0, 1, 4), (1, 0, 1)] {
            assert!(answer(&[unknown], Some(5)).is_err(), "{unknown:?}");
        }
        assert_eq!(answer(&[(0, 0, 1)], Some(0)).unwrap_err(), "no day");
        assert_eq!(answer(&[(0, 0, 1)], None).unwrap_err(), "no day");
    }
}
