//! A delivery network as data, and the checks that make it a possible one.

use serde::{Deserialize, Serialize};

use super::circuit::CoreSheet;
use super::elements;
use super::grid::{Cores, Grid};

/// Most cores of a network.
pub const MAX_CORES: usize = 64;

/// An error in a network, with the path of the element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdnError {
    /// The element, as its path in the description (`package.r_mohm`).
    pub element: String,
    /// Message of one line: the value found and the values allowed.
    pub message: String,
}

impl std::fmt::Display for PdnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.element, self.message)
    }
}

impl std::error::Error for PdnError {}

impl PdnError {
    pub(crate) fn at(element: &str, message: impl Into<String>) -> PdnError {
        PdnError { element: element.to_owned(), message: message.into() }
    }
}

/// A chip's delivery network as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Elements that were fitted to published values rather than taken from them.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Grid of the cores.
    pub grid: GridSpec,
    /// The circuit of each core.
    pub core: CoreCircuit,
    /// The package around it, lumped; this or `mesh`.
    pub package: Option<Package>,
    /// The package around it as a mesh of two layers; this or `package`.
    pub mesh: Option<Mesh>,
    /// Wake-up of the cores.
    pub wake_up: WakeUp,
    /// Droop limits of the rails.
    pub limits: Limits,
    /// Slots of distributed wake-up.
    pub slots: Slots,
    /// The column of the thesis's Table 2.1 that the core comes from, if it has one.
    pub sheet: Option<CoreSheet>,
}

/// Rows and columns of cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Number of rows.
    pub rows: usize,
    /// Cores in a row.
    pub columns: usize,
    /// Rows drawn with `#` for a core with a path to the regulator of its own and `.` for one
    /// without; every core has one if this is left out.
    pub supply: Option<Vec<String>>,
}

/// The lumped circuit of a core (Strong 2013, Sec 2.2.2, Fig 2.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCircuit {
    /// Supply voltage, in volts.
    pub supply_v: f64,
    /// Capacitance of logic and wires behind the header switches, in nanofarads.
    pub c_core_nf: f64,
    /// Decoupling capacitance in front of them, in nanofarads.
    pub c_decap_nf: f64,
    /// Resistance from the package node to the rail of the core, in milliohms.
    pub r_pdn_mohm: f64,
    /// Current of an active core, in amperes.
    pub i_active_a: f64,
}

/// The package of a core, lumped (Strong 2013, Sec 2.2.2, Fig 2.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Inductance from the regulator to the package node of a core, in picohenries.
    pub l_ph: f64,
    /// Resistance of that path, in milliohms.
    pub r_mohm: f64,
    /// Between package nodes of neighbouring cores, in milliohms.
    pub r_shared_mohm: f64,
}

/// Resistance and inductance in series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Inductance of the path, in picohenries.
    pub l_ph: f64,
    /// Resistance of the path, in milliohms.
    pub r_mohm: f64,
}

/// The package as a mesh of two layers, the grid on the die and the plane in the package, on a
/// board with a path to the regulator for each quadrant of the chip (the elements that Strong 2013,
/// Sec 2.2.2, names on the way from the regulator and lumps).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// Grid on the die.
    pub die: DieGrid,
    /// Bumps of a core, in series with its `core.r_pdn_mohm`.
    pub bump: Path,
    /// Plane of the package.
    pub plane: Plane,
    /// Balls of a core, from the plane to the board below its quadrant.
    pub ball: Path,
    /// Capacitors on the board, of each quadrant.
    pub board: Board,
    /// Path from the board below a quadrant to the regulator.
    pub regulator: Path,
}

/// The grid on the die between the rails of neighbouring cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DieGrid {
    /// Resistance of the grid, in milliohms.
    pub r_mohm: f64,
}

/// The plane in the package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plane {
    /// Inductance between the nodes of neighbouring cores, in picohenries.
    pub l_ph: f64,
    /// Resistance of that branch, in milliohms.
    pub r_mohm: f64,
    /// Capacitance to ground at the node of each core, in nanofarads.
    pub c_nf: f64,
}

/// Capacitors on the board below a quadrant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Capacitance on the board, in microfarads.
    pub c_uf: f64,
    /// Resistance in series with it, in milliohms.
    pub esr_mohm: f64,
    /// Inductance in series with it, in picohenries.
    pub esl_ph: f64,
}

