//! Applications as closed networks.

use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, DescriptionError};

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Threads.
    pub threads: u32,
    /// CPU time of a transaction.
    pub cpu_us: f64,
    /// I/Os of a transaction.
    pub ios: f64,
}

impl Application {
    pub(crate) fn check(&self, path: &str) -> Result<(), DescriptionError> {
        at_least(&format!("{path}.threads"), f64::from(self.threads), 1.0)?;
        positive(&format!("{path}.cpu_us"), self.cpu_us)?;
        at_least(&format!("{path}.ios"), self.ios, 0.0)
    }
}
