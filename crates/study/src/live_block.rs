//! Completion policies of live block devices: by name, on the CPUs that serve.

use halfwink_eventlog::{replayer, Family, Header, Place, Replayer};
use halfwink_policy::completion::{CompletionPolicy, Place as Cpu, Topology};

use crate::error::StudyError;
use crate::techniques::{policy, resting, Choice, CompletionContext};

/// Name of the live world in logs.
pub(crate) const LIVE_BLOCK: &str = "live block";
/// The simulated world whose techniques decide in it.
const WORLD: &str = "storage";
/// The CPU that hears, where one does: the first that serves.
const HEARS: u16 = 0;

/// The policy of a technique with its parameters, and with a way to rest (`auto`, `own`, `gather`,
/// ...), for the CPUs that serve; and what it takes to make the same again.
///
/// # Errors
/// If there is no such technique, or no such way to rest.
pub fn live_block(
    technique: &str,
    rest: &str,
    topology: &Topology,
) -> Result<(CompletionPolicy, Header), StudyError> {
    let choice = Choice::parse(WORLD, technique)?;
    let context = CompletionContext { topology: topology.clone(), hears: HEARS };
    let made = resting(policy(&choice, &context)?, rest, topology)?;
    let places = (0..topology.cpus()).map(|cpu| {
        let Cpu { socket, cache } = topology.place(cpu);
        format!("{socket}/{cache}")
    });
    let cpus = places.collect::<Vec<_>>().join(" ");
    let header = Header::new(LIVE_BLOCK, Family::Completion, &choice.to_string())
        .on("", "live")
        .with([("cpus", cpus.as_str()), ("rest", rest)]);
    Ok((made, header))
}

/// A fresh policy, as a log's header has it.
pub(crate) fn fresh(
    header: &Header,
    technique: &str,
    place: Place,
) -> Result<Box<dyn Replayer>, StudyError> {
    let value = |key: &str| {
        let missing = || StudyError::Usage(format!("log of {LIVE_BLOCK}: it does not say `{key}`"));
        header.set.get(key).ok_or_else(missing)
    };
    if place.family != Family::Completion {
        let family = place.family;
        return Err(StudyError::Usage(format!("{LIVE_BLOCK} has no policy of `{family}`")));
    }
    let cpus = value("cpus")?;
    let places: Option<Vec<Cpu>> = cpus.split(' ').map(cpu).collect();
    // What a topology may be is its own to say, by a panic: a foreign file is asked before.
    let known = places.filter(|places| is_possible(places)).ok_or_else(|| {
        StudyError::Usage(format!("cpus `{cpus}`: expected socket/cache of each CPU, as 0/0 0/0"))
    })?;
    Ok(replayer(live_block(technique, value("rest")?, &Topology::new(known))?.0))
}

fn cpu(text: &str) -> Option<Cpu> {
    let (socket, cache) = text.split_once('/')?;
    Some(Cpu { socket: socket.parse().ok()?, cache: cache.parse().ok()? })
}

/// No cache in two sockets.
fn is_possible(places: &[Cpu]) -> bool {
    let mut sorted = places.to_vec();
    sorted.sort_unstable_by_key(|place| (place.cache, place.socket));
    let mixed = sorted.windows(2).any(|two| two[0].cache == two[1].cache && two[0] != two[1]);
    (1..=1 << 16).contains(&places.len()) && !mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_makes_the_same_policy_again() {
        let place = Place { family: Family::Completion, stream: 0 };
        let of = |socket, cache| Cpu { socket, cache };
        let topology = Topology::new(vec![of(0, 0), of(0, 1), of(1, 2)]);
        for rest in ["auto", "own", "polling"] {
            let (_, header) = live_block("cache-aware:by=cache", rest, &topology).unwrap();
            assert_eq!(header.set["cpus"], "0/0 0/1 1/2");
            assert!(fresh(&header, "dynamic:high=4,low=1", place).is_ok());
        }
    }

    #[test]
    fn what_a_foreign_header_says_is_looked_at() {
        let place = Place { family: Family::Completion, stream: 0 };
        let (_, header) = live_block("issuer", "own", &Topology::uniform(1, 2)).unwrap();
        let told = |key: &str, value: &str| {
            let changed = header.clone().with([(key, value)]);
            fresh(&changed, "issuer", place).err().unwrap().to_string()
        };
        for cpus in ["", "0", "0/0 1/0", "0/x", "0/0  0/0"] {
            assert!(told("cpus", cpus).contains("expected socket/cache"), "{cpus}");
        }
        assert!(told("rest", "never").contains("expected auto"));
        assert!(live_block("tap", "own", &Topology::uniform(1, 1)).is_err());
    }
}
