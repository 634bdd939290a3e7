//! The daemon's policy with its log: whatever it is told and asks for, for `halfwink replay`.

use std::path::Path;

use halfwink_eventlog::{Family, Header, Live, Tap};
use halfwink_policy::preheat::{Action, Event, PreheatPolicy};
use halfwink_policy::Host;

/// Lines of a log that may wait to be written: some seconds of as many requests as one CPU serves.
const ROOM: usize = 1 << 16;

/// A policy in its host.
pub(super) type PolicyHost = Host<PreheatPolicy, Option<Tap<Event, Action>>>;

/// A policy and its log, if it has one.
pub struct Hosted {
    pub(super) host: PolicyHost,
    pub(super) log: Option<Live>,
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted").field("is_logged", &self.log.is_some()).finish_non_exhaustive()
    }
}

impl Hosted {
    /// Hosts a policy without a log.
    #[must_use]
    pub fn new(policy: PreheatPolicy) -> Hosted {
        Hosted { host: Host::logged(policy, None), log: None }
    }

    /// A policy with a log in a file; `technique`: how those who replay it make the same one.
    ///
    /// # Errors
    /// Those of the file.
    pub fn logged(policy: PreheatPolicy, technique: &str, path: &Path) -> Result<Hosted, String> {
        let header = Header::new("live preheat", Family::Preheat, technique).on("", "live");
        let (log, tap) = Live::create(path, &header, ROOM).map_err(|e| e.to_string())?;
        Ok(Hosted { host: Host::logged(policy, Some(tap)), log: Some(log) })
    }
}
