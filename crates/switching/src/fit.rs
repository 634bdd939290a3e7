//! The cycles of the mechanism, fitted to observed round trips by least squares on logarithms.

use crate::model::{Model, ModelError, Observation, Signal, Spec};

/// A fitted parameter and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Path of the parameter in the description.
    pub element: String,
    /// Fitted value, in the unit that its path ends with.
    pub value: f64,
}

/// Fitted parameters of the switching mechanism, and the error of the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct MechanismFit {
    /// Parameters that were fitted, in the order of the description.
    pub parameters: Vec<Parameter>,
    /// Root of the mean square of the relative errors, of 1.
    pub error_rms: f64,
    /// Largest relative error, of 1.
    pub error_max: f64,
}

/// Most steps of the fit; it needs about ten.
const STEPS: usize = 200;

/// Fits leg cycles of the versions (those that poll share the cycles of the version they were made
/// from), sending, waking, the empty call of each kind of core, and cycles and misses of all kinds
/// but the reference one, to the observed round trips. Kinds of one design share their cycles and
/// misses: a kind whose name ends in `-slow` follows the one without.
///
/// # Errors
/// If nothing was observed.
pub fn calibrate_mechanism(model: &Model) -> Result<MechanismFit, ModelError> {
    let observed = &model.spec().mechanism.observed;
    if observed.is_empty() {
        return Err(ModelError::at("mechanism.observed", "expected round trips to fit to"));
    }
    let elements = elements(model.spec());
    // Logarithms keep all parameters positive, and make one relative error of all residuals: round
    // trips differ by a factor of ten.
    let mut logs: Vec<f64> = elements.iter().map(|e| get(model.spec(), e).ln()).collect();
    let residuals = |logs: &[f64]| -> Result<Vec<f64>, ModelError> {
        let mut spec = model.spec().clone();
        for (element, log) in elements.iter().zip(logs) {
            set(&mut spec, element, log.exp());
        }
        errors(&Model::new(spec)?, observed)
    };
    // Levenberg-Marquardt: damping turns the step from Newton's to the gradient's where the model
    // is not linear. Its factors (0.3 and 10) only decide how many steps that takes.
    let mut damping = 1e-3;
    let mut best = residuals(&logs)?;
    for _ in 0..STEPS {
        let step = solve(&jacobian(&logs, &best, &residuals)?, &best, damping);
        let next: Vec<f64> =
            // No step beyond a factor of e: far from the start the derivatives say nothing.
            logs.iter().zip(&step).map(|(log, s)| log + s.clamp(-1.0, 1.0)).collect();
        let found = residuals(&next)?;
        if square(&found) < square(&best) {
            let gain = square(&best) - square(&found);
            (logs, best, damping) = (next, found, damping * 0.3);
            if gain < 1e-15 {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    let value =
        |(element, log): (&Element, &f64)| Parameter { element: element.path(), value: log.exp() };
    Ok(MechanismFit {
        parameters: elements.iter().zip(&logs).map(value).collect(),
        error_rms: (square(&best) / best.len() as f64).sqrt(),
        error_max: best.iter().map(|e| e.exp_m1().abs()).fold(0.0, f64::max),
    })
}

/// A value that may be fitted.
#[derive(Clone, Debug)]
enum Element {
    Leg(String),
    Send,
    Wake,
    Empty(String),
    Cycles(String),
    Misses(String),
}

impl Element {
    fn path(&self) -> String {
        match self {
            Element::Leg(v) => format!("mechanism.versions.{v}.leg_cycles"),
            Element::Send => "mechanism.ipi_send_cycles".to_owned(),
            Element::Wake => "mechanism.wake_cycles".to_owned(),
            Element::Empty(core) => format!("cores.{core}.empty_call_ns"),
            Element::Cycles(core) => format!("cores.{core}.kernel_cycles"),
            Element::Misses(core) => format!("cores.{core}.kernel_misses"),
        }
    }
}

const SLOW: &str = "-slow";

fn elements(spec: &Spec) -> Vec<Element> {
    let mut list = Vec::new();
    let mechanism = &spec.mechanism;
    let interrupts =
        |v: &str| mechanism.versions.get(v).is_some_and(|v| v.signal == Signal::Interrupt);
    for name in mechanism.versions.keys().filter(|v| interrupts(v)) {
        list.push(Element::Leg(name.clone()));
    }
    list.extend([Element::Send, Element::Wake]);
    for (name, core) in spec.cores.iter().filter(|(name, _)| !name.ends_with(SLOW)) {
        list.push(Element::Empty(name.clone()));
        // A kind without misses is the reference: its cycles are the unit of all others.
        if core.kernel_misses > 0.0 {
            list.push(Element::Cycles(name.clone()));
            list.push(Element::Misses(name.clone()));
        }
    }
    list
}

fn get(spec: &Spec, element: &Element) -> f64 {
    match element {
        Element::Leg(v) => spec.mechanism.versions[v].leg_cycles,
        Element::Send => spec.mechanism.ipi_send_cycles.max(1.0),
        Element::Wake => spec.mechanism.wake_cycles.max(1.0),
        Element::Empty(core) => spec.cores[core].empty_call_ns,
        Element::Cycles(core) => spec.cores[core].kernel_cycles,
        Element::Misses(core) => spec.cores[core].kernel_misses,
    }
}

fn set(spec: &mut Spec, element: &Element, value: f64) {
    let alike = |name: &str, core: &str| name.strip_suffix(SLOW).unwrap_or(name) == core;
    match element {
        Element::Leg(v) => {
            // The fast paths of V3 are those of V4 and V5, which only signal otherwise.
            let last = spec.mechanism.versions.iter().rfind(|(_, v)| v.signal == Signal::Interrupt);
            let is_last = last.is_some_and(|(name, _)| name == v);
            for (name, version) in &mut spec.mechanism.versions {
                if name == v || is_last && version.signal != Signal::Interrupt {
                    version.leg_cycles = value;
                }
            }
        }
        Element::Send => spec.mechanism.ipi_send_cycles = value,
        Element::Wake => spec.mechanism.wake_cycles = value,
        Element::Empty(core) => {
            spec.cores.iter_mut().filter(|(n, _)| alike(n, core)).for_each(|(_, c)| {
                c.empty_call_ns = value;
            });
        }
        Element::Cycles(core) => {
            spec.cores.iter_mut().filter(|(n, _)| alike(n, core)).for_each(|(_, c)| {
                c.kernel_cycles = value;
            });
        }
        Element::Misses(core) => {
            spec.cores.iter_mut().filter(|(n, _)| alike(n, core)).for_each(|(_, c)| {
                c.kernel_misses = value;
            });
        }
    }
}

/// Logarithms of modelled over observed.
fn errors(model: &Model, observed: &[Observation]) -> Result<Vec<f64>, ModelError> {
    let mut list = Vec::new();
    for row in observed {
        let configuration = model.configuration(&row.configuration)?;
        let of = |version| model.round_trip(version, configuration, 0.0).map(|r| r.total_ns());
        list.push((of(None)? / row.none_ns).ln());
        for (version, ns) in &row.switched_ns {
            list.push((of(Some(version))? / ns).ln());
        }
    }
    Ok(list)
}

fn square(errors: &[f64]) -> f64 {
    errors.iter().map(|e| e * e).sum()
}

/// One row for each parameter.
fn jacobian(
    logs: &[f64],
    at: &[f64],
    residuals: &impl Fn(&[f64]) -> Result<Vec<f64>, ModelError>,
) -> Result<Vec<Vec<f64>>, ModelError> {
    // A forward difference of a millionth of each value: far above rounding, and too small for
    // curvature to matter.
    const STEP: f64 = 1e-6;
    let column = |n: usize| {
        let mut moved = logs.to_vec();
        moved[n] += STEP;
        let found = residuals(&moved)?;
        Ok(found.iter().zip(at).map(|(b, a)| (b - a) / STEP).collect())
    };
    (0..logs.len()).map(column).collect()
}

/// The damped step: (J J' + d diag) s = -J e, by elimination with pivots.
fn solve(jacobian: &[Vec<f64>], errors: &[f64], damping: f64) -> Vec<f64> {
    let n = jacobian.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let mut row: Vec<f64> = (0..n).map(|j| dot(&jacobian[i], &jacobian[j])).collect();
            // Damping in the scale of each parameter (Marquardt 1963); the floor keeps one without
            // any effect from a zero pivot.
            row[i] += damping * row[i].max(1e-12);
            row.push(-dot(&jacobian[i], errors));
            row
        })
        .collect();
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| rows[a][i].abs().total_cmp(&rows[b][i].abs()));
        rows.swap(i, pivot.unwrap_or(i));
        let pivot = rows[i].clone();
        if pivot[i] == 0.0 {
            return vec![0.0; n];
        }
        for row in rows.iter_mut().skip(i + 1) {
            let factor = row[i] / pivot[i];
            row.iter_mut().zip(&pivot).skip(i).for_each(|(x, p)| *x -= factor * p);
        }
    }
    let mut step = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * step[j]).sum();
        step[i] = (rows[i][n] - known) / rows[i][i];
    }
    step
}
