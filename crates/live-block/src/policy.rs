//! Completion policies by name: `cache-aware:by=cache,high=900`.

use std::collections::BTreeMap;

use halfwink_policy::completion::{
    CacheAware, CacheAwareParameters, Completing, CompletionPolicy, Direct, Dynamic,
    DynamicParameters, Group, Hears, InterleavedTags, Issuer, Mapping, RoundRobin, Same,
    SingleThread, Topology,
};
use halfwink_policy::scaling::{Depth, L3fwdPause, Napi, Polling, ScalingPolicy, Suricata};
use halfwink_units::Time;

use crate::gather::Gather;

/// Names, for messages.
pub const NAMES: &str = "single-thread, same, issuer, round-robin-socket, cache-aware, dynamic, \
    msi-x, multi-queue, polled, hybrid-poll, interleaved-tags";
/// Ways to rest, for messages.
pub const RESTS: &str = "auto, own, gather, interrupt, polling, suricata, l3fwd-pause";

/// The CPU that hears, where one does.
const HEARS: u16 = 0;

struct Values<'a>(BTreeMap<&'a str, &'a str>);

impl Values<'_> {
    fn take<T: std::str::FromStr>(&mut self, key: &str, default: T) -> Result<T, String> {
        let Some(text) = self.0.remove(key) else { return Ok(default) };
        text.parse().map_err(|_| format!("{key}={text}: expected a whole number"))
    }

    fn group(&mut self, default: Group) -> Result<Group, String> {
        match self.0.remove("by") {
            None => Ok(default),
            Some("socket") => Ok(Group::Socket),
            Some("cache") => Ok(Group::Cache),
            Some(other) => Err(format!("by={other}: expected socket or cache")),
        }
    }
}

/// Makes one for these CPUs, of which the first hears where one does.
///
/// # Errors
/// What was found, and what was expected.
pub fn policy(text: &str, rest: &str, topology: &Topology) -> Result<CompletionPolicy, String> {
    let (name, values) = text.split_once(':').unwrap_or((text, ""));
    let pairs = values
        .split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').ok_or_else(|| format!("{pair}: expected key=value")));
    let mut values = Values(pairs.collect::<Result<_, _>>()?);
    let aware = |values: &mut Values<'_>| -> Result<CacheAware, String> {
        let mut p = CacheAwareParameters::published(HEARS);
        p.by = values.group(p.by)?;
        p.high_permille = values.take("high", p.high_permille)?;
        p.low_permille = values.take("low", p.low_permille)?;
        p.period = Time::ns(values.take("period_us", 10_000u64)?.clamp(1, 1_000_000) * 1_000);
        Ok(CacheAware::new(topology, p))
    };
    let spared = Some(HEARS);
    let made = match name {
        "single-thread" => with(SingleThread, rest, topology),
        "same" => with(Same, rest, topology),
        "issuer" => with(Issuer, rest, topology),
        "round-robin-socket" => {
            let by = values.group(Group::Socket)?;
            with(RoundRobin::new(topology, by, spared), rest, topology)
        }
        "cache-aware" => with(aware(&mut values)?, rest, topology),
        "dynamic" => {
            let high = values.take("from", 16)?;
            let low = values.take("until", 4)?;
            let others = aware(&mut values)?;
            with(Dynamic::new(others, DynamicParameters { high, low }), rest, topology)
        }
        "msi-x" => with(Direct::MSI_X, rest, topology),
        "multi-queue" => with(Direct::MULTI_QUEUE, rest, topology),
        "polled" => with(Direct::POLLED, rest, topology),
        "hybrid-poll" => with(Direct::HYBRID_POLL, rest, topology),
        "interleaved-tags" => {
            let threads = values.take("threads", topology.cpus())?.max(1);
            with(InterleavedTags::new(topology, threads, spared), rest, topology)
        }
        other => return Err(format!("policy `{other}`: expected {NAMES}")),
    };
    if let Some(key) = values.0.keys().next() {
        return Err(format!("policy `{name}` has no parameter `{key}`"));
    }
    made
}

fn with<M: Mapping + 'static>(
    mapping: M,
    rest: &str,
    topology: &Topology,
) -> Result<CompletionPolicy, String> {
    let cpus = topology.cpus();
    let polls = mapping.hears() == Hears::Polled;
    let made = Completing::new(mapping, cpus);
    let cores = u8::try_from(cpus).map_err(|_| format!("--rest {rest}: 255 CPUs at most"));
    let rests: ScalingPolicy = match rest {
        "own" => return Ok(Box::new(made)),
        // Who is not interrupted has a way of his own.
        "auto" if polls || cores.is_err() => return Ok(Box::new(made)),
        "auto" | "gather" => Box::new(Gather::new(cores?)),
        "interrupt" => Box::new(Napi::new(Depth::C1)),
        "polling" => Box::new(Polling::new()),
        "suricata" => Box::new(Suricata::new(cores?, Depth::C1)),
        "l3fwd-pause" => Box::new(L3fwdPause::new(cores?)),
        other => return Err(format!("rest `{other}`: expected {RESTS}")),
    };
    Ok(Box::new(made.resting(rests)))
}
