//! Containers of this machine, by `podman` or `docker`.

use serde::{Deserialize, Serialize};

use super::drive::{Found, Seen, Tool};
use super::{words, Wanted};

/// A container of Podman or Docker, on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Name of the container.
    pub name: String,
    /// Program that manages it.
    #[serde(default)]
    pub by: By,
    /// Way in which it is put to sleep.
    #[serde(default)]
    pub way: Way,
}

/// Programs that manage containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The command `podman`, with or without root.
    #[default]
    Podman,
    /// The command `docker`, a client of a daemon.
    Docker,
}

/// Ways in which a container sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Freezes all processes of the container.
    #[default]
    Pause,
    /// Ends all processes of the container.
    Stop,
}

impl Container {
    fn words(&self, more: &[&str]) -> Vec<String> {
        let program = match self.by {
            By::Podman => "podman",
            By::Docker => "docker",
        };
        words(&[&[program, "container"], more, &[&self.name]].concat())
    }
}

impl Tool for Container {
    fn state(&self) -> Vec<String> {
        self.words(&["inspect", "--format", "{{.State.Status}}"])
    }

    fn read(&self, output: &str) -> Option<Found> {
        let seen = match output {
            "running" => Seen::Awake,
            "paused" | "exited" | "stopped" | "created" | "configured" | "dead" => Seen::Asleep,
            "stopping" | "restarting" | "removing" | "initialized" => Seen::Changing,
            _ => return None,
        };
        Some(Found::new(seen, output))
    }

    fn turn(&self, wanted: Wanted, from: &Found) -> Vec<String> {
        self.words(&[match (wanted, self.way) {
            (Wanted::Awake, _) if from.word == "paused" => "unpause",
            (Wanted::Awake, _) => "start",
            (Wanted::Asleep, Way::Pause) => "pause",
            (Wanted::Asleep, Way::Stop) => "stop",
        }])
    }
}
