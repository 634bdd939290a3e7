//! Routers as they are described: what policies of routers are made from, and watts for the times
//! that a live router measures (Niccolini 2012, ch. 4).
//!
//! All watts and joules are modelled.

mod accounts;
mod check;
mod faults;
mod live;
mod model;
mod spec;

pub use accounts::{Accounts, Posting, Times};
pub use faults::Faults;
pub use live::{live_values, CoreTimes, VirtualMeter};
pub use model::{Model, ModelError, Point};
pub use spec::{
    App, Burst, Cores, Evaluation, Look, Loop, Nic, Path, Power, Printed, Sleep, Spec, Wake,
};

use halfwink_engine::{Input, InputError};

use crate::{Described, Descriptions, Error};

/// Folder of the descriptions of routers.
pub const FOLDER: &str = "machines/router";

/// Parameters of techniques that were a machine's once, and what to write now.
pub const MOVED: &[(&str, &str)] = &[
    ("power_save.q_high", "power-save:q_high"),
    ("power_save.q_low", "power-save:q_low"),
    ("power_save.c_up", "power-save:c_up"),
    ("power_save.c_down", "power-save:c_down"),
    ("others.l3fwd_period_ms", "l3fwd-power:period_ms"),
    ("others.metronome_threads", "metronome:threads"),
    ("others.metronome_vacation_us", "metronome:vacation_us"),
    ("others.grout_period_ms", "grout-rss:period_ms"),
    ("others.grout_park_ms", "grout-rss:park_ms"),
    ("others.nmap_network", "nmap-dvfs:network"),
    ("others.nmap_percent", "nmap-dvfs:percent"),
    ("others.nmap_period_ms", "nmap-dvfs:period_ms"),
    ("others.tick_ms", "napi-menu:tick_ms"),
];

/// Checks a description.
///
/// # Errors
/// The first value that cannot be, with its line.
pub fn parse(input: &Input) -> Result<Model, InputError> {
    Model::new(input.parse()?).map_err(|e| input.error_at_key(&e.element, &e.message))
}

/// Reads a router: `westmere`, or a file ending in `.toml`; then sets `values` (path, value).
///
/// # Errors
/// There is none of that name, or it is impossible.
pub fn read(
    descriptions: &Descriptions,
    name: &str,
    values: &[(String, String)],
) -> Result<Described<Model>, Error> {
    let path = descriptions.find(FOLDER, "router", name)?;
    let values = values.iter().map(|(path, value)| (path.as_str(), value));
    let input = descriptions.input(&path, values, MOVED)?;
    let model = parse(&input)?;
    Ok(Described { name: name.to_owned(), model, text: input.text })
}
