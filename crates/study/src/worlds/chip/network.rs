//! Delivery networks by name, and answers about them as data.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use halfwink_engine::Input;
use halfwink_power::pdn;
use serde::Serialize;

use crate::error::StudyError;
use crate::library::Library;

/// The folder of delivery networks in the library.
const FOLDER: &str = "machines/pdn";
/// The printed chips that networks are fitted to: Strong 2013, Table 2.2, chips of 4, 6 and 16
/// cores. The chip of 8 is held out.
const PRINTED_CHIPS: [pdn::PrintedChip; 3] = [
    printed_chip((2, 2), 0.35, 0.15, 0.15),
    printed_chip((2, 3), 0.35, 0.15, 0.13),
    printed_chip((4, 4), 0.20, 0.10, 0.10),
];
/// Shortest wake-up that can be played, in nanoseconds.
const SHORTEST_NS: f64 = 0.5;
/// Step of exported decks, in nanoseconds.
const DECK_STEP_NS: f64 = 0.02;

/// A delivery network, read.
#[derive(Clone, Debug)]
pub struct NetworkInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The delivery network.
    pub network: pdn::Network,
    input: Input,
    /// Solved when a case is first asked for, then kept.
    search: OnceLock<Result<pdn::Search, pdn::PdnError>>,
}

/// One set of waking cores as one active core sees it.
#[derive(Clone, Debug, Serialize)]
pub struct WakeRow {
    /// Drawing: `a` the critical active core, `w` waking cores.
    pub case: String,
    /// Equal sets, turned or mirrored.
    pub sets: usize,
    /// Waking cores beside the critical one.
    pub w: usize,
    /// Waking cores diagonally beside it.
    pub x: usize,
    /// Number of other waking cores.
    pub y: usize,
    /// Edge cores among it and its `w`.
    pub z: usize,
    /// Shortest safe wake-up, in nanoseconds.
    pub wake_up_ns: f64,
    /// Shortest safe wake-up with the stagger of the description, in nanoseconds.
    pub staggered_ns: f64,
}

/// A fit of Eq 2.1.
#[derive(Clone, Debug, Serialize)]
pub struct FitRow {
    /// The data that was fitted.
    pub fit: &'static str,
    /// The fitted `T0`, in nanoseconds.
    pub t0_ns: f64,
    /// The fitted exponent.
    pub alpha: f64,
    /// Coefficients, unless no set of this chip tells them.
    pub beta: Option<f64>,
    /// A coefficient, as `beta`.
    pub gamma: Option<f64>,
    /// A coefficient, as `beta`.
    pub delta: Option<f64>,
    /// Mean error against the circuit, in percent.
    pub error_mean_pct: f64,
    /// Largest error, in percent.
    pub error_max_pct: f64,
    /// Largest error, in nanoseconds.
    pub error_max_ns: f64,
}

/// Worst wake-up by number of waking cores.
#[derive(Clone, Debug, Serialize)]
pub struct StaggerRow {
    /// Number of waking cores.
    pub waking: usize,
    /// Longest shortest-safe wake-up, all at once, in nanoseconds.
    pub at_once_ns: f64,
    /// Longest shortest-safe wake-up, staggered, in nanoseconds.
    pub staggered_ns: f64,
    /// Reduction by stagger, in percent.
    pub cut_pct: f64,
}

/// The answer for one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseAnswer {
    /// The case, as a drawing.
    pub case: String,
    /// Shortest safe wake-up, in nanoseconds.
    pub shortest_ns: f64,
    /// Wake-up that was played, in nanoseconds.
    pub wake_up_ns: f64,
    /// Largest droop of each core, as a share of the supply.
    pub droop: Vec<f64>,
}

/// A value with its name.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// Name, with its unit.
    pub fact: String,
    /// The value itself.
    pub value: f64,
}

const fn printed_chip(grid: (usize, usize), beta: f64, gamma: f64, delta: f64) -> pdn::PrintedChip {
    // All chips of the table are printed with this T0 and this exponent.
    let equation = pdn::Equation { t0_ns: 7.9, alpha: 0.5, beta, gamma, delta };
    pdn::PrintedChip { grid, equation }
}

