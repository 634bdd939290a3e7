//! Machines with a BMC that speaks IPMI 2.0 over a network, by `ipmitool`.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::drive::{Found, Seen, Tool};
use super::{words, Wanted};

/// A machine behind a BMC.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ipmi {
    /// Address of the BMC.
    pub bmc: IpAddr,
    /// UDP port of the BMC.
    #[serde(default = "rmcp")]
    pub port: u16,
    /// Name of the user.
    pub user: String,
    /// File whose first line is the password; relative to the description.
    pub password_file: PathBuf,
    /// Cipher suite (`-C` of ipmitool); without it, ipmitool chooses.
    pub cipher: Option<u8>,
    /// Way in which it is put to sleep.
    #[serde(default)]
    pub way: Way,
}

/// Ways in which a machine behind a BMC is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Asks the system to shut down (ACPI).
    #[default]
    Soft,
    /// Cuts the power without asking the system.
    Off,
}

const fn rmcp() -> u16 {
    623
}

impl Ipmi {
    fn chassis(&self, verb: &str) -> Vec<String> {
        let (bmc, port) = (self.bmc.to_string(), self.port.to_string());
        let file = self.password_file.to_string_lossy();
        let mut all = words(&["ipmitool", "-I", "lanplus", "-H", &bmc, "-p", &port]);
        // Its own attempts are kept to two, a second apart, since the driver repeats steps itself.
        all.extend(words(&["-U", &self.user, "-f", &file, "-N", "1", "-R", "2"]));
        if let Some(cipher) = self.cipher {
            all.extend(words(&["-C", &cipher.to_string()]));
        }
        all.extend(words(&["chassis", "power", verb]));
        all
    }
}

impl Tool for Ipmi {
    fn state(&self) -> Vec<String> {
        self.chassis("status")
    }

    fn read(&self, output: &str) -> Option<Found> {
        match output.strip_prefix("Chassis Power is ")? {
            "on" => Some(Found::new(Seen::Awake, "on")),
            "off" => Some(Found::new(Seen::Asleep, "off")),
            _ => None,
        }
    }

    fn turn(&self, wanted: Wanted, _from: &Found) -> Vec<String> {
        self.chassis(match (wanted, self.way) {
            (Wanted::Awake, _) => "on",
            (Wanted::Asleep, Way::Soft) => "soft",
            (Wanted::Asleep, Way::Off) => "off",
        })
    }
}
