//! Jobs as plain things, and many of them planned at once.

use halfwink_study as study;
use pyo3::prelude::*;

/// Names and values of settings.
pub(crate) type Settings = Vec<(String, String)>;

/// A job as plain things.
pub(crate) type NamedJob = (String, String, String, String, Settings, Settings);

/// Key, amount and unit of work, and pace of a job.
pub(crate) type PlannedJob = (String, u64, &'static str, Option<String>);

pub(crate) fn planned(
    py: Python<'_>,
    library: &study::Library,
    jobs: Vec<NamedJob>,
) -> Result<Vec<PlannedJob>, study::StudyError> {
    let job = |(world, workload, machine, technique, set, options)| study::Job {
        world,
        workload,
        machine,
        technique,
        set,
        options,
    };
    let jobs: Vec<study::Job> = jobs.into_iter().map(job).collect();
    let plain = |found: Result<study::Planned, study::StudyError>| {
        let study::Planned { key, work, pace } = found?;
        Ok((key, work.amount, work.unit, pace))
    };
    py.detach(|| library.plan(&jobs)).into_iter().map(plain).collect()
}
