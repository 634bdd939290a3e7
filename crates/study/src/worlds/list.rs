//! The only list of worlds, and worlds by name.

use halfwink_engine::nearest;

use crate::error::StudyError;
use crate::world::World;
use crate::worlds::chip::Chip;
use crate::worlds::fabric::Fabric;
use crate::worlds::node::Node;
use crate::worlds::preheat::Preheat;
use crate::worlds::racks::Racks;
use crate::worlds::router::Router;
use crate::worlds::server::Server;
use crate::worlds::storage::Storage;
use crate::worlds::switching::Switching;
use crate::worlds::toy::Toy;

/// Every world. The only list of them.
pub const WORLDS: &[&dyn World] =
    &[&Chip, &Node, &Router, &Server, &Switching, &Preheat, &Fabric, &Racks, &Storage, &Toy];

/// A world by name.
///
/// # Errors
/// If this build has none of that name.
pub fn world(name: &str) -> Result<&'static dyn World, StudyError> {
    let found = WORLDS.iter().find(|world| world.name() == name);
    found.copied().ok_or_else(|| {
        let known = WORLDS.iter().map(|w| w.name());
        let Some(near) = nearest(name, known.clone()) else {
            let known = known.collect::<Vec<_>>().join(", ");
            let message = format!("unknown world `{name}`; this build has {known}");
            return StudyError::Usage(message);
        };
        StudyError::Usage(format!("unknown world `{name}`; did you mean `{near}`?"))
    })
}

/// Returns the command line that plays a technique of a world.
pub(crate) fn command_of(world_name: &str, technique: &str) -> String {
    world(world_name).map_or_else(|_| String::new(), |w| format!("try `{}`", w.command(technique)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;
    use crate::world::Defaults;
    use halfwink_techniques::technique;

    #[test]
    fn a_world_that_is_not_there_is_one_line() {
        let error = world("submarine").err().unwrap().to_string();
        assert!(error.contains("this build has chip, node, router"), "{error}");
        assert!(world("rooter").err().unwrap().to_string().contains("did you mean `router`?"));
    }

    #[test]
    fn every_world_lists_what_can_be_named_and_no_option_hides_a_value_of_a_machine() {
        for world in WORLDS {
            assert!(!world.workloads(&library()).unwrap().is_empty(), "{}", world.name());
            assert!(!world.machines(&library()).is_empty(), "{}", world.name());
            let schema = world.schema();
            for short in world.short() {
                let of_run = schema[0].1.iter().any(|head| head.0 == short.column);
                assert!(of_run, "{}: `{}` is no column of a run", world.name(), short.column);
            }
            let Defaults { machine, workload, .. } = world.defaults();
            let machines = world.machines(&library());
            // A chip's name may end in its number of cores.
            let is_listed = |name: &str| machines.iter().any(|named| name.starts_with(&named.name));
            assert!(machine.is_none_or(is_listed), "{}", world.name());
            let workloads = world.workloads(&library()).unwrap();
            assert!(workload.is_none_or(|name| workloads.iter().any(|named| named.name == name)));
            for option in world.options() {
                assert!(!option.name.contains(['.', ':']), "{}", option.name);
            }
            for (_, now) in world.moved() {
                if let Some((name, _)) = now.split_once(':') {
                    assert!(technique(world.name(), name).is_ok(), "{now}");
                }
            }
        }
    }
}
