//! Where a machine's server is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Address of a machine's server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// An address of TCP.
    Tcp(std::net::SocketAddr),
    /// A socket of this machine.
    Unix(PathBuf),
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(path.into()));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!(
                "found address {text}, expected ADDRESS:PORT such as 127.0.0.1:8081, or unix:PATH"
            )
        })
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
