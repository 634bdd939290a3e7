//! Cores that have nothing to do with each other: each is a recurrence over its own arrivals
//! (Lindley 1952), played in the order in which they come. No event is queued.

use halfwink_engine::RunControl;
use halfwink_units::Time;

use crate::core::{Cores, Rang};
use crate::run::RunError;
use crate::source::Source;

pub(crate) fn play(
    cores: &mut Cores,
    source: &mut Source,
    control: &RunControl,
) -> Result<(), RunError> {
    let (start, end) = (cores.books.window.start, cores.books.window.end);
    let mut count = 0_u64;
    // All that came so far is done by then, on whichever core.
    let mut covered = Time::ZERO;
    while let Some(item) = source.next().filter(|item| item.at < end) {
        if count.is_multiple_of(65_536) {
            control.report(cores.tally.arrived)?;
        }
        count += 1;
        if item.at > covered {
            cores.tally.all_idle += item.at.saturating_sub(covered.max(start));
        }
        let n = item.core as usize;
        let free = cores.cores[n].free;
        let begin = if free < item.at { rest(cores, n, free, item.at, item.id)? } else { free };
        covered = covered.max(cores.work(n, begin, &item));
    }
    cores.tally.all_idle += end.saturating_sub(covered.max(start));
    for n in 0..cores.cores.len() {
        settle(cores, n, end)?;
    }
    Ok(())
}

/// The core rests until work comes; when it runs.
fn rest(cores: &mut Cores, n: usize, from: Time, until: Time, id: u64) -> Result<Time, RunError> {
    cores.begin_rest(n, from)?;
    while cores.cores[n].rest.due < until {
        let due = cores.cores[n].rest.due;
        if let Rang::Tick(resumed) = cores.ring(n, due, Time::ZERO)? {
            if resumed >= until {
                return Ok(resumed);
            }
            cores.begin_rest(n, resumed)?;
        }
    }
    cores.wake(n, until, id, Time::ZERO)
}

/// The core rests until the end of the run, if it is not busy.
fn settle(cores: &mut Cores, n: usize, end: Time) -> Result<(), RunError> {
    let free = cores.cores[n].free;
    if free >= end {
        return Ok(());
    }
    cores.begin_rest(n, free)?;
    while cores.cores[n].rest.due < end {
        let due = cores.cores[n].rest.due;
        if let Rang::Tick(resumed) = cores.ring(n, due, Time::ZERO)? {
            if resumed >= end {
                return Ok(());
            }
            cores.begin_rest(n, resumed)?;
        }
    }
    cores.settle(n);
    Ok(())
}
