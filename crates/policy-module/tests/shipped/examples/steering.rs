//! The shipped steering policies as a module: those that take no values of machines, with their
//! usual parameters.

use halfwink_policy::record::Fields;
use halfwink_policy::steering::{
    Always, AlwaysOn, Count, DreamWeaver, DreamWeaverParameters, OctopusMan, OctopusManParameters,
    Side, SleepTimer, SleepTimerParameters, SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_units::Time;

shipped::exports!("steering", 8, SteeringPolicy, policy_of);

const THRESHOLD: u32 = 4;

fn threshold(count: Count, wake_at: u32) -> SteeringPolicy {
    let linger = Time::ZERO;
    Box::new(Threshold::new(ThresholdParameters { threshold: THRESHOLD, count, wake_at, linger }))
}

fn policy_of(number: u32, start: &Fields) -> SteeringPolicy {
    let ms = |ms: u64| Time::ns(1_000_000 * ms);
    match number {
        0 => threshold(Count::Small, THRESHOLD),
        1 => threshold(Count::All, THRESHOLD),
        2 => threshold(Count::Small, THRESHOLD / 2),
        3 => Box::new(Always::new(Side::Big)),
        4 => Box::new(SleepTimer::new(SleepTimerParameters::power_nap())),
        5 => Box::new(SleepTimer::new(SleepTimerParameters::fixed(ms(50)))),
        6 => {
            let workers = start[1] as u32;
            Box::new(DreamWeaver::new(DreamWeaverParameters::published(workers, ms(20))))
        }
        7 => Box::new(OctopusMan::new(OctopusManParameters {
            period: ms(1000),
            ..OctopusManParameters::published(ms(100))
        })),
        _ => Box::new(AlwaysOn::new(THRESHOLD)),
    }
}
