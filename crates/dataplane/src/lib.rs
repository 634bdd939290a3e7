//! The packet elements of a software router: the applications of Niccolini 2012, 4.5 (IPv4
//! routing, NetFlow, IPsec, redundancy elimination), as code that works on real frames.
//!
//! Nothing here touches the operating system, a clock or a socket: the caller brings frames and the
//! time, and carries frames away. There is one [`Forwarder`] for each worker thread; what workers
//! have in common is in [`Shared`], and a reload swaps it between two packets.

mod checksum;
pub mod costs;
mod counters;
mod discovery;
mod esp;
pub mod fib;
mod forwarder;
mod fragment;
mod frame;
mod icmp;
mod icmp_error;
mod ip4;
mod ip6;
mod limiter;
mod neighbours;
mod netflow;
mod redundancy;
pub mod routes;
pub mod rss;
mod settings;
mod shared;
mod tables;
mod verdict;
mod wire;
mod worker;

pub use counters::{Counters, DropReason};
pub use esp::{AssociationId, Bell, Direction, Lifetime, NumberRecord, Numbers, RecordError};
pub use forwarder::Forwarder;
pub use frame::Frame;
pub use settings::{
    AeadKey, AppSettings, ClosedTunnel, ExportFormat, IpsecSettings, NetFlowSettings, PortSettings,
    RedundancySettings, Route, SecurityAssociation, Settings, SettingsError, StaticNeighbour,
};
pub use shared::Shared;
pub use verdict::{Out, Verdict};
pub use wire::Mac;
