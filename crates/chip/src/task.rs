//! Work that a chip is given.

use std::sync::Arc;

use halfwink_trace::{LoadKind, Source, WarmSet};
use halfwink_units::Time;

use crate::shared_lines::SharedLines;
use crate::threads::OneThread;

/// Work for one core.
pub struct Task {
    /// Source of its instructions.
    pub source: Box<dyn Source>,
    /// Lines in its caches before it starts.
    pub warm: Arc<WarmSet>,
    /// Arrival process of its requests.
    pub load: LoadKind,
    /// Instructions to play at most.
    pub limit: u64,
    /// Start time of its core.
    pub start: Time,
    /// Lines that it has in common with all tasks that name the same ones; only where threads are
    /// watched ([`Options::offload`]). Without them, all it touches is its own.
    pub shared: Option<Arc<SharedLines>>,
    /// The thread that it is, if all tasks are threads of one recording; only where threads are
    /// watched, and in one memory ([`crate::OsSpec::one_memory`]).
    pub thread: Option<OneThread>,
}
