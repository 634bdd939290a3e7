//! Requests of a recorded service on a simulated chip: warm, cold after a sleep, preheated
//! (Gottschlag 2016).
//!
//! Every request is played on its own from what the caches held when the recording came to it, once
//! for each mode, so modes differ in nothing else. The set of lines to load is estimated as the
//! thesis does: the caches are dumped after the first requests, each played cold, and the dumps are
//! intersected (Sec 4.1.1).

mod modes;
mod question;
mod tables;
#[cfg(test)]
mod tests;

use halfwink_chip::preheat::{requests, CacheLevel, Cut, Request, Requests};
use halfwink_chip::{CodeCache, Machine, Task};
use halfwink_policy::preheat::{rle, LineSet};
use halfwink_power::Lost;
use halfwink_units::Time;

use crate::error::StudyError;
use crate::library::Library;
use crate::table::Table;
use modes::{Bench, Mode, Outcome};
pub use question::PreheatQuestion;

/// The results of playing a recording's requests.
pub(super) struct Found {
    requests: Requests,
    machine: Machine,
    level: CacheLevel,
    /// The lines that are loaded; `training` has what each training request left.
    set: LineSet,
    training: Vec<Training>,
    outcomes: Vec<Outcome>,
    /// Mean time of loading the set, by the order of its lines.
    orders: Vec<(&'static str, Time)>,
    words: usize,
    sleep_us: f64,
}

/// A dump of a request that was played cold.
pub(super) struct Training {
    dumped: usize,
    touched: usize,
    /// Touched and not dumped: evicted again.
    evicted: usize,
    /// Left of all dumps so far.
    common: usize,
}

impl Library {
    /// Plays requests of a recorded service warm, cold and preheated: tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `facts` | how requests were cut, the sizes of sets (lines), and other numbers |
    /// | `modes` | a mode: mean response (us), misses, lines for a request, energy (uJ, modelled) |
    /// | `requests` | a request in a mode |
    /// | `training` | a request whose lines were dumped |
    /// | `orders` | an order in which the set is loaded, with its time (us) |
    ///
    /// # Errors
    /// If nothing is named so, the recording marks no requests, or a number cannot be.
    pub fn preheat(
        &self,
        workload: &str,
        machine: &str,
        question: &PreheatQuestion,
        set: &[(String, String)],
    ) -> Result<Vec<(&'static str, Table)>, StudyError> {
        let machine = question.sleeping(&self.machine(machine, set)?.machine)?;
        let task = || self.only_task(workload);
        let found = Requests::of(task()?.source.as_mut())?;
        let Some(found) = found.filter(|found| found.marked > 0) else {
            let message = format!(
                "workload `{workload}`: no requests to cut it into; expected a recorded server"
            );
            return Err(StudyError::Usage(message));
        };
        let level = if machine.gating.loses(Lost::L3) { CacheLevel::L3 } else { CacheLevel::L2 };
        let bench = Bench { machine: &machine, question, level };
        Ok(tables::tables(&bench.play(found, task()?)?))
    }

    fn only_task(&self, workload: &str) -> Result<Task, StudyError> {
        let mut tasks = self.workload(workload)?.tasks(None)?;
        if tasks.len() == 1 {
            return Ok(tasks.remove(0));
        }
        let message = format!("workload `{workload}`: expected one that runs on one core");
        Err(StudyError::Usage(message))
    }
}

impl Bench<'_> {
    /// Trains on the first requests, and plays the others in every mode.
    fn play(&self, found: Requests, task: Task) -> Result<Found, StudyError> {
        let mut codes = CodeCache::new();
        let (mut set, mut training, mut outcomes) = (None::<LineSet>, Vec::new(), Vec::new());
        let (mut previous, mut failed) = (None::<Request>, None);
        let mut orders = Vec::new();
        let mut play = CodeCache::new();
        let see = |request: Request| {
            let seen = (|| -> Result<bool, StudyError> {
                if training.len() < self.question.training {
                    let dump = self.dump(&request, &mut play)?;
                    let touched = request.touched();
                    let common = set.get_or_insert_with(|| dump.clone());
                    common.keep_common(&dump);
                    training.push(Training {
                        dumped: dump.len(),
                        touched: touched.len(),
                        evicted: touched.subtract(&dump).len(),
                        common: common.len(),
                    });
                } else if let (Some(set), Some(sham)) = (&set, &previous) {
                    if orders.is_empty() {
                        orders = self.orders(&request, set, &mut play)?;
                    }
                    for mode in Mode::ALL {
                        outcomes.push(self.outcome(mode, &request, set, sham, &mut play)?);
                    }
                }
                Ok(outcomes.len() < self.question.requests * Mode::ALL.len())
            })();
            previous = Some(request);
            seen.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        };
        requests(self.machine, task.source, &task.warm, found.cut, &mut codes, see)?;
        if let Some(error) = failed {
            return Err(error);
        }
        if outcomes.is_empty() {
            let message = format!(
                "{} requests to train with leave none to measure: the recording has {}",
                self.question.training, found.marked
            );
            return Err(StudyError::Usage(message));
        }
        let set = set.unwrap_or_default();
        let words = rle::encode64(&set).map_or(0, |words| words.len());
        Ok(Found {
            requests: found,
            machine: self.machine.clone(),
            level: self.level,
            set,
            training,
            outcomes,
            orders,
            words,
            sleep_us: self.question.sleep_us,
        })
    }
}

/// Returns a description of how requests were cut.
pub(super) fn cut_name(cut: Cut) -> String {
    match cut {
        Cut::Alone => "request marks".to_owned(),
        Cut::Syscall(number) => {
            format!("system call {}", halfwink_trace::syscall_name(number))
        }
    }
}
