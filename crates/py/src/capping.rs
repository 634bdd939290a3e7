//! Servers under a power cap.

use halfwink_engine::Cdf;
use halfwink_engine::RunControl;
use halfwink_server::capping::{run, Capping, CappingError, Rule, Stop};
use halfwink_server::confidence::Estimate;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{HalfwinkError, RunError};

/// `BigHouse`'s experiment on two files of distributions, until it is known well enough or for so
/// many epochs; what it found, by name.
#[pyfunction]
#[pyo3(signature = (gaps, sizes, *, servers, seed, slower, accuracy, confidence, warm_up, epochs))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn run_capping<'py>(
    py: Python<'py>,
    gaps: &str,
    sizes: &str,
    servers: usize,
    seed: u64,
    slower: bool,
    accuracy: f64,
    confidence: f64,
    warm_up: u64,
    epochs: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let (gaps, sizes) = (read(gaps)?, read(sizes)?);
    let rule = if slower { Rule::Slower } else { Rule::Published };
    let setting = Capping::bighouse(&gaps, &sizes, servers, rule);
    let stop = Stop { accuracy, confidence, warm_up, epochs, ..Stop::default() };
    let found = py.detach(|| run(&setting, &stop, seed, &RunControl::new()));
    let found = found.map_err(|error| match error {
        CappingError::Setting { .. } | CappingError::Overload { .. } => {
            HalfwinkError::new_err(error.to_string())
        }
        _ => RunError::new_err(error.to_string()),
    })?;
    let dict = PyDict::new(py);
    let estimates = [
        ("response_s", found.response_s),
        ("response_p95_s", found.response_p95_s),
        ("cap_w", found.cap_w),
        ("cap_p95_w", found.cap_p95_w),
    ];
    for (name, Estimate { mean, half_width, samples }) in estimates {
        dict.set_item(name, mean)?;
        dict.set_item(format!("{name}_half_width"), half_width)?;
        dict.set_item(format!("{name}_samples"), samples)?;
    }
    dict.set_item("converged", found.converged)?;
    dict.set_item("epochs", found.epochs)?;
    dict.set_item("requests", found.arrived)?;
    dict.set_item("events", found.events)?;
    dict.set_item("power_w", found.power_w)?;
    dict.set_item("budget_most_w", found.budget_most_w)?;
    dict.set_item("over_cap", found.over_cap)?;
    Ok(dict)
}

/// Most bytes of a distribution.
const MOST_BYTES: u64 = 1 << 26;

fn read(path: &str) -> PyResult<Cdf> {
    let text = halfwink_inputs::read_string(path.as_ref(), MOST_BYTES)
        .map_err(|error| HalfwinkError::new_err(error.to_string()))?;
    Cdf::parse(&text).map_err(|error| HalfwinkError::new_err(format!("{path}: {error}")))
}
