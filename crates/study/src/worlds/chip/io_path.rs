//! What an I/O takes in the kernel of a recorded program, alone or beside another CPU of its run.

use std::sync::Arc;

use halfwink_trace::{io_path, IoCounts};

use super::trace::Trace;
use super::workload::{Workload, WorkloadKind};
use crate::error::StudyError;
use crate::library::Library;

impl Library {
    /// Sums over the I/Os of a recording, by name or file. Beside another CPU of the same run, with
    /// the lines that travel between the two, and the other's sums.
    ///
    /// # Errors
    /// If there is no such recording, if the two are not of one run, or if a file is damaged.
    pub fn io_path(&self, name: &str, beside: Option<&str>) -> Result<Vec<IoCounts>, StudyError> {
        let ours = self.recording(name)?;
        let Some(other) = beside else {
            return Ok(vec![io_path(ours.file()?.stream(), None)?.counts]);
        };
        let theirs = self.recording(other)?;
        same_run(name, &ours, other, &theirs)?;
        let path =
            |trace: &Trace, beside| Ok::<_, StudyError>(io_path(trace.file()?.stream(), beside)?);
        // Twice over each recording: the lines that travel are known only once all lines of the
        // other CPU are.
        let (a, b) = (path(&ours, None)?.touched, path(&theirs, None)?.touched);
        Ok(vec![path(&ours, Some(&b))?.counts, path(&theirs, Some(&a))?.counts])
    }

    fn recording(&self, name: &str) -> Result<Arc<Trace>, StudyError> {
        let workload = self.workload(name)?;
        match &workload.parts[..] {
            [part] if part.copies == 1 => match &part.kind {
                WorkloadKind::Trace(trace) => Ok(Arc::clone(trace)),
                _ => Err(StudyError::Usage(format!("workload `{name}`: expected a recording"))),
            },
            _ => Err(StudyError::Usage(format!("workload `{name}`: expected one recording"))),
        }
    }
}

/// Checks that the parts of a workload can share a memory: each a CPU of one recorded run.
pub(super) fn of_one_run(workload: &Workload) -> Result<(), StudyError> {
    let mut first: Option<(&str, &Trace)> = None;
    for part in &workload.parts {
        let WorkloadKind::Trace(trace) = &part.kind else {
            let message = format!("memory=one: `{}`: expected a recording", part.name);
            return Err(StudyError::Usage(message));
        };
        if part.copies != 1 {
            let message = format!("memory=one: `{}`: a CPU is there once", part.name);
            return Err(StudyError::Usage(message));
        }
        match first {
            Some((name, ours)) => same_run(name, ours, &part.name, trace)?,
            None => first = Some((&part.name, trace)),
        }
    }
    Ok(())
}

/// Physical addresses of two recordings agree only if they are of one machine and run.
fn same_run(name: &str, ours: &Trace, other: &str, theirs: &Trace) -> Result<(), StudyError> {
    let (a, b) = (&ours.header, &theirs.header);
    let same = a.description == b.description
        && a.kernel == b.kernel
        && a.packages == b.packages
        && a.seed == b.seed;
    if same {
        return Ok(());
    }
    Err(StudyError::Usage(format!(
        "`{other}` beside `{name}`: expected another CPU of the same run, with the same \
         description, kernel, packages and seed"
    )))
}
