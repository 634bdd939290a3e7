//! What is measured.

mod core;
mod memory;
mod window;

pub use core::forget_branches;

use serde::Serialize;

use crate::fit::{Level, Measured};
use crate::sample::{Bench, Effort, Named, Pinned};
use crate::Fault;

/// All that was measured of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// CPU on which it was measured.
    pub cpu: usize,
    /// Measured numbers by name.
    pub numbers: Vec<Named>,
    /// Curves by name: place and height.
    pub curves: Vec<Curve>,
    /// Numbers that could not be measured, with reasons, and doubts about others.
    pub notes: Vec<String>,
}

/// Points, and the levels that were found in them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Stable name, such as `ladder.huge`.
    pub name: &'static str,
    /// Meanings of the two axes.
    pub axes: (&'static str, &'static str),
    /// Points by rising place.
    pub points: Vec<(f64, f64)>,
    /// Plateaus, where the curve is made of such.
    pub levels: Vec<Level>,
}

/// Measures this machine.
///
/// `sizes` are of the caches, in bytes, smallest first, as the kernel or the processor reports
/// them; without any, they are those at which the ladder has steps.
///
/// # Errors
/// If the machine has no clock to go by, or repeats itself too badly.
pub fn measure(effort: Effort, cpu: Option<usize>, sizes: &[usize]) -> Result<Host, Fault> {
    let pinned = Pinned::new(cpu)?;
    let mut host =
        Host { cpu: pinned.cpu, numbers: Vec::new(), curves: Vec::new(), notes: Vec::new() };
    let mut bench = Bench::new(effort)?;
    host.put("clock", "GHz", bench.clock);
    host.put("tsc", "GHz", Measured { value: 1.0 / bench.ns(1_000_000) * 1e6, ..bench.clock });
    core::measure(&mut bench, &mut host)?;
    memory::measure(&mut bench, &mut host, sizes)?;
    window::measure(&mut bench, &mut host)?;
    host.notes.append(&mut bench.notes);
    Ok(host)
}

impl Host {
    fn put(&mut self, name: &'static str, unit: &'static str, found: Measured) {
        self.numbers.push(Named { name, unit, found });
    }

    fn get(&self, name: &str) -> Option<Measured> {
        self.numbers.iter().find(|n| n.name == name).map(|n| n.found)
    }

    fn points(&self, name: &str) -> Vec<(f64, f64)> {
        self.curves.iter().find(|c| c.name == name).map(|c| c.points.clone()).unwrap_or_default()
    }

    fn curve(
        &mut self,
        name: &'static str,
        axes: (&'static str, &'static str),
        points: Vec<(f64, f64)>,
        levels: Vec<Level>,
    ) {
        self.curves.push(Curve { name, axes, points, levels });
    }
}
