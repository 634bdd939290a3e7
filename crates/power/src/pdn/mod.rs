//! The power-delivery network of a chip: how fast cores may wake without starving their neighbours
//! (Strong 2013, Sec 2.2.2-2.2.4).
//!
//! ```text
//! regulator -- L, R --+-- R_shared -- package nodes of the cores beside it
//!                     |
//!                   R_PDN
//!                     |
//!                     +-- rail (Vdd_core) -- header switches -- logic
//!                     |
//!                   C_decap
//! ```
//!
//! A waking core draws a known current, a triangle that carries its charge, so the network is
//! linear and droop adds up: [`Responses`] holds the answer of every rail to a ramp at every core,
//! [`Search`] looks for shortest safe wake-ups, [`fit`](fit()) puts Eq 2.1 through them.
//! [`transient`] solves the same circuit another way, and [`deck`](deck()) writes it for SPICE.

mod calibrate;
mod case;
mod circuit;
mod deck;
mod dense;
mod elements;
mod fit;
mod grid;
mod knobs;
mod netlist;
mod nodal;
mod response;
mod results;
mod search;
mod spec;
#[cfg(test)]
mod tests;
mod wave;

pub use calibrate::{calibrate, Calibration, Fitted, PrintedChip};
pub use case::Case;
pub use circuit::CoreSheet;
pub use deck::deck;
pub use fit::{fit, judge, Equation, Fit, Free, Point};
pub use grid::{Cores, Grid, Surroundings};
pub use knobs::{beside_inner_ns, sensitivity, Sensitivity, SCALES};
pub use nodal::{transient, Transient};
pub use response::Responses;
pub use results::{facts, Fits, Study};
pub use search::{Limit, Search, Wake, MAX_SEARCHED_CORES};
pub use spec::{
    Board, CoreCircuit, DieGrid, GridSpec, Limits, Mesh, Network, NetworkSpec, Package, Path,
    PdnError, Plane, Slots, WakeUp, MAX_CORES,
};
pub use wave::Triangle;
