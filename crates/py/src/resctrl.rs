//! Cache allocation (resctrl).

use std::path::{Path, PathBuf};

use halfwink_resctrl as resctrl;
use halfwink_resctrl::text::show_cpus;
use halfwink_resctrl::{
    Advice, Assign, Cache, Files, KernelBy, Plan, Request, Routing, Service, State,
};
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::convert::{from_json, json as to_text};
use crate::{HalfwinkError, RunError};

fn py_error(error: resctrl::Error) -> PyErr {
    if error.is_input() {
        HalfwinkError::new_err(error.to_string())
    } else {
        RunError::new_err(error.to_string())
    }
}

fn named<T: Copy>(option: &str, name: Option<&str>, all: &[(&str, T)]) -> PyResult<Option<T>> {
    let Some(name) = name else { return Ok(None) };
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| Some(*value)).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        HalfwinkError::new_err(format!("{option} {name}: expected one of {}", names.join(", ")))
    })
}

fn open(root: &Path) -> PyResult<Box<dyn Files>> {
    resctrl::open(root).map_err(py_error)
}

fn journal_of(files: &dyn Files, journal: Option<PathBuf>) -> PathBuf {
    journal.unwrap_or_else(|| resctrl::default_journal(files))
}

/// A service: its name, ways, CPUs as a list, tasks.
type Wanted = (String, u32, String, Vec<u32>);

/// Plans a division; a document of the schema `halfwink.resctrl.plan/1`.
#[pyfunction]
#[pyo3(signature = (root, workload, *, cache=None, kernel_ways=None, route=None, kernel_by=None,
                    services=Vec::new(), advice=None))]
#[allow(clippy::too_many_arguments)]
fn resctrl_plan<'py>(
    py: Python<'py>,
    root: PathBuf,
    workload: String,
    cache: Option<&str>,
    kernel_ways: Option<u32>,
    route: Option<&str>,
    kernel_by: Option<&str>,
    services: Vec<Wanted>,
    advice: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let service = |(name, ways, cpus, tasks): Wanted| Service { name, ways, cpus, tasks };
    let request = Request {
        workload,
        cache: named("--cache", cache, &Cache::NAMES)?,
        kernel_ways,
        routing: named("--route", route, &Routing::NAMES)?,
        kernel_by: named("--kernel-by", kernel_by, &KernelBy::NAMES)?,
        services: services.into_iter().map(service).collect(),
    };
    let state = State::read(open(&root)?.as_ref()).map_err(py_error)?;
    let advice: Option<Advice> = advice
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| HalfwinkError::new_err(format!("advice: {error}")))?;
    let plan = resctrl::plan(&state, &request, advice.as_ref()).map_err(py_error)?;
    from_json(py, &to_text(&plan)?)
}

/// The cache of a tree that would be divided: its name, its ways, whether code is apart from data.
#[pyfunction]
#[pyo3(signature = (root, *, cache=None))]
fn resctrl_cache(root: PathBuf, cache: Option<&str>) -> PyResult<(&'static str, u32, bool)> {
    let wanted = named("--cache", cache, &Cache::NAMES)?;
    let state = State::read(open(&root)?.as_ref()).map_err(py_error)?;
    let found = resctrl::divisible(&state, wanted).map_err(py_error)?;
    let name = Cache::NAMES.iter().find(|(_, known)| *known == found.cache);
    Ok((name.map_or("", |(name, _)| name), found.ways, found.apart))
}

/// Most bytes of a plan.
const MOST_BYTES: u64 = 1 << 24;

/// Brings a plan, a file, into a tree.
#[pyfunction]
#[pyo3(signature = (root, plan, *, journal=None, proc=PathBuf::from("/proc")))]
fn resctrl_apply<'py>(
    py: Python<'py>,
    root: PathBuf,
    plan: PathBuf,
    journal: Option<PathBuf>,
    proc: PathBuf,
) -> PyResult<Bound<'py, PyAny>> {
    let text = halfwink_inputs::read_string(&plan, MOST_BYTES)
        .map_err(|e| HalfwinkError::new_err(e.to_string()))?;
    let plan = Plan::parse(&text, &plan).map_err(py_error)?;
    let mut files = open(&root)?;
    let journal = journal_of(files.as_ref(), journal);
    let done = resctrl::apply(files.as_mut(), &plan, &Assign { proc }, &journal);
    let mut found = serde_json::to_value(done.map_err(py_error)?).unwrap_or_default();
    found["journal"] = json!(journal);
    found["rehearsal"] = json!(!files.is_mounted());
    from_json(py, &to_text(&found)?)
}

/// Takes back what was applied.
#[pyfunction]
#[pyo3(signature = (root, *, journal=None, force=false))]
fn resctrl_restore<'py>(
    py: Python<'py>,
    root: PathBuf,
    journal: Option<PathBuf>,
    force: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut files = open(&root)?;
    let journal = journal_of(files.as_ref(), journal);
    let done = resctrl::restore(files.as_mut(), &journal, force).map_err(py_error)?;
    let mut found = serde_json::to_value(done).unwrap_or_default();
    found["journal"] = json!(journal);
    from_json(py, &to_text(&found)?)
}

/// A tree as it is.
#[pyfunction]
fn resctrl_show<'py>(py: Python<'py>, root: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let files = open(&root)?;
    let state = State::read(files.as_ref()).map_err(py_error)?;
    let journal = resctrl::default_journal(files.as_ref());
    let groups: Vec<Value> = state
        .groups
        .iter()
        .map(|group| {
            let masks = state.resources.keys().filter_map(|name| {
                let masks = group.schemata.masks(name)?;
                let by_id = masks.iter().map(|(id, mask)| (id.to_string(), json!(mask)));
                Some((name.clone(), Value::Object(by_id.collect())))
            });
            json!({
                "name": group.name,
                "mode": group.mode,
                "cpus": show_cpus(&group.cpus),
                "tasks": group.tasks,
                "kmode_cpus": group.kmode_cpus.as_ref().map(show_cpus),
                "masks": Value::Object(masks.collect()),
            })
        })
        .collect();
    let found = json!({
        "root": state.root,
        "rehearsal": !state.mounted,
        "resources": state.resources,
        "free_classes": state.free_classes,
        "kernel_mode": state.kernel_mode,
        "kernel_mode_unread": state.kernel_mode_unread,
        "applied": journal.exists(),
        "groups": groups,
    });
    from_json(py, &to_text(&found)?)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(resctrl_plan, module)?)?;
    module.add_function(wrap_pyfunction!(resctrl_cache, module)?)?;
    module.add_function(wrap_pyfunction!(resctrl_apply, module)?)?;
    module.add_function(wrap_pyfunction!(resctrl_restore, module)?)?;
    module.add_function(wrap_pyfunction!(resctrl_show, module)?)
}
