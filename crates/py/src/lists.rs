//! Lists of what there is, whatever library of files is open: techniques, worlds, experiments.

use halfwink_study as study;
use halfwink_techniques::{Make, Parameter, Technique};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::HalfwinkError;

fn parameter<'py>(py: Python<'py>, p: &Parameter) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", p.name)?;
    dict.set_item("unit", p.unit)?;
    dict.set_item("default", p.default.to_string())?;
    dict.set_item("range", p.range.to_string())?;
    dict.set_item("title", p.title)?;
    dict.set_item("source", p.source)?;
    Ok(dict)
}

fn parameters<'py>(py: Python<'py>, all: &[Parameter]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    all.iter().map(|p| parameter(py, p)).collect()
}

/// The technique that is the policy in this file, as text.
#[pyfunction]
pub(crate) fn technique_of_file(path: &str) -> String {
    halfwink_techniques::escape_file_name(path)
}

fn described<'py>(py: Python<'py>, t: &Technique) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in
        [("name", t.name), ("family", t.family), ("title", t.title), ("source", t.source)]
    {
        dict.set_item(key, value)?;
    }
    dict.set_item("worlds", t.worlds)?;
    dict.set_item("available", t.available.needs.name())?;
    dict.set_item("how", t.available.how)?;
    dict.set_item("is_usual", t.available.is_usual)?;
    // Modifiers are added to others with a plus, and are not played alone.
    dict.set_item("is_modifier", matches!(t.make, Make::Modifier(_)))?;
    dict.set_item("is_within_requests", t.is_within_requests())?;
    dict.set_item("parameters", parameters(py, t.parameters)?)?;
    Ok(dict)
}

/// All techniques of all worlds: name, family, worlds, title, source, parameters, whether an
/// operator can use it today and how, whether it is added to others, and whether it works within a
/// request of a service. With names of files
/// (`./my-gate.wasm`), the policies in these alone.
#[pyfunction]
#[pyo3(signature = (files=None))]
pub(crate) fn techniques(
    py: Python<'_>,
    files: Option<Vec<String>>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let Some(files) = files else {
        return halfwink_techniques::techniques().map(|row| described(py, row)).collect();
    };
    let row = |file: &String| {
        let row = py.detach(|| halfwink_techniques::technique_in_file(file));
        row.map_err(|error| HalfwinkError::new_err(error.to_string()))
    };
    files.iter().map(|file| described(py, row(file)?)).collect()
}

fn short<'py>(py: Python<'py>, column: &study::Short) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("column", column.column)?;
    dict.set_item("heading", column.heading)?;
    dict.set_item("digits", column.digits)?;
    Ok(dict)
}

/// All worlds: name, title, options, the columns of their tables as (name, kind), those of the
/// short table, and the default machine, workload and loads.
#[pyfunction]
pub(crate) fn worlds(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |world: &&dyn study::World| {
        let dict = PyDict::new(py);
        dict.set_item("name", world.name())?;
        dict.set_item("title", world.title())?;
        dict.set_item("options", parameters(py, world.options())?)?;
        let tables = PyDict::new(py);
        for (name, heads) in world.schema() {
            let heads: Vec<_> = heads.iter().map(|head| (head.0, head.1.name())).collect();
            tables.set_item(name, heads)?;
        }
        dict.set_item("tables", tables)?;
        let short: PyResult<Vec<_>> = world.short().iter().map(|s| short(py, s)).collect();
        dict.set_item("short", short?)?;
        let defaults = world.defaults();
        dict.set_item("machine", defaults.machine)?;
        dict.set_item("workload", defaults.workload)?;
        dict.set_item("loads", defaults.loads.map(<[_]>::to_vec))?;
        Ok(dict)
    };
    study::WORLDS.iter().map(entry).collect()
}

/// Returns the experiments that targets may use beside studies: name, argument, title.
#[pyfunction]
pub(crate) fn experiments(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |e: &study::Experiment| {
        let dict = PyDict::new(py);
        for (key, value) in [("name", e.name), ("argument", e.argument), ("title", e.title)] {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    };
    study::EXPERIMENTS.iter().map(entry).collect()
}
