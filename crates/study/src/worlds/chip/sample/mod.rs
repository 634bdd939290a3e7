//! Long workloads by samples: techniques on the same windows, with how well each figure is known.

mod estimates;
mod question;

use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;

use halfwink_chip::sample::{cut, measure, FunctionalCounts, Measured, Window};
use halfwink_chip::{CodeCache, Machine, Options};
use halfwink_engine::RunControl;
use halfwink_trace::LoadKind;
use serde::Serialize;

pub use self::estimates::{Interval, SampledTechnique};
pub use self::question::{SampleQuestion, Spacing};

use halfwink_techniques::Choice;

use self::estimates::{estimates, Windows};
use self::question::Sampled;
use super::adapt::Joint;
use crate::error::StudyError;
use crate::library::Library;
use crate::prepared::blamed;

/// The estimates that samples of a workload give on a machine. Every energy is modelled.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Name of the workload.
    pub workload: String,
    /// Name of the machine.
    pub machine: String,
    /// The load of requests: `open` or `closed`.
    pub load: &'static str,
    /// Instructions of the whole stream, those before the first window included.
    pub instructions: u64,
    /// Windows that were measured.
    pub windows: u64,
    /// Samples of a longer run that the stream holds; 0 if it is a run of its own.
    pub samples: u64,
    /// Instructions of that run.
    pub of: u64,
    /// Instructions from one window to the next, in one sample.
    pub period: u64,
    /// Instructions played before those that are measured.
    pub warm_up: u64,
    /// Instructions measured of each window.
    pub unit: u64,
    /// Instructions before the first window.
    pub first: u64,
    /// Reads that missed the third level, without time, from the first window to the end.
    pub l3_misses: u64,
    /// Number of these that filled a way in which nothing had ever been.
    pub l3_cold_fills: u64,
    /// One row for each technique, the baseline first.
    pub results: Vec<SampledTechnique>,
}

/// A technique, ready to run.
struct Prepared {
    choice: Choice,
    joint: Joint,
    machine: Machine,
}

impl Prepared {
    fn play(
        &self,
        window: &Window,
        load: LoadKind,
        codes: &mut CodeCache,
        control: &RunControl,
    ) -> Result<Option<Measured>, StudyError> {
        let policy = |core: usize| self.joint.policy(&self.machine, core);
        let options = Options { retention: self.joint.retention(), ..Options::new(&policy) };
        let measured = measure(&self.machine, window, load, &options, codes, control);
        blamed(&self.choice, measured.map_err(StudyError::from))
    }
}

impl Library {
    /// Plays a workload's whole stream through caches and a branch predictor without time, and
    /// windows of it in detail under each technique. The result does not depend on how many host
    /// cores take part.
    ///
    /// # Errors
    /// If something that is named does not exist, the windows do not fit, the workload needs more
    /// than one core, a technique needs whole runs, or the trace is damaged.
    pub fn sample(
        &self,
        question: &SampleQuestion,
        control: &RunControl,
    ) -> Result<Sample, StudyError> {
        let found = self.machine(&question.machine, &question.set)?;
        let Sampled { task, choices, cut: how, first, period, total, samples } =
            question.find(self)?;
        let prepared: Vec<Prepared> = choices
            .into_iter()
            .map(|(choice, joint)| {
                let machine = joint.adapted(found.machine.clone().without_os_cores());
                Prepared { choice, joint, machine }
            })
            .collect();
        let load = task.load;
        let is_whole = |window: &Window| window.index == 0 || window.instructions() >= how.length();
        let hosts = thread::available_parallelism().map_or(1, usize::from);
        // Bounded: a window holds the contents of all caches, and a pass without time is far ahead
        // of the crew.
        let (send, receive) = sync_channel(hosts);
        let crew = Crew::new(receive);
        let pass = thread::scope(|scope| -> Result<FunctionalCounts, StudyError> {
            // Moved in, so that a pass that fails hangs up on the crew.
            let send = send;
            for _ in 0..hosts {
                scope.spawn(|| crew.work(&prepared, load, control));
            }
            cut(&found.machine, task, &how, control, |window| {
                if crew.has_failed() {
                    return Err(StudyError::Interrupted);
                }
                if is_whole(&window) {
                    // The crew takes windows as long as there are any.
                    let _ = send.send(window);
                }
                Ok(())
            })
        });
        // The crew's error before that of the pass: a failed crew stops the pass, which then says
        // no more than `interrupted`.
        let windows = crew.finish()?;
        let counts = pass?;
        if windows.is_empty() {
            return Err(question.no_window(total));
        }
        let results = estimates(&prepared, &windows, &found.machine, question.precision_pct);
        Ok(Sample {
            workload: question.workload.clone(),
            machine: question.machine.clone(),
            load: if load == LoadKind::Open { "open" } else { "closed" },
            instructions: total,
            windows: windows.len() as u64,
            samples: samples.as_ref().map_or(0, |samples| samples.begins.len() as u64),
            of: samples.as_ref().map_or(total, |samples| samples.of),
            period,
            warm_up: how.warm_up,
            unit: how.unit,
            first,
            l3_misses: counts.l3.misses.iter().sum(),
            l3_cold_fills: counts.l3.cold_fills.iter().sum(),
            results,
        })
    }
}

/// A window by its number, and what was measured of it under each technique.
type Numbered = (u64, Vec<Measured>);

/// Threads that play windows, each on a core of the host.
struct Crew {
    windows: Mutex<Receiver<Window>>,
    done: Mutex<Result<Vec<Numbered>, StudyError>>,
}

impl Crew {
    fn new(windows: Receiver<Window>) -> Crew {
        Crew { windows: Mutex::new(windows), done: Mutex::new(Ok(Vec::new())) }
    }

    fn has_failed(&self) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).is_err()
    }

    /// Plays windows until there are no more, each under every technique.
    fn work(&self, prepared: &[Prepared], load: LoadKind, control: &RunControl) {
        let mut codes = CodeCache::new();
        loop {
            // The lock is held while it waits: the other threads would find nothing either, and it
            // is free again before the window is played.
            let next = self.windows.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(window) = next else { return };
            // After a failure they are taken all the same: who cuts them must not wait for ever.
            if self.has_failed() {
                continue;
            }
            let played: Result<Option<Vec<Measured>>, StudyError> =
                prepared.iter().map(|p| p.play(&window, load, &mut codes, control)).collect();
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *done, played) {
                (Ok(all), Ok(Some(measured))) => all.push((window.index, measured)),
                (Ok(_), Err(error)) => *done = Err(error),
                _ => {}
            }
        }
    }

    /// Returns all measurements, in the order of the windows.
    fn finish(self) -> Result<Windows, StudyError> {
        let mut all = self.done.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        // In order of the stream: the estimate of correlated windows looks at neighbours, and would
        // otherwise depend on which host core was faster.
        all.sort_by_key(|&(index, _)| index);
        Ok(all.into_iter().map(|(_, measured)| measured).collect())
    }
}

#[cfg(test)]
mod tests;
