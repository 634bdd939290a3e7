//! A week of circuits for a demand that a user has in a file.

use std::fmt::Write;

use halfwink_policy::circuits::{Balancer, Event, Plan, Week, WeekParameters, ONE};
use halfwink_policy::Policy;
use halfwink_units::Time;

use crate::error::StudyError;
use crate::table::{integer, real, text, Table};
use crate::world::Tables;

/// Most hosts of a file.
const MOST_HOSTS: usize = 2048;

/// The way in which a week is planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheduler<'a> {
    /// Either `traffic-matrix` or `solstice`.
    pub name: &'a str,
    /// Length of a week, in microseconds.
    pub week_us: f64,
    /// Length of a night, in microseconds.
    pub night_us: f64,
    /// Shortest day, in microseconds.
    pub shortest_us: f64,
    /// Rate of a circuit, in gigabits per second.
    pub gbps: f64,
}

/// Plans a week for a demand: a line for each sender with bytes for each receiver, by commas.
///
/// | table | a row for |
/// |---|---|
/// | `week` | a slot: length of its day in microseconds, its circuits as `0>1 1>2` |
/// | `facts` | a value: hosts, slots, sum of days and nights, largest error of a sum of shares |
///
/// # Errors
/// With the line of `path` that is wrong.
pub fn schedule(path: &str, content: &str, scheduler: &Scheduler) -> Result<Tables, StudyError> {
    let (hosts, demand) = read(path, content)?;
    let parameters = scheduler.parameters(hosts)?;
    let mut week = Week::new(parameters);
    for (n, &bytes) in demand.iter().enumerate() {
        let (from, to) = ((n / hosts) as u16, (n % hosts) as u16);
        week.on_event(Time::ZERO, &Event::Demand { from, to, bytes });
    }
    week.plan();
    let mut table = Table::new(&[integer("slot"), real("day_us"), text("circuits")]);
    let (mut days, mut slots) = (Time::ZERO, 0_u64);
    for (day, matching) in week.days() {
        let mut circuits = String::new();
        // A host that is joined with itself has no circuit: it completes the permutation.
        let pairs = matching.iter().enumerate().filter(|(from, to)| *from != usize::from(**to));
        for (from, to) in pairs {
            let gap = if circuits.is_empty() { "" } else { " " };
            let _ = write!(circuits, "{gap}{from}>{to}");
        }
        table.push(vec![slots.into(), (day.as_ns() * 1e-3).into(), circuits.as_str().into()]);
        slots += 1;
        days += day;
    }
    let mut facts = Table::new(&[text("fact"), real("value")]);
    // A night goes with every day, also with the last one: weeks follow each other.
    let used = days + parameters.night * slots;
    for (fact, value) in [
        ("hosts", hosts as f64),
        ("slots", slots as f64),
        ("days_us", days.as_ns() * 1e-3),
        ("week_us", used.as_ns() * 1e-3),
        ("duty_pct", 100.0 * days.as_s() / used.as_s()),
        ("sum_error", sum_error(hosts, &demand)),
    ] {
        facts.push(vec![fact.into(), value.into()]);
    }
    Ok(vec![("week", table), ("facts", facts)])
}

/// Returns how far a sum of shares is from one.
fn sum_error(hosts: usize, demand: &[u64]) -> f64 {
    let mut shares = vec![0; hosts * hosts];
    Balancer::new(hosts).shares(demand, &mut shares);
    let rows = shares.chunks_exact(hosts).map(|row| row.iter().sum::<u64>());
    let columns = (0..hosts).map(|to| shares.iter().skip(to).step_by(hosts).sum());
    let worst = rows.chain(columns).map(|sum| sum.abs_diff(ONE)).max().unwrap_or(0);
    worst as f64 / ONE as f64
}

