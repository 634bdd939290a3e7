//! What is asked: where windows are, and of what.

use halfwink_chip::sample::Cut;
use halfwink_chip::Task;
use halfwink_techniques::{Choice, Plan};
use xxhash_rust::xxh3::xxh3_64;

use super::super::adapt::Joint;
use crate::error::StudyError;
use crate::library::Library;

/// The positions of windows in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// As many windows as fit, but no more than [`SampleQuestion::WINDOWS`].
    Default,
    /// This number of windows, at equal distances.
    Windows(u64),
    /// One every so many instructions.
    Period(u64),
}

/// A workload to sample, given by names.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleQuestion {
    /// One program on one core.
    pub workload: String,
    /// A machine, and values to set in it.
    pub machine: String,
    /// Values to set in the machine, by path.
    pub set: Vec<(String, String)>,
    /// Techniques; the first one is what others are compared with.
    pub techniques: Vec<String>,
    /// The positions of windows.
    pub spacing: Spacing,
    /// Instructions measured of each window.
    pub unit: u64,
    /// Instructions played before them, in detail.
    pub warm_up: u64,
    /// Instructions of the stream, at most.
    pub instructions: Option<u64>,
    /// Instructions of it before which no window begins: they only warm the caches.
    pub skip: u64,
    /// Chooses where the first window begins.
    pub seed: u64,
    /// A wanted half width of the intervals, in per cent, to be told how many windows it takes.
    pub precision_pct: Option<f64>,
}

/// Everything that a question names.
pub(super) struct Sampled {
    pub(super) task: Task,
    pub(super) choices: Vec<(Choice, Joint)>,
    pub(super) cut: Cut,
    /// Instructions of the stream.
    pub(super) total: u64,
}

impl SampleQuestion {
    /// Windows, if nothing is said: intervals need 32, and a mean of correlated windows more.
    pub const WINDOWS: u64 = 200;

    pub(super) fn find(&self, library: &Library) -> Result<Sampled, StudyError> {
        let choices: Vec<_> =
            self.techniques.iter().map(|text| chosen(text)).collect::<Result<_, _>>()?;
        if choices.is_empty() {
            return Err(StudyError::Usage("no technique was named".to_owned()));
        }
        let workload = library.workload(&self.workload)?;
        if workload.cores() != 1 {
            return Err(StudyError::Usage(format!(
                "workload `{}`: {} cores, expected one: only a single core is sampled",
                workload.name,
                workload.cores()
            )));
        }
        let total = workload.instructions(self.instructions);
        let cut = self.cut(total)?;
        let task = workload.tasks(self.instructions)?.pop();
        let task = task.ok_or_else(|| self.no_window(total))?;
        Ok(Sampled { task, choices, cut, total })
    }

    pub(super) fn no_window(&self, total: u64) -> StudyError {
        StudyError::Usage(format!(
            "workload `{}`: no window of {} instructions in {total}",
            self.workload,
            self.warm_up.saturating_add(self.unit)
        ))
    }

    /// Returns where windows begin.
    fn cut(&self, total: u64) -> Result<Cut, StudyError> {
        if self.unit == 0 {
            return Err(StudyError::Usage("unit 0: expected at least 1 instruction".to_owned()));
        }
        let mut cut = Cut { first: 0, period: 0, warm_up: self.warm_up, unit: self.unit };
        let (length, left) = (cut.length(), total.saturating_sub(self.skip));
        if left == 0 {
            return Err(self.no_window(total));
        }
        let fit = left / length;
        cut.period = match self.spacing {
            Spacing::Period(0) | Spacing::Windows(0) => {
                return Err(StudyError::Usage("expected at least 1 window".to_owned()));
            }
            Spacing::Period(period) if period < length => {
                return Err(StudyError::Usage(format!(
                    "period {period}: windows would overlap; expected at least {length} \
                     instructions (warm-up, unit and what follows)"
                )));
            }
            Spacing::Period(period) => period,
            // A single one may be all that is left, and less than was asked for.
            Spacing::Windows(1) => left,
            Spacing::Windows(n) if n > fit => {
                return Err(StudyError::Usage(format!(
                    "{n} windows of {length} instructions do not fit into {left}; \
                     expected at most {}",
                    fit.max(1)
                )));
            }
            Spacing::Windows(n) => left / n,
            Spacing::Default => left / fit.clamp(1, SampleQuestion::WINDOWS),
        };
        let room = cut.period.min(left).saturating_sub(length);
        // Any digest of the seed will do: the offset need only not follow the program.
        let offset = xxh3_64(&self.seed.to_le_bytes()) % (room + 1);
        cut.first = self.skip + offset;
        Ok(cut)
    }
}

/// A technique that can be sampled.
fn chosen(text: &str) -> Result<(Choice, Joint), StudyError> {
    let choice = Choice::parse("chip", text)?;
    let Some(joint) = Joint::of(&choice) else {
        return Err(StudyError::Usage(format!("{choice}: no technique of a chip")));
    };
    if joint.needs_os_cores() || joint.offload().is_some() {
        return Err(StudyError::Usage(format!(
            "technique `{choice}` uses several cores, and only a single core is sampled; \
             try `halfwink compare`"
        )));
    }
    if joint.plan().1 != Plan::Once || joint.segregation().is_some() {
        return Err(StudyError::Usage(format!(
            "technique `{choice}` decides by whole runs, and is not sampled; \
             try `halfwink compare`"
        )));
    }
    Ok((choice, joint))
}
