//! How many cores forward packets, at which frequency, and how the others wait (Niccolini 2012,
//! ch. 4). One policy object decides for the whole router: its poll loops tell it what they find in
//! their receive queues.
//!
//! ```text
//!            packets wait                              none waits
//!   poll ──▶ Poll { taken, waiting } ──▶ take a batch   Empty ──▶ Rest: spin, halt, sleep a while
//!                 │
//!                 └──▶ Wake / Park a core, Move an entry of the redirect table, SetStep, Wish
//! ```
//!
//! A queue belongs to one core for ever; what changes is which queue an entry of the receive
//! side's redirect table names.
//!
//! Beside the thesis' own stacks there are those of others, to compare with. They follow the rules
//! of their sources, which each names, in this world: one queue for each core.

mod apart;
mod cpuidle;
mod fixed;
mod grout;
mod grout_rss;
mod interface;
mod l3fwd_pause;
mod l3fwd_power;
mod ladder;
mod menu;
mod metronome;
mod nmap;
mod polls;
mod power_save;
mod queue;
mod suricata;
mod table;
mod teo;
mod vpp_adaptive;

pub use apart::{Apart, Resting};
pub use cpuidle::{Governed, Governor, IdleParameters, IdleState, IdleStates, Rested, MOST_STATES};
pub use fixed::{Napi, Polling};
pub use grout::{Grout, GroutParameters};
pub use grout_rss::{GroutRss, GroutRssParameters};
pub use interface::{Action, Depth, Event, Rest, Scaling, ScalingPolicy};
pub use l3fwd_pause::L3fwdPause;
pub use l3fwd_power::{L3fwdPower, L3fwdPowerParameters};
pub use ladder::LadderCore;
pub use menu::{Menu, MenuCore};
pub use metronome::{Metronome, MetronomeParameters};
pub use nmap::{Nmap, NmapParameters};
pub use power_save::{PowerSave, PowerSaveParameters, Rung};
pub use suricata::Suricata;
pub use table::{RedirectTable, ENTRIES};
pub use teo::{Teo, TeoCore};
pub use vpp_adaptive::{VppAdaptive, VppAdaptiveParameters};
