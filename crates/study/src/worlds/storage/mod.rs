//! Machines of several sockets with a storage device, and the world of their block I/Os.

mod applications;
mod figures;
mod job;
mod loads;

pub use job::Storage;

use halfwink_engine::Input;
use halfwink_policy::completion::{CompletionPolicy, Topology};
use halfwink_storage::world::HEARS;
use halfwink_storage::Machine;
use halfwink_techniques::{Choice, CompletionContext};

use crate::error::StudyError;
use crate::library::Library;
use crate::mutant::Replaced;

/// The folder of machines of this world in the library.
const FOLDER: &str = "machines/storage";

/// A machine with a storage device, read.
#[derive(Clone, Debug)]
pub struct StorageInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The described machine.
    pub machine: Machine,
    /// The description as it is used.
    text: String,
    /// Techniques that others take the place of in experiments.
    replaced: Replaced,
}

impl Library {
    /// Reads a machine with a storage device: `westmere-ex`, or a file ending in `.toml`; then
    /// sets `values` (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn storage(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<StorageInfo, StudyError> {
        let path = self.find_named(FOLDER, "machine", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input: Input = self.described(&path, values, &[])?;
        let machine = Machine::new(input.parse()?)
            .map_err(|error| input.error_at_key(&error.element, &error.message))?;
        let (name, replaced) = (name.to_owned(), self.replaced());
        Ok(StorageInfo { name, machine, text: input.text.clone(), replaced })
    }

    /// Names of the machines with a storage device.
    #[must_use]
    pub fn storages(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

impl StorageInfo {
    /// Sockets, and CPUs of each.
    #[must_use]
    pub fn sockets(&self) -> (u16, u16) {
        let it = &self.machine.spec().topology;
        (it.sockets, it.cores_per_socket)
    }

    /// Returns the properties of the machine that its policies are told.
    fn context(&self) -> CompletionContext {
        let it = &self.machine.spec().topology;
        let topology = Topology::uniform(it.sockets, it.cores_per_socket);
        CompletionContext { topology, hears: HEARS }
    }

    /// A technique by name, or what takes its place.
    fn choice(&self, name: &str) -> Result<Choice, StudyError> {
        self.replaced.choice("storage", name)
    }

    /// A technique's policy for it.
    ///
    /// # Errors
    /// If the technique has none.
    fn policy(&self, choice: &Choice) -> Result<CompletionPolicy, StudyError> {
        Ok(choice.completion(&self.context())?)
    }
}

#[cfg(test)]
mod tests {
    use crate::shipped::library;

    #[test]
    fn the_machines_of_the_table_are_there_and_differ_in_what_it_prints() {
        let library = library();
        let all = ["nehalem-ex", "sandybridge-e", "westmere-ep", "westmere-ex"];
        let (recorded, of_table) = (["linux-6.1"], &library.storages()[1..]);
        assert_eq!(library.storages()[..1], recorded);
        assert_eq!(of_table, all);
        let spec = |name| library.storage(name, &[]).unwrap().machine.spec().clone();
        let first = spec("westmere-ex");
        assert_eq!((first.topology.sockets, first.topology.cores_per_socket), (8, 10));
        for name in all {
            let mut other = spec(name);
            // One set of parameters: what a machine has of its own is printed, or is its watts.
            other.description.clone_from(&first.description);
            other.topology = first.topology.clone();
            other.device.pcie_us = first.device.pcie_us;
            other.power = first.power;
            assert_eq!(other, first, "{name}");
        }
    }

    #[test]
    fn impossible_values_are_named_with_their_line() {
        for (path, value, says) in [
            ("topology.sockets", "0", "topology.sockets: found 0, expected 1 or more"),
            ("topology.cores_per_socket", "60000", "expected at most 4096"),
            ("coherence.one_hop_ns", "1.0", "coherence.one_hop_ns: found 1, expected"),
            ("driver.map.kind", "\"upgrade\"", "driver.map.kind: found a ring's lock"),
            ("driver.batch", "0", "driver.batch: found 0, expected 1 or more"),
            ("device.iops", "0.0", "device.iops: found 0, expected 0.001 or more"),
            ("power.busy_w", "0.5", "power.busy_w: found 0.5, expected"),
            ("driver.rings", "1", "rings"),
        ] {
            let set = [(path.to_owned(), value.to_owned())];
            let error = library().storage("westmere-ex", &set).unwrap_err().to_string();
            assert!(error.contains(says), "{path}: {error}");
        }
    }
}

#[cfg(test)]
mod fault_tests;
