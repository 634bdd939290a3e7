//! The shipped circuits policies as a module: those of one plane, with their usual parameters.

use halfwink_policy::circuits::{
    Choose, CircuitsPolicy, Needed, Plan, Still, Turns, Week, WeekParameters,
};
use halfwink_policy::record::Fields;
use halfwink_units::Time;

shipped::exports!("circuits", 6, CircuitsPolicy, policy_of);

const DAY: Time = Time::ns(123_500);
const SHORT_DAY: Time = Time::ns(100_000);

fn policy_of(number: u32, start: &Fields) -> CircuitsPolicy {
    let [hosts, night, shortest, bytes_per_ms, ..] = *start;
    let hosts = hosts as u16;
    let needed = |choose| Box::new(Needed::new(hosts, choose, SHORT_DAY)) as CircuitsPolicy;
    let week = |plan| -> CircuitsPolicy {
        let (night, shortest) = (Time(night), Time(shortest));
        let week = (DAY + night) * u64::from(hosts - 1);
        Box::new(Week::new(WeekParameters { hosts, plan, week, night, shortest, bytes_per_ms }))
    };
    match number {
        0 => Box::new(Still::ring(hosts, 1)),
        1 => Box::new(Turns::round_robin(hosts, DAY)),
        2 => week(Plan::Shares),
        3 => week(Plan::Solstice { packet_bytes_per_ms: 0 }),
        4 => needed(Choose::Greedy),
        5 => needed(Choose::Heaviest),
        _ => needed(Choose::Estimated),
    }
}
