//! Completion policies of live block devices: by name, on the CPUs that serve.

use halfwink_policy::completion::{CompletionPolicy, Place, Topology};

use crate::rows::resting;
use crate::{Choice, CompletionContext, Error};

/// Name of the live world in logs.
pub const LIVE_BLOCK: &str = "live block";
/// The simulated world whose techniques decide in it.
pub const WORLD: &str = "storage";
/// The CPU that hears, where one does: the first that serves.
const HEARS: u16 = 0;

/// A policy for the CPUs that serve, and what it takes to make the same again.
pub struct Made {
    /// The policy.
    pub policy: CompletionPolicy,
    /// The technique with its parameters, in its one spelling.
    pub technique: String,
    /// Values of a log's header, for [`again`].
    pub values: [(&'static str, String); 2],
}

/// Makes the policy of a technique with its parameters, and with a way to rest (`auto`, `own`,
/// `gather`, ...), for the CPUs that serve.
///
/// # Errors
/// The technique completes no I/Os (`policy`), or there is no such way to rest (`rest`).
pub fn make(
    choice: &Choice,
    rest: &str,
    topology: &Topology,
) -> Result<Made, (&'static str, Error)> {
    let context = CompletionContext { topology: topology.clone(), hears: HEARS };
    let policy = choice.completion(&context).map_err(|error| ("policy", error))?;
    let policy = resting(policy, rest, topology).map_err(|error| ("rest", error))?;
    let places = (0..topology.cpus()).map(|cpu| {
        let Place { socket, cache } = topology.place(cpu);
        format!("{socket}/{cache}")
    });
    let cpus = places.collect::<Vec<_>>().join(" ");
    let values = [("cpus", cpus), ("rest", rest.to_owned())];
    Ok(Made { policy, technique: choice.identity(), values })
}

/// Makes a fresh policy from a log's header, whose values are looked up by name.
///
/// # Errors
/// A value is missing, or is none that [`make`] has written.
pub fn again<'a>(
    technique: &str,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<CompletionPolicy, Error> {
    let value = |key: &str| {
        let missing = || Error::Usage(format!("log of {LIVE_BLOCK}: it does not say `{key}`"));
        value(key).ok_or_else(missing)
    };
    let cpus = value("cpus")?;
    let places: Option<Vec<Place>> = cpus.split(' ').map(place).collect();
    // `Topology::new` panics on impossible places, and the file may be anybody's.
    let known = places.filter(|places| is_possible(places)).ok_or_else(|| {
        Error::Usage(format!("cpus `{cpus}`: expected socket/cache of each CPU, as 0/0 0/0"))
    })?;
    let choice = Choice::parse(WORLD, technique)?.for_live();
    let made = make(&choice, value("rest")?, &Topology::new(known));
    Ok(made.map_err(|(_, error)| error)?.policy)
}

fn place(text: &str) -> Option<Place> {
    let (socket, cache) = text.split_once('/')?;
    Some(Place { socket: socket.parse().ok()?, cache: cache.parse().ok()? })
}

/// No cache in two sockets.
fn is_possible(places: &[Place]) -> bool {
    let mut sorted = places.to_vec();
    sorted.sort_unstable_by_key(|place| (place.cache, place.socket));
    let mixed = sorted.windows(2).any(|two| two[0].cache == two[1].cache && two[0] != two[1]);
    (1..=1 << 16).contains(&places.len()) && !mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(values: &[(&str, String)], technique: &str) -> Result<CompletionPolicy, Error> {
        let find = |key: &str| values.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        again(technique, find)
    }

    fn choice(technique: &str) -> Choice {
        Choice::parse(WORLD, technique).unwrap()
    }

    #[test]
    fn a_header_makes_the_same_policy_again() {
        let of = |socket, cache| Place { socket, cache };
        let topology = Topology::new(vec![of(0, 0), of(0, 1), of(1, 2)]);
        for rest in ["auto", "own", "polling"] {
            let made = make(&choice("cache-aware:by=cache"), rest, &topology).unwrap();
            assert_eq!(made.technique, "cache-aware:by=cache");
            assert_eq!(made.values[0], ("cpus", "0/0 0/1 1/2".to_owned()));
            assert!(from(&made.values, "dynamic:high=4,low=1").is_ok());
        }
    }

    #[test]
    fn a_foreign_header_is_refused_with_what_was_expected() {
        let Made { values, .. } = make(&choice("issuer"), "own", &Topology::uniform(1, 2)).unwrap();
        let told = |key: &str, value: &str| {
            let mut changed = values.clone();
            changed.iter_mut().filter(|(k, _)| *k == key).for_each(|(_, v)| value.clone_into(v));
            from(&changed, "issuer").err().unwrap().to_string()
        };
        for cpus in ["", "0", "0/0 1/0", "0/x", "0/0  0/0"] {
            assert!(told("cpus", cpus).contains("expected socket/cache"), "{cpus}");
        }
        assert!(told("rest", "never").contains("expected auto"));
        assert!(from(&values[..1], "issuer").err().unwrap().to_string().contains("`rest`"));
        let wrong = make(&choice("issuer"), "never", &Topology::uniform(1, 1));
        assert_eq!(wrong.err().map(|(key, _)| key), Some("rest"));
    }
}
