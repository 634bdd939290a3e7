//! Domains of libvirt, by `virsh`.

use serde::{Deserialize, Serialize};

use super::drive::{Found, Seen, Tool};
use super::{words, Wanted};

/// A domain of libvirt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Libvirt {
    /// Name or UUID of the domain.
    pub domain: String,
    /// Connection URI of libvirt.
    #[serde(default = "system")]
    pub uri: String,
    /// Way in which it is put to sleep.
    #[serde(default)]
    pub way: Way,
}

/// Ways in which a domain sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Stops the CPUs; the memory stays.
    #[default]
    Suspend,
    /// Saves the memory to a file of the host, from which the domain starts again.
    ManagedSave,
    /// Asks the system to shut down (ACPI).
    Shutdown,
}

fn system() -> String {
    "qemu:///system".to_owned()
}

impl Libvirt {
    fn virsh(&self, verb: &str) -> Vec<String> {
        words(&["virsh", "-q", "-c", &self.uri, verb, "--domain", &self.domain])
    }
}

impl Tool for Libvirt {
    fn state(&self) -> Vec<String> {
        self.virsh("domstate")
    }

    fn read(&self, output: &str) -> Option<Found> {
        let seen = match output {
            "running" | "idle" => Seen::Awake,
            "paused" | "shut off" | "crashed" | "pmsuspended" => Seen::Asleep,
            "in shutdown" | "no state" => Seen::Changing,
            _ => return None,
        };
        Some(Found::new(seen, output))
    }

    fn turn(&self, wanted: Wanted, from: &Found) -> Vec<String> {
        let verb = match (wanted, from.word.as_str()) {
            // By how it sleeps, which another program may have chosen.
            (Wanted::Awake, "paused") => "resume",
            (Wanted::Awake, "pmsuspended") => "dompmwakeup",
            (Wanted::Awake, _) => "start",
            (Wanted::Asleep, _) => match self.way {
                Way::Suspend => "suspend",
                Way::ManagedSave => "managedsave",
                Way::Shutdown => "shutdown",
            },
        };
        self.virsh(verb)
    }
}
