//! The elements that no source gives, fitted to what the publication says of whole chips.

use super::dense::{BandCholesky, Matrix};
use super::elements::element;
use super::fit::Equation;
use super::grid::{Cores, Grid};
use super::search::Search;
use super::spec::{Network, PdnError};

/// Published values of a chip: its grid and the coefficients of Eq 2.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedChip {
    /// Rows and columns of cores.
    pub grid: (usize, usize),
    /// Coefficients of its shortest safe wake-ups.
    pub equation: Equation,
}

/// One element after a calibration.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Fitted {
    /// Path of the element.
    pub element: String,
    /// Fitted value, in the unit of its name.
    pub value: f64,
}

/// Result of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The elements that the description calls calibrated, in its order.
    pub fitted: Vec<Fitted>,
    /// Root mean square over chips of their relative errors, in percent.
    pub error_pct: f64,
}

/// Critical core and waking cores of a chip of 16 in a calibration, in the manner of Strong 2013,
/// Fig 2.5: from one to four beside an inner core, one diagonally, all eight around it, all others;
/// one beside a corner, and all others seen from it.
const ANCHORS: [(usize, &[usize]); 9] = [
    (5, &[6]),
    (5, &[6, 9]),
    (5, &[6, 9, 1]),
    (5, &[6, 9, 1, 4]),
    (5, &[10]),
    (5, &[6, 9, 1, 4, 0, 2, 8, 10]),
    (5, &[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
    (0, &[1]),
    (0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
];
/// Sets of larger chips that are looked at besides the anchors: every so many.
const STRIDE: usize = 263;
/// Steps of the least-squares search, at most.
const STEPS: usize = 60;
/// Smallest value of an element that may be zero, relative to the top of its range.
const LEAST: f64 = 1e-9;

/// A chip with the sets on which it is compared.
struct Compared {
    network: Network,
    cases: Vec<(usize, Cores)>,
    equation: Equation,
}

/// The elements that `network` calls calibrated, moved until the shortest safe wake-ups come
/// nearest (least squares of relative errors, each chip with the same weight) to what is printed of
/// `chips`.
/// It starts from the values of the description: Levenberg and Marquardt's method on logarithms.
///
/// # Errors
/// If a limit cannot be kept at the start.
pub fn calibrate(network: &Network, chips: &[PrintedChip]) -> Result<Calibration, PdnError> {
    let names = &network.spec().calibrated;
    let compared: Vec<Compared> =
        chips.iter().map(|chip| Compared::new(network, chip)).collect::<Result<_, _>>()?;
    let errors = |at: &[f64]| -> Result<Vec<f64>, PdnError> {
        let mut all = Vec::new();
        for chip in &compared {
            all.extend(chip.errors(names, at)?);
        }
        Ok(all)
    };
    let mut at: Vec<f64> = Vec::new();
    let mut bounds = Vec::new();
    for name in names {
        let mut spec = network.spec().clone();
        let (value, (min, max)) = element(&mut spec, name).expect("checked with the network");
        bounds.push(((min.max(LEAST * max)).ln(), max.ln()));
        at.push(value.max(LEAST * max).ln());
    }
    let mut now = errors(&at)?;
    let mut damping = 1e-2;
    for _ in 0..STEPS {
        let Some(slopes) = slopes(&at, &now, &errors) else { break };
        let (before, mut settled) = (square(&now), true);
        for _ in 0..8 {
            let next = step(&at, &now, &slopes, &bounds, damping);
            match errors(&next) {
                Ok(found) if square(&found) < square(&now) => {
                    (at, now) = (next, found);
                    damping = (damping * 0.2).max(1e-9);
                    settled = false;
                    break;
                }
                _ => damping *= 5.0,
            }
        }
        if settled || before - square(&now) < 1e-7 * before {
            break;
        }
    }
    let fitted = names.iter().zip(&at);
    let fitted = fitted.map(|(name, v)| Fitted { element: name.clone(), value: v.exp() }).collect();
    Ok(Calibration { fitted, error_pct: 100.0 * (square(&now) / chips.len() as f64).sqrt() })
}

impl Compared {
    fn new(network: &Network, chip: &PrintedChip) -> Result<Compared, PdnError> {
        let network = network.with_grid(chip.grid.0, chip.grid.1)?;
        let grid = network.grid();
        Ok(Compared { network, cases: cases(grid), equation: chip.equation })
    }

    /// Weighted logarithmic errors with these logarithms of the named elements.
    fn errors(&self, names: &[String], at: &[f64]) -> Result<Vec<f64>, PdnError> {
        let mut spec = self.network.spec().clone();
        for (name, v) in names.iter().zip(at) {
            if let Some((value, (min, max))) = element(&mut spec, name) {
                *value = v.exp().clamp(min, max);
            }
        }
        let search = Search::new(&Network::new(spec)?)?;
        let limit = search.active_limit();
        // Nothing is printed of wake-ups faster than the fastest mode.
        let fastest_ns = self.network.spec().wake_up.fastest_ns;
        let weight = (1.0 / self.cases.len() as f64).sqrt();
        let mut errors = Vec::with_capacity(self.cases.len());
        for &(critical, waking) in &self.cases {
            let starts: Vec<(usize, f64)> = waking.iter().map(|core| (core, 0.0)).collect();
            let ours = search.shortest_ns(critical, &starts, &limit, fastest_ns)?;
            let printed = self.equation.wake_ns(search.grid().surroundings(critical, waking));
            errors.push(weight * (ours / printed.max(fastest_ns)).ln());
        }
        Ok(errors)
    }
}

/// All sets of a small chip; of a larger one the anchors, if it is that of 16, and a sample.
fn cases(grid: Grid) -> Vec<(usize, Cores)> {
    let sets = grid.sets_up_to(&grid.symmetries(Cores::default()));
    let mut all = Vec::new();
    for (waking, _) in sets {
        let others = (0..grid.cores()).filter(|&core| !waking.has(core));
        all.extend(others.map(|core| (core, waking)));
    }
    if grid.cores() <= 8 {
        return all;
    }
    let anchors = ANCHORS.iter().map(|(core, waking)| (*core, Cores::of(waking.iter().copied())));
    let sixteen = (grid.rows, grid.columns) == super::knobs::REFERENCE;
    let anchors = anchors.filter(|_| sixteen);
    anchors.chain(all.into_iter().step_by(STRIDE)).collect()
}

fn square(errors: &[f64]) -> f64 {
    errors.iter().map(|e| e * e).sum()
}

/// Slopes of the errors by each element, as rows; `None` where a limit cannot be kept beside `at`.
fn slopes(
    at: &[f64],
    now: &[f64],
    errors: &impl Fn(&[f64]) -> Result<Vec<f64>, PdnError>,
) -> Option<Vec<Vec<f64>>> {
    const ASIDE: f64 = 0.02;
    (0..at.len())
        .map(|n| {
            let mut beside = at.to_vec();
            beside[n] += ASIDE;
            let there = errors(&beside).ok()?;
            Some(there.iter().zip(now).map(|(a, b)| (a - b) / ASIDE).collect())
        })
        .collect()
}

fn step(
    at: &[f64],
    now: &[f64],
    slopes: &[Vec<f64>],
    bounds: &[(f64, f64)],
    damping: f64,
) -> Vec<f64> {
    let count = at.len();
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut normal = Matrix::zero(count, count);
    let mut side = vec![0.0; count];
    for row in 0..count {
        side[row] = -dot(&slopes[row], now);
        for column in 0..count {
            normal[(row, column)] = dot(&slopes[row], &slopes[column]);
        }
        normal[(row, row)] += damping * (normal[(row, row)] + 1e-6);
    }
    if let Some(factors) = BandCholesky::new(&normal, count) {
        factors.solve(&mut side);
    }
    // A factor of three at most, so that no element leaves where the others still make sense.
    let moved = at.iter().zip(&side).map(|(v, by)| v + by.clamp(-1.1, 1.1));
    moved.zip(bounds).map(|(v, &(low, high))| v.clamp(low, high)).collect()
}