impl Library {
    /// Reads a delivery network: `ev6` as it is written, `ev6-2x4` with another grid, or a file
    /// ending in `.toml`; then sets `values` (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn network(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<NetworkInfo, StudyError> {
        let (path, grid) = self.find_network(name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, values, &[])?;
        let at = |e: pdn::PdnError| input.error_at_key(&e.element, &e.message);
        let mut network = pdn::Network::new(input.parse()?).map_err(at)?;
        if let Some((rows, columns)) = grid {
            network = network.with_grid(rows, columns).map_err(at)?;
        }
        Ok(NetworkInfo { name: name.to_owned(), network, input, search: OnceLock::new() })
    }

    /// Names of the delivery networks.
    #[must_use]
    pub fn networks(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }

    fn find_network(&self, name: &str) -> Result<(PathBuf, Option<(usize, usize)>), StudyError> {
        if Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Ok((PathBuf::from(name), None));
        }
        let known = self.networks();
        let file = |name: &str| self.folder(FOLDER).join(format!("{name}.toml"));
        // Before the grid is split off: a file may be called `ev6-2x4`.
        if known.iter().any(|k| k == name) {
            return Ok((file(name), None));
        }
        let grid = name.rsplit_once('-').and_then(|(kind, grid)| {
            let (rows, columns) = grid.split_once('x')?;
            let grid = (rows.parse().ok()?, columns.parse().ok()?);
            known.iter().any(|k| k == kind).then_some((kind, grid))
        });
        if let Some((kind, grid)) = grid {
            return Ok((file(kind), Some(grid)));
        }
        let examples: Vec<String> =
            known.iter().flat_map(|k| [k.clone(), format!("{k}-4x4")]).collect();
        Err(StudyError::unknown("network", name, examples.iter().map(String::as_str)))
    }
}

impl NetworkInfo {
    fn at(&self, error: pdn::PdnError) -> StudyError {
        self.input.error_at_key(&error.element, &error.message).into()
    }

    /// All sets of cores up to symmetry.
    ///
    /// # Errors
    /// If a limit of the description cannot be kept.
    pub fn table(&self) -> Result<Vec<WakeRow>, StudyError> {
        let study = pdn::Study::new(&self.network).map_err(|e| self.at(e))?;
        let row = |(wake, staggered): (&pdn::Wake, &pdn::Wake)| {
            let case = pdn::Case {
                active: pdn::Cores::of([wake.critical]),
                starts: wake.waking.iter().map(|core| (core, 0.0)).collect(),
                wake_ns: wake.active_ns,
            };
            let pdn::Surroundings { w, x, y, z } = wake.surroundings;
            WakeRow {
                case: case.drawing(self.network.grid()),
                sets: wake.copies,
                w,
                x,
                y,
                z,
                wake_up_ns: wake.active_ns,
                staggered_ns: staggered.active_ns,
            }
        };
        Ok(study.wakes.iter().zip(&study.staggered).map(row).collect())
    }

