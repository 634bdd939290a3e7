//! Hybrid servers as they are described: what steering policies are made from, and watts of the
//! machines behind a live proxy (Niccolini 2012, ch. 3).
//!
//! All watts and joules are modelled.

mod faults;
mod model;
mod set;
mod spec;
mod watts;

pub use faults::Faults;
pub use model::{LevelModel, MachineModel, Model, ModelError, Service};
pub use set::{Set, MOST};
pub use spec::{Fact, Level, Machine, PowerOrigin, Spec, Study, Times, Workload};
pub use watts::Watts;

use std::path::PathBuf;

use halfwink_engine::{Cdf, Input, Law};

use crate::{Described, Descriptions, Error};

/// Folder of the descriptions of hybrid servers.
pub const FOLDER: &str = "machines/server";

/// Parameters of techniques that were a machine's once, and what to write now.
pub const MOVED: &[(&str, &str)] = &[
    ("policy.threshold", "technique.threshold"),
    ("policy.wake_at", "hybrid:wake_at"),
    ("policy.linger_ms", "technique.linger_ms"),
    ("policy.count", "the technique `hybrid-all`"),
    ("others.target_ms", "octopus-man:target_ms"),
    ("others.period_ms", "technique.period_ms"),
    ("others.delay_ms", "dream-weaver:delay_ms"),
    ("others.timer_ms", "sleep-timer:timer_ms"),
];

/// Checks a description, and reads the distributions that it names.
///
/// # Errors
/// The first value that cannot be, with its line.
pub fn parse(descriptions: &Descriptions, input: &Input) -> Result<Model, Error> {
    let mut spec: Spec = input.parse()?;
    for (name, workload) in &mut spec.workloads {
        let element = format!("workloads.{name}.size");
        let wrong = |message: String| input.error_at_key(&element, &message);
        if let Law::Cdf { file, unit } = &workload.size {
            workload.size = distribution(descriptions, file, *unit).map_err(wrong)?;
        }
    }
    Ok(Model::new(spec).map_err(|e| input.error_at_key(&e.element, &e.message))?)
}

/// Lists the files of distributions that a description names.
///
/// # Errors
/// The description is no hybrid server.
pub fn distributions(descriptions: &Descriptions, input: &Input) -> Result<Vec<PathBuf>, Error> {
    let spec: Spec = input.parse()?;
    let files = spec.workloads.values().filter_map(|workload| match &workload.size {
        Law::Cdf { file, .. } => Some(found(descriptions, file)),
        _ => None,
    });
    Ok(files.collect())
}

fn found(descriptions: &Descriptions, file: &str) -> PathBuf {
    let own = file.starts_with(['/', '.']);
    if own {
        PathBuf::from(file)
    } else {
        descriptions.folder(file)
    }
}

/// Most bytes of a distribution.
const MOST_BYTES: u64 = 1 << 26;

/// Reads a distribution of BigHouse's format.
fn distribution(descriptions: &Descriptions, file: &str, unit: f64) -> Result<Law, String> {
    let text = halfwink_inputs::read_string(&found(descriptions, file), MOST_BYTES)
        .map_err(|e| format!("{file}: {}", e.problem))?;
    let cdf = Cdf::parse(&text).map_err(|e| format!("{file}: {e}"))?;
    Ok(cdf.scaled(unit).law())
}

/// Reads a hybrid server: `niccolini`, or a file ending in `.toml`; then sets `values` (path,
/// value).
///
/// # Errors
/// There is none of that name, or it is impossible.
pub fn read(
    descriptions: &Descriptions,
    name: &str,
    values: &[(String, String)],
) -> Result<Described<Model>, Error> {
    let path = descriptions.find(FOLDER, "hybrid server", name)?;
    let values = values.iter().map(|(path, value)| (path.as_str(), value));
    let input = descriptions.input(&path, values, MOVED)?;
    let model = parse(descriptions, &input)?;
    Ok(Described { name: name.to_owned(), model, text: input.text })
}

impl Model {
    /// Finds a workload by name.
    ///
    /// # Errors
    /// There is none of that name; the nearest one is named.
    pub fn named_service(&self, name: &str) -> Result<Service, Error> {
        let known = self.spec().workloads.keys().map(String::as_str);
        self.service(name).ok_or_else(|| Error::unknown("workload", name, known))
    }
}
