//! The shipped completion policies as a module: those of drivers with one interrupt and one queue,
//! with their usual parameters.

use halfwink_policy::completion::{
    CacheAware, CacheAwareParameters, Completing, CompletionPolicy, Dynamic, DynamicParameters,
    Group, Issuer, Mapping, Place, RoundRobin, Same, SingleThread, Topology,
};
use halfwink_policy::record::Fields;
use halfwink_units::Time;

shipped::exports!("completion", 5, CompletionPolicy, policy_of);

fn aware(topology: &Topology, hears: u16) -> CacheAware {
    let parameters = CacheAwareParameters {
        by: Group::Socket,
        spared: Some(hears),
        high_permille: 950,
        low_permille: 500,
        period: Time::ns(10_000_000),
    };
    CacheAware::new(topology, parameters)
}

fn policy_of(number: u32, start: &Fields) -> CompletionPolicy {
    let [cpus, hears, socket, cache] = [0, 1, 2, 3].map(|n| start[n] as u16);
    let place = |cpu| Place { socket: cpu / socket, cache: cpu / cache };
    let topology = Topology::new((0..cpus).map(place).collect());
    fn boxed<M: Mapping + 'static>(mapping: M, cpus: u16) -> CompletionPolicy {
        Box::new(Completing::new(mapping, cpus))
    }
    match number {
        0 => boxed(SingleThread, cpus),
        1 => boxed(Same, cpus),
        2 => boxed(Issuer, cpus),
        3 => boxed(RoundRobin::new(&topology, Group::Socket, Some(hears)), cpus),
        4 => boxed(aware(&topology, hears), cpus),
        _ => {
            let parameters = DynamicParameters { high: 8, low: 1 };
            boxed(Dynamic::new(aware(&topology, hears), parameters), cpus)
        }
    }
}
