//! Event logs as files: what every policy of a run was told and asked for, one JSON object a line.
//!
//! ```text
//! {"schema":1,"log":"halfwink events","world":"live router","family":"scaling",...}   header
//! {"now_ps":0,"event":"start","actions":[{"park":{"core":1}}]}                        lines
//! {"now_ps":812000,"event":{"poll":{"core":0,"taken":8,"waiting":40}}}
//! {"now_ps":9000000,"event":"timer","actions":[{"set-step":{"step":2}}]}
//! {"end_ps":10000000,"lines":3,"dropped":0}                                           footer
//! ```
//!
//! Worlds that host several policies number them: `"stream":2`, and name their family where it is
//! not the header's: `"family":"offload"`. A line before which others are missing, because the disk
//! was full or slower than the events, says how many: `"dropped":17`. Another header in the middle
//! of a file means that other policies take over.
//!
//! A log may be kept in parts of bounded length: `events`, before it `events.1`, before that
//! `events.2`. Each begins with its policy's header, which says how many lines came before
//! (`"continues":4096`). Put together in their order, oldest first, they are one log again; a part
//! on its own is read with those lines as dropped.
//!
//! A log is whole if it ends in a footer. Without one it was cut: the program was killed, or still
//! writes. What is there can be used.
//!
//! * [`Writer`] and [`Stream`] write a simulated run's log; [`Live`] and [`Tap`] a live program's,
//!   beside its hot path;
//! * [`Reader`] reads, [`replay_log`] tells fresh policies, [`beside`] lays two logs side by side.

mod beside;
mod format;
mod live;
mod parts;
mod read;
mod replay;
mod write;

pub use beside::{beside, Beside, Divergence, Shown, Side, Why};
pub use format::{Ended, Family, Footer, Header, LogError, Place, SCHEMA};
pub use live::{Live, Tap, Tell};
pub use parts::Parts;
pub use read::{Raw, Reader, Record};
pub use replay::{replay_log, replayer, Contradiction, Due, Replayer, Report};
pub use write::{Stream, Writer};
