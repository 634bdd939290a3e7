//! Descriptions as they are written, and as they are once checked.

use serde::{Deserialize, Serialize};

use crate::flows::Racks;
use crate::{CircuitSwitch, DataCentre, Hosts};

/// A description as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Optical switch of the fabric.
    pub switch: CircuitSwitch,
    /// Lengths of days to look at, in microseconds.
    pub days_us: Vec<f64>,
    /// Numbers of circuits that share a port to look at; its own if there are none.
    #[serde(default)]
    pub sharers: Vec<f64>,
    /// Power of a data centre with such a core.
    #[serde(default)]
    pub data_centre: Option<DataCentre>,
    /// Hosts that use it by turns.
    #[serde(default)]
    pub hosts: Option<Hosts>,
    /// Racks of servers that share circuits.
    #[serde(default)]
    pub racks: Option<Racks>,
}

/// An error in a description, with the path of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct DescriptionError {
    /// Path of the value (`switch.ports`).
    pub element: String,
    /// Message of one line: the value found and the values allowed.
    pub message: String,
}

/// A description whose values are possible.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    spec: Spec,
}

impl Fabric {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn new(spec: Spec) -> Result<Fabric, DescriptionError> {
        if spec.schema != 1 {
            return Err(wrong("schema", format!("found {}, expected 1", spec.schema)));
        }
        check_switch(&spec.switch)?;
        for (name, values) in [("days_us", &spec.days_us), ("sharers", &spec.sharers)] {
            for value in values {
                positive(name, *value)?;
            }
        }
        if let Some(centre) = &spec.data_centre {
            check_centre(centre)?;
        }
        if let Some(hosts) = &spec.hosts {
            hosts.check(spec.switch.usable_ports)?;
        }
        if let Some(racks) = &spec.racks {
            racks.check(spec.switch.usable_ports)?;
        }
        Ok(Fabric { spec })
    }

    /// Returns the description as it was written.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

fn check_switch(switch: &CircuitSwitch) -> Result<(), DescriptionError> {
    at_least("switch.ports", f64::from(switch.ports), 1.0)?;
    at_least("switch.usable_ports", f64::from(switch.usable_ports), 1.0)?;
    if switch.usable_ports > switch.ports {
        let message = format!("{} of {} ports", switch.usable_ports, switch.ports);
        return Err(wrong("switch.usable_ports", message));
    }
    positive("switch.port_gbps", switch.port_gbps)?;
    positive("switch.reconfiguration_us", switch.reconfiguration_us)?;
    at_least("switch.shortest_day_us", switch.shortest_day_us, 0.0)?;
    positive("switch.circuits_per_port", switch.circuits_per_port)?;
    at_least("switch.propagation_us", switch.propagation_us, 0.0)
}

fn check_centre(centre: &DataCentre) -> Result<(), DescriptionError> {
    at_least("data_centre.pods", f64::from(centre.pods), 1.0)?;
    at_least("data_centre.servers_per_pod", f64::from(centre.servers_per_pod), 1.0)?;
    at_least("data_centre.server_idle_w", centre.server_idle_w, 0.0)?;
    at_least("data_centre.server_busy_w", centre.server_busy_w, centre.server_idle_w)?;
    at_least("data_centre.ports.edge", centre.ports.edge, 0.0)?;
    at_least("data_centre.ports.core", centre.ports.core, 0.0)?;
    at_least("data_centre.ports.transceivers", centre.ports.transceivers, 0.0)?;
    at_least("data_centre.circuit_port_w", centre.circuit_port_w, 0.0)?;
    at_least("data_centre.wavelengths", f64::from(centre.wavelengths), 1.0)?;
    at_least("data_centre.transceiver_w", centre.transceiver_w, 0.0)?;
    for (name, port) in &centre.packet_ports {
        positive(&format!("data_centre.packet_ports.{name}.gbps"), port.gbps)?;
        positive(&format!("data_centre.packet_ports.{name}.w"), port.w)?;
    }
    Ok(())
}

pub(crate) fn positive(element: &str, value: f64) -> Result<(), DescriptionError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(wrong(element, format!("found {value}, expected a number above 0")))
}

pub(crate) fn at_least(element: &str, value: f64, least: f64) -> Result<(), DescriptionError> {
    if value.is_finite() && value >= least {
        return Ok(());
    }
    Err(wrong(element, format!("found {value}, expected {least} or more")))
}

pub(crate) fn wrong(element: &str, message: impl Into<String>) -> DescriptionError {
    DescriptionError { element: element.to_owned(), message: message.into() }
}
