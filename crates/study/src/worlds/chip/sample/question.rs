//! What is asked: where windows are, and of what.

use halfwink_chip::sample::{Begins, Cut};
use halfwink_chip::Task;
use halfwink_techniques::{Choice, Plan};
use halfwink_trace::Samples;
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
    /// Instructions of it before which no window begins: they only warm the caches. Where it holds
    /// samples of a run, of each of them; half of each, if nothing is said.
    pub skip: Option<u64>,
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
    /// Instructions before the first window, and from one to the next (in one sample, if the stream
    /// holds some).
    pub(super) first: u64,
    pub(super) period: u64,
    /// Instructions of the stream.
    pub(super) total: u64,
    /// The run of which it holds samples.
    pub(super) samples: Option<Samples>,
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
        let samples = workload.samples().cloned();
        if self.unit == 0 {
            return Err(StudyError::Usage("unit 0: expected at least 1 instruction".to_owned()));
        }
        let (begins, first, period) = match &samples {
            Some(samples) => self.in_samples(samples, total)?,
            None => self.in_whole(total)?,
        };
        let cut = Cut { begins, ..self.window() };
        let task = workload.tasks(self.instructions)?.pop();
        let task = task.ok_or_else(|| self.no_window(total))?;
        Ok(Sampled { task, choices, cut, first, period, total, samples })
    }

    /// A window, wherever it is.
    fn window(&self) -> Cut {
        Cut { begins: Begins::At(Vec::new()), warm_up: self.warm_up, unit: self.unit }
    }

    pub(super) fn no_window(&self, total: u64) -> StudyError {
        StudyError::Usage(format!(
            "workload `{}`: no window of {} instructions in {total}",
            self.workload,
            self.warm_up.saturating_add(self.unit)
        ))
    }

    /// Returns where windows of a whole stream begin, the begin of the first one, and their
    /// distance.
    fn in_whole(&self, total: u64) -> Result<(Begins, u64, u64), StudyError> {
        let skip = self.skip.unwrap_or(0);
        let (length, left) = (self.window().length(), total.saturating_sub(skip));
        if left == 0 {
            return Err(self.no_window(total));
        }
        let fit = left / length;
        let period = match self.spacing {
            Spacing::Period(0) | Spacing::Windows(0) => return Err(none_wanted()),
            Spacing::Period(period) if period < length => {
                return Err(StudyError::Usage(format!(
                    "period {period}: windows would overlap; expected at least {length} \
                     instructions (warm-up, unit and what follows)"
                )));
            }
            Spacing::Period(period) => period,
            // A single one may be all that is left, and less than was asked for.
            Spacing::Windows(1) => left,
            Spacing::Windows(n) if n > fit => return Err(too_many(n, length, left, fit)),
            Spacing::Windows(n) => left / n,
            Spacing::Default => left / fit.clamp(1, SampleQuestion::WINDOWS),
        };
        let first = skip + self.offset(period.min(left).saturating_sub(length));
        Ok((Begins::Every { first, period }, first, period))
    }

    /// Returns the same where the stream holds samples of a run. Each has as many windows, behind
    /// what only warms the caches.
    pub(super) fn in_samples(
        &self,
        samples: &Samples,
        total: u64,
    ) -> Result<(Begins, u64, u64), StudyError> {
        let ends = samples.begins.iter().skip(1).copied().chain([total]);
        let each: Vec<(u64, u64)> = samples.begins.iter().copied().zip(ends).collect();
        let shortest =
            each.iter().map(|&(begin, end)| end.saturating_sub(begin)).min().unwrap_or(0);
        let skip = self.skip.unwrap_or(shortest / 2);
        let (length, left) = (self.window().length(), shortest.saturating_sub(skip));
        let (count, fit) = (each.len() as u64, left / length);
        let wanted = match self.spacing {
            Spacing::Windows(0) => return Err(none_wanted()),
            Spacing::Period(_) => {
                return Err(StudyError::Usage(format!(
                    "workload `{}`: it holds {count} samples of a run, which have as many windows \
                     each; expected a number of windows in place of a period",
                    self.workload
                )));
            }
            Spacing::Windows(n) => n.div_ceil(count.max(1)),
            Spacing::Default => SampleQuestion::WINDOWS.div_ceil(count.max(1)).min(fit),
        };
        if wanted > fit || fit == 0 {
            return Err(StudyError::Usage(format!(
                "workload `{}`: it holds {count} samples of a run, of {shortest} instructions, and \
                 {fit} windows of {length} fit behind the first {skip} of each",
                self.workload
            )));
        }
        let period = left / wanted;
        let offset = skip + self.offset(period - length);
        let begins = each.iter().flat_map(|&(begin, _)| {
            (0..wanted).map(move |n| begin.saturating_add(offset + n * period))
        });
        Ok((Begins::At(begins.collect()), offset, period))
    }

    /// A place in so much room. Any digest of the seed will do: the place need only not follow the
    /// program.
    fn offset(&self, room: u64) -> u64 {
        xxh3_64(&self.seed.to_le_bytes()) % (room + 1)
    }
}

fn none_wanted() -> StudyError {
    StudyError::Usage("expected at least 1 window".to_owned())
}

fn too_many(windows: u64, length: u64, left: u64, fit: u64) -> StudyError {
    StudyError::Usage(format!(
        "{windows} windows of {length} instructions do not fit into {left}; expected at most {}",
        fit.max(1)
    ))
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