/// The current that charges a waking core: a triangle (Strong 2013, Sec 2.2.1, Fig 2.2b).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeUp {
    /// Share of the wake-up during which the current rises.
    pub rise_share: f64,
    /// Fastest mode of the switches, in nanoseconds.
    pub fastest_ns: f64,
    /// Longest wake-up that is tried, in nanoseconds.
    pub longest_ns: f64,
}

/// Limits on droop, as shares of the supply voltage (Strong 2013, Sec 2.2.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Limit of an active core.
    pub active_droop: f64,
    /// Limit of a sleeping core, whose retention cells keep its state.
    pub standby_droop: f64,
}

/// Distributed wake-up in recurring time slots (Strong 2013, Sec 2.3.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// Number of distinct slots.
    pub count: usize,
    /// Between neighbouring slots, in nanoseconds.
    pub stagger_ns: f64,
}

/// A network that can be solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    spec: NetworkSpec,
    grid: Grid,
    supplied: Cores,
}

impl Network {
    /// Checks a description.
    ///
    /// # Errors
    /// The first element that no network can have.
    pub fn new(spec: NetworkSpec) -> Result<Network, PdnError> {
        if spec.schema != 1 {
            return Err(PdnError::at("schema", "this halfwink reads network schema 1"));
        }
        let grid = Grid { rows: spec.grid.rows, columns: spec.grid.columns };
        for (element, size) in [("grid.rows", grid.rows), ("grid.columns", grid.columns)] {
            if size == 0 || size > MAX_CORES {
                let message = format!("{size}, expected 1 to {MAX_CORES}");
                return Err(PdnError::at(element, message));
            }
        }
        if grid.cores() > MAX_CORES {
            let message = format!("{} cores, expected at most {MAX_CORES}", grid.cores());
            return Err(PdnError::at("grid.rows", message));
        }
        let supplied = supplied(&spec.grid, grid)?;
        elements::check(&spec)?;
        if let Some(sheet) = &spec.sheet {
            sheet.check()?;
        }
        Ok(Network { spec, grid, supplied })
    }

    /// Returns the description of the network.
    #[must_use]
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Returns the grid of the cores.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Cores with a path to the regulator of their own.
    #[must_use]
    pub fn supplied(&self) -> Cores {
        self.supplied
    }

    /// Charge that wakes a core: capacitance times supply (Strong 2013, Sec 2.2.1), in coulombs.
    #[must_use]
    pub fn charge_c(&self) -> f64 {
        self.spec.core.c_core_nf * 1e-9 * self.spec.core.supply_v
    }

    /// Inductance that a core sees on its own way to a steady voltage, in picohenries.
    pub(crate) fn path_l_ph(&self) -> f64 {
        let lumped = self.spec.package.as_ref().map(|p| p.l_ph);
        let mesh = self.spec.mesh.as_ref().map(|m| m.bump.l_ph + m.ball.l_ph);
        lumped.or(mesh).unwrap_or(0.0)
    }

    /// The element that stands for the package in messages.
    pub(crate) fn path_element(&self) -> &'static str {
        if self.spec.package.is_some() {
            "package.l_ph"
        } else {
            "mesh.ball.l_ph"
        }
    }

    /// Returns a network of the same cores in another grid, each with a path to the regulator.
    ///
    /// # Errors
    /// If there are none or too many.
    pub fn with_grid(&self, rows: usize, columns: usize) -> Result<Network, PdnError> {
        let grid = GridSpec { rows, columns, supply: None };
        Network::new(NetworkSpec { grid, ..self.spec.clone() })
    }
}

fn supplied(spec: &GridSpec, grid: Grid) -> Result<Cores, PdnError> {
    let Some(drawing) = &spec.supply else { return Ok(Cores::first(grid.cores())) };
    let fits = drawing.len() == grid.rows
        && drawing.iter().all(|row| {
            row.chars().count() == grid.columns && row.chars().all(|c| matches!(c, '#' | '.'))
        });
    if !fits {
        let message = format!("expected {} rows of {} `#` or `.`", grid.rows, grid.columns);
        return Err(PdnError::at("grid.supply", message));
    }
    let marks = drawing.iter().flat_map(|row| row.chars()).enumerate();
    let supplied = Cores::of(marks.filter(|&(_, mark)| mark == '#').map(|(n, _)| n));
    if supplied.count() == 0 {
        return Err(PdnError::at("grid.supply", "no core has a path to the regulator"));
    }
    Ok(supplied)
}