    /// The fits of Eq 2.1.
    ///
    /// # Errors
    /// If a limit cannot be kept, or there is nothing to fit.
    pub fn fit(&self) -> Result<Vec<FitRow>, StudyError> {
        let fits = pdn::Study::new(&self.network).and_then(|s| s.fits());
        let fits = fits.map_err(|e| self.at(e))?;
        // A chip of one row has no diagonal neighbours: the fit leaves such a coefficient where it
        // began, which must not be shown as found.
        let told = fits.staged.told;
        let row = |fit: &'static str, found: pdn::Fit| FitRow {
            fit,
            t0_ns: found.equation.t0_ns,
            alpha: found.equation.alpha,
            beta: told[2].then_some(found.equation.beta),
            gamma: told[3].then_some(found.equation.gamma),
            delta: told[4].then_some(found.equation.delta),
            error_mean_pct: found.error_mean_pct,
            error_max_pct: found.error_max_pct,
            error_max_ns: found.error_max_ns,
        };
        let rows =
            [("staged", Some(fits.staged)), ("joint", fits.joint), ("staggered", fits.staggered)];
        Ok(rows.into_iter().filter_map(|(name, fit)| Some(row(name, fit?))).collect())
    }

    /// `T0` with elements scaled.
    ///
    /// # Errors
    /// If the limit cannot be kept with the elements as they are.
    pub fn sensitivity(&self) -> Result<Vec<pdn::Sensitivity>, StudyError> {
        pdn::sensitivity(&self.network).map_err(|e| self.at(e))
    }

    /// Worst wake-ups with and without stagger.
    ///
    /// # Errors
    /// If a limit cannot be kept.
    pub fn stagger(&self) -> Result<Vec<StaggerRow>, StudyError> {
        let study = pdn::Study::new(&self.network).map_err(|e| self.at(e))?;
        let row = |waking| {
            let at_once_ns = pdn::Study::worst_ns(&study.wakes, waking);
            let staggered_ns = pdn::Study::worst_ns(&study.staggered, waking);
            let cut_pct = 100.0 * (1.0 - staggered_ns / at_once_ns);
            StaggerRow { waking, at_once_ns, staggered_ns, cut_pct }
        };
        Ok((1..self.network.grid().cores()).map(row).collect())
    }

    /// Everything that targets ask.
    ///
    /// # Errors
    /// If a limit cannot be kept.
    pub fn facts(&self) -> Result<Vec<Fact>, StudyError> {
        let facts = pdn::facts(&self.network).map_err(|e| self.at(e))?;
        Ok(facts.into_iter().map(|(fact, value)| Fact { fact, value }).collect())
    }

    /// The elements that the description calls calibrated, fitted again to Table 2.2 without the
    /// chip of 8 cores.
    ///
    /// # Errors
    /// If a limit cannot be kept with the elements as they are.
    pub fn calibrate(&self) -> Result<Vec<pdn::Fitted>, StudyError> {
        let found = pdn::calibrate(&self.network, &PRINTED_CHIPS).map_err(|e| self.at(e))?;
        Ok(found.fitted)
    }

    /// Plays a drawn case at `wake_up_ns`, or at its shortest safe wake-up.
    ///
    /// # Errors
    /// If the drawing does not fit, or no wake-up is safe.
    pub fn case(
        &self,
        drawing: &str,
        wake_up_ns: Option<f64>,
        stagger_ns: f64,
    ) -> Result<CaseAnswer, StudyError> {
        let case = self.drawn(drawing, wake_up_ns, stagger_ns)?;
        let shortest_ns = self.search()?.case_ns(&case).map_err(|e| self.at(e))?;
        let wake_up_ns = wake_up_ns.unwrap_or(shortest_ns);
        let droop = self.droop_of(&pdn::Case { wake_ns: wake_up_ns, ..case })?;
        Ok(CaseAnswer { case: drawing.to_owned(), shortest_ns, wake_up_ns, droop })
    }

    /// Largest droop of each core in a drawn case, as a share of the supply.
    ///
    /// # Errors
    /// If the drawing does not fit.
    pub fn droop(
        &self,
        drawing: &str,
        wake_up_ns: f64,
        stagger_ns: f64,
    ) -> Result<Vec<f64>, StudyError> {
        self.droop_of(&self.drawn(drawing, Some(wake_up_ns), stagger_ns)?)
    }

    /// The SPICE deck of a drawn case at `wake_up_ns`, or at its shortest safe wake-up.
    ///
    /// # Errors
    /// As [`NetworkInfo::case`].
    pub fn deck(
        &self,
        drawing: &str,
        wake_up_ns: Option<f64>,
        stagger_ns: f64,
    ) -> Result<String, StudyError> {
        let mut case = self.drawn(drawing, wake_up_ns, stagger_ns)?;
        let search = self.search()?;
        if wake_up_ns.is_none() {
            case.wake_ns = search.case_ns(&case).map_err(|e| self.at(e))?;
        }
        let span_ns = search.span_ns(&case.starts, case.wake_ns);
        Ok(pdn::deck(&self.network, &case, DECK_STEP_NS, span_ns))
    }

    fn search(&self) -> Result<&pdn::Search, StudyError> {
        let search = self.search.get_or_init(|| pdn::Search::new(&self.network));
        // The error is kept as well: a network that cannot be solved is not solved again for each
        // case.
        search.as_ref().map_err(|e| self.at(e.clone()))
    }

    fn droop_of(&self, case: &pdn::Case) -> Result<Vec<f64>, StudyError> {
        let search = self.search()?;
        let supply_v = self.network.spec().core.supply_v;
        let cores = 0..self.network.grid().cores();
        Ok(cores.map(|n| search.droop_v(n, &case.starts, case.wake_ns) / supply_v).collect())
    }

    /// Reads a drawing; its wake-up is the longest if none is given.
    fn drawn(
        &self,
        drawing: &str,
        wake_up_ns: Option<f64>,
        stagger_ns: f64,
    ) -> Result<pdn::Case, StudyError> {
        let spec = self.network.spec();
        let (most_ns, longest_ns) = (spec.slots.stagger_ns, spec.wake_up.longest_ns);
        // Responses are kept for as long as staggers of the description ask for (`Responses::new`):
        // a longer one would end behind them.
        if !(0.0..=most_ns).contains(&stagger_ns) {
            let message = format!("stagger: {stagger_ns} ns, expected 0 to {most_ns} (slots)");
            return Err(StudyError::Usage(message));
        }
        let wake_ns = wake_up_ns.unwrap_or(longest_ns);
        if !(SHORTEST_NS..=longest_ns).contains(&wake_ns) {
            let message = format!(
                "wake-up: {wake_ns} ns, expected {SHORTEST_NS} to {longest_ns} (wake_up.longest_ns)"
            );
            return Err(StudyError::Usage(message));
        }
        let case = pdn::Case::parse(drawing, self.network.grid(), wake_ns, stagger_ns);
        case.map_err(|e| StudyError::Usage(e.to_string()))
    }
}