impl Scheduler<'_> {
    fn parameters(&self, hosts: usize) -> Result<WeekParameters, StudyError> {
        let plan = match self.name {
            "traffic-matrix" => Plan::Shares,
            // No packet switch beside the circuits: what it would carry is planned for circuits as
            // well.
            "solstice" => Plan::Solstice { packet_bytes_per_ms: 0 },
            other => {
                let known = ["traffic-matrix", "solstice"];
                return Err(StudyError::unknown("scheduler", other, known));
            }
        };
        let us = |name: &str, us: f64, least: f64| {
            if us.is_finite() && (least..=1e10).contains(&us) {
                return Ok(Time::from_ns(1e3 * us));
            }
            Err(StudyError::Usage(format!("{name} of {us} us: expected {least} to 1e10")))
        };
        let (night, shortest) =
            (us("night", self.night_us, 0.0)?, us("day", self.shortest_us, 1e-3)?);
        let week = us("week", self.week_us, 1e-3)?;
        if night + shortest > week {
            let message = format!(
                "a week of {} us has no room for a night of {} us and a day of {} us",
                self.week_us, self.night_us, self.shortest_us
            );
            return Err(StudyError::Usage(message));
        }
        if !(self.gbps.is_finite() && (1e-3..=1e6).contains(&self.gbps)) {
            let message = format!("rate of {} Gb/s: expected 0.001 to 1e6", self.gbps);
            return Err(StudyError::Usage(message));
        }
        // Gb/s are 125,000 B/ms. A file has at most 2048 lines.
        let bytes_per_ms = (self.gbps * 125e3) as u64;
        Ok(WeekParameters { hosts: hosts as u16, plan, week, night, shortest, bytes_per_ms })
    }
}

/// Hosts, and bytes by rows of senders.
fn read(path: &str, content: &str) -> Result<(usize, Vec<u64>), StudyError> {
    let lines = || content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let hosts = lines().count();
    let at = |line: usize, message: String| StudyError::Usage(format!("{path}:{line}: {message}"));
    if !(2..=MOST_HOSTS).contains(&hosts) {
        return Err(at(
            1,
            format!("found {hosts} lines, expected one for each of 2 to 2048 hosts"),
        ));
    }
    let mut demand = Vec::with_capacity(hosts * hosts);
    for (n, line) in lines() {
        let before = demand.len();
        for cell in line.split(',') {
            let bytes = cell.trim().parse::<u64>().map_err(|_| {
                at(n + 1, format!("found `{:.60}`, expected a whole number of bytes", cell.trim()))
            })?;
            demand.push(bytes);
        }
        let found = demand.len() - before;
        if found != hosts {
            return Err(at(n + 1, format!("found {found} values, expected {hosts}, as lines")));
        }
    }
    Ok((hosts, demand))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Value;

    const PLAN: Scheduler = Scheduler {
        name: "traffic-matrix",
        week_us: 1000.0,
        night_us: 10.0,
        shortest_us: 60.0,
        gbps: 10.0,
    };

    #[test]
    fn a_demand_becomes_a_week() {
        let tables = schedule("d.csv", "0,9,1\n1,0,9\n9,1,0\n", &PLAN).unwrap();
        let (week, facts) = (&tables[0].1, &tables[1].1);
        assert_eq!(week.get(0, "circuits"), Some(&"0>1 1>2 2>0".into()));
        assert_eq!(week.len(), 2);
        // Shares are whole parts of 2^40.
        let Some(Value::Real(week_us)) = facts.get(3, "value") else { panic!("no week") };
        assert!((week_us - 1000.0).abs() < 1e-5, "{week_us}");
        assert_eq!(facts.get(5, "value"), Some(&0.0.into()));
    }

    #[test]
    fn wrong_lines_are_named() {
        let error =
            |text: &str, plan: &Scheduler| schedule("d.csv", text, plan).unwrap_err().to_string();
        assert_eq!(
            error("0,1\n1,x\n", &PLAN),
            "d.csv:2: found `x`, expected a whole number of bytes"
        );
        assert_eq!(error("0,1\n1\n", &PLAN), "d.csv:2: found 1 values, expected 2, as lines");
        assert!(error("", &PLAN).starts_with("d.csv:1: found 0 lines"));
        assert!(error("0,1\n1,0\n", &Scheduler { week_us: 50.0, ..PLAN }).contains("no room"));
        assert!(error("0,1\n1,0\n", &Scheduler { name: "solstic", ..PLAN }).contains("solstice"));
    }
}
