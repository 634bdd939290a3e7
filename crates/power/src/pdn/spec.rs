//! A delivery network as data, and the checks that make it a possible one.

use serde::{Deserialize, Serialize};

use super::circuit::CoreSheet;
use super::grid::{Cores, Grid};

/// Most cores of a network.
pub const MAX_CORES: usize = 64;

/// What is wrong with a network, and with which of its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdnError {
    /// The element, as its path in the description (`package.r_mohm`).
    pub element: String,
    /// What was found and what was expected, in one line.
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
    /// What it is, in one line.
    pub description: String,
    /// Elements that were fitted to published values rather than taken from them.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// The cores.
    pub grid: GridSpec,
    /// The circuit of each core.
    pub core: CoreCircuit,
    /// The package around it.
    pub package: Package,
    /// How cores are woken.
    pub wake_up: WakeUp,
    /// How far rails may droop.
    pub limits: Limits,
    /// Distributed wake-up.
    pub slots: Slots,
    /// The column of the thesis's Table 2.1 that the core comes from, if it has one.
    pub sheet: Option<CoreSheet>,
}

/// Rows and columns of cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Rows.
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
    /// Supply voltage.
    pub supply_v: f64,
    /// Capacitance of logic and wires behind the header switches, in nanofarads.
    pub c_core_nf: f64,
    /// Decoupling capacitance in front of them, in nanofarads.
    pub c_decap_nf: f64,
    /// From the package node to the rail of the core, in milliohms.
    pub r_pdn_mohm: f64,
    /// Current of an active core, in amperes.
    pub i_active_a: f64,
}

/// The package of a core (Strong 2013, Sec 2.2.2, Fig 2.4).
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
    /// Of an active core.
    pub active_droop: f64,
    /// Of a sleeping core, whose retention cells keep its state.
    pub standby_droop: f64,
}

/// Distributed wake-up in recurring time slots (Strong 2013, Sec 2.3.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// Distinct slots.
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
        numbers(&spec)?;
        elements(&spec)?;
        if let Some(sheet) = &spec.sheet {
            sheet.check()?;
        }
        Ok(Network { spec, grid, supplied })
    }

    /// The description.
    #[must_use]
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Where the cores lie.
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

    /// The same cores in another grid, each with a path to the regulator.
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

/// Every number lies where the solver is exact.
fn numbers(spec: &NetworkSpec) -> Result<(), PdnError> {
    let (core, package, wake) = (&spec.core, &spec.package, &spec.wake_up);
    // Zero would divide; the far ends are beyond any chip, and keep products finite.
    for (element, value, min, max) in [
        ("core.supply_v", core.supply_v, 0.1, 100.0),
        ("core.c_core_nf", core.c_core_nf, 1e-4, 1e6),
        ("core.c_decap_nf", core.c_decap_nf, 1e-4, 1e6),
        ("core.r_pdn_mohm", core.r_pdn_mohm, 1e-4, 1e7),
        ("core.i_active_a", core.i_active_a, 0.0, 1e4),
        ("package.l_ph", package.l_ph, 1e-3, 1e6),
        ("package.r_mohm", package.r_mohm, 0.0, 1e7),
        ("package.r_shared_mohm", package.r_shared_mohm, 1e-4, 1e9),
        ("wake_up.rise_share", wake.rise_share, 0.01, 0.99),
        ("wake_up.fastest_ns", wake.fastest_ns, 0.5, 1e3),
        ("wake_up.longest_ns", wake.longest_ns, wake.fastest_ns, 200.0),
        ("limits.active_droop", spec.limits.active_droop, 1e-6, 1.0),
        ("limits.standby_droop", spec.limits.standby_droop, 1e-6, 1.0),
        ("slots.stagger_ns", spec.slots.stagger_ns, 0.0, 10.0),
    ] {
        if !(value >= min && value <= max) {
            let message = format!("{value}, expected {min} to {max}");
            return Err(PdnError::at(element, message));
        }
    }
    if spec.slots.count == 0 || spec.slots.count > MAX_CORES {
        let message = format!("{}, expected 1 to {MAX_CORES}", spec.slots.count);
        return Err(PdnError::at("slots.count", message));
    }
    Ok(())
}

/// Elements that may be named as calibrated.
const ELEMENTS: [&str; 9] = [
    "core.supply_v",
    "core.c_core_nf",
    "core.c_decap_nf",
    "core.r_pdn_mohm",
    "core.i_active_a",
    "package.l_ph",
    "package.r_mohm",
    "package.r_shared_mohm",
    "wake_up.rise_share",
];

fn elements(spec: &NetworkSpec) -> Result<(), PdnError> {
    match spec.calibrated.iter().find(|name| !ELEMENTS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let message = format!("no element `{name}`; there are: {}", ELEMENTS.join(", "));
            Err(PdnError::at("calibrated", message))
        }
    }
}
