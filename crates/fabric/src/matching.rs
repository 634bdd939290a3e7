//! What a policy asks for, as a matching: the one place where its answers are believed.

use halfwink_policy::circuits::{Action, CircuitsPolicy, Event};
use halfwink_policy::Host;
use halfwink_units::Time;

/// Asks for the next day of a plane: fills in whom each sends to, and gives the day's length.
///
/// # Errors
/// In one line, if somebody (a `who`: host, rack) were to send to two or receive from two, or there
/// is no day.
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
