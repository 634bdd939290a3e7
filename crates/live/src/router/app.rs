//! The application of a router, as described.

use std::net::UdpSocket;

use halfwink_dataplane::AppSettings;
use serde::Deserialize;

/// What is done with packets beside routing them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum App {
    /// Nothing.
    #[default]
    Route,
}

impl App {
    pub(super) fn settings(&self, _start_unix_ns: u64) -> Result<AppSettings, String> {
        match self {
            App::Route => Ok(AppSettings::Route),
        }
    }

    /// The socket of the collector of flows, if there is one.
    pub(super) fn collector(&self) -> Result<Option<UdpSocket>, String> {
        Ok(None)
    }
}
