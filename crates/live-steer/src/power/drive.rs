//! How a driver with a state query is used: query, command, query again, with bounds.

use std::time::{Duration, Instant};

use super::kubernetes::Kubernetes;
use super::redfish::Redfish;
use super::run;
use super::Wanted;
use crate::health::Unwell;

/// Failed steps of one change, at most.
const TRIES: u32 = 4;
/// Time of one query or one command, at most.
const STEP: Duration = Duration::from_secs(30);
/// Pause before the second query; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Power state of a machine as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The machine serves, or could.
    Awake,
    /// The machine cannot serve before it is woken.
    Asleep,
    /// The machine is on its way between the two.
    Changing,
}

/// Result of a state query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Power state as all drivers have it.
    pub seen: Seen,
    /// The driver's own word for it, such as `shut off`.
    pub word: String,
}

impl Found {
    /// Creates the result from the driver's own word.
    pub fn new(seen: Seen, word: &str) -> Found {
        Found { seen, word: word.to_owned() }
    }
}

/// Rule by which a failed step is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Never, as the step would fail again.
    Never,
    /// Once: the credentials may have been renewed. More attempts would lock an account.
    Once,
    /// After the driver's own pause.
    Soon,
    /// After the time that the other side asked for.
    After(Duration),
}

/// Reason why a step failed.
#[derive(Debug)]
pub struct Fault {
    /// The reason in one line.
    pub why: Unwell,
    /// Rule by which the step is repeated.
    pub again: Again,
}

impl Fault {
    /// Creates a fault that would come again.
    pub fn lasting(why: impl Into<String>) -> Fault {
        Fault { why: Unwell::Machine(why.into()), again: Again::Never }
    }

    /// Creates a fault that may pass.
    pub fn passing(why: Unwell) -> Fault {
        Fault { why, again: Again::Soon }
    }
}

/// A driver that is a program: its command lines, and its words for states.
pub trait Tool {
    /// Returns the words of the state query.
    fn state(&self) -> Vec<String>;
    /// Reads the output of the state query.
    fn read(&self, output: &str) -> Option<Found>;
    /// Returns the words of a change from a state.
    fn turn(&self, wanted: Wanted, from: &Found) -> Vec<String>;
}

/// A driver of any kind.
pub enum Driver<'a> {
    /// A program of this machine.
    Tool(&'a (dyn Tool + Sync)),
    /// A BMC with Redfish.
    Redfish(&'a Redfish),
    /// A cluster's API server.
    Kubernetes(&'a Kubernetes),
}

impl Driver<'_> {
    /// Queries the power state.
    pub async fn state(&self, patience: Duration) -> Result<Found, Fault> {
        match self {
            Driver::Tool(tool) => {
                let words = tool.state();
                let output = run::ask(&words, patience).await.map_err(Fault::passing)?;
                let line = output.trim();
                tool.read(line).ok_or_else(|| {
                    let line: String = line.chars().take(80).collect();
                    Fault::lasting(format!("{}: found {line:?}, expected a state", words[0]))
                })
            }
            Driver::Redfish(redfish) => redfish.state().await,
            Driver::Kubernetes(kubernetes) => kubernetes.state().await,
        }
    }

    async fn command(&self, wanted: Wanted, from: &Found, left: Duration) -> Result<(), Fault> {
        match self {
            Driver::Tool(tool) => {
                let done = run::ask(&tool.turn(wanted, from), left).await;
                done.map(drop).map_err(Fault::passing)
            }
            Driver::Redfish(redfish) => redfish.reset(wanted).await,
            Driver::Kubernetes(kubernetes) => kubernetes.scale(wanted).await,
        }
    }

    /// Returns whether a change may be asked for while another one is under way.
    fn turns_midway(&self) -> bool {
        matches!(self, Driver::Kubernetes(_))
    }

    async fn step(
        &self,
        wanted: Wanted,
        is_asked: &mut bool,
        left: Duration,
    ) -> Result<Found, Fault> {
        let found = self.state(left).await?;
        let is_there = found.seen == wanted.seen();
        let is_settled = found.seen != Seen::Changing || self.turns_midway();
        if !is_there && is_settled && !*is_asked {
            self.command(wanted, &found, left).await?;
            *is_asked = true;
        }
        Ok(found)
    }

    /// Brings the machine to a state, and returns once the state query says that it is there. A
    /// machine that is there already is left alone.
    ///
    /// # Errors
    /// The last reason in one line, after a bounded number of attempts or at the end of `patience`.
    pub async fn turn(&self, wanted: Wanted, patience: Duration) -> Result<(), Unwell> {
        let until = Instant::now() + patience;
        let (mut failed, mut is_asked, mut has_renewed) = (0, false, false);
        let mut pause = FIRST_PAUSE;
        loop {
            let left = until.saturating_duration_since(Instant::now()).min(STEP);
            let step = tokio::time::timeout(left, self.step(wanted, &mut is_asked, left)).await;
            let late = || Fault::passing(format!("no answer in {} ms", left.as_millis()).into());
            let (why, wait) = match step.unwrap_or_else(|_| Err(late())) {
                Ok(found) if found.seen == wanted.seen() => return Ok(()),
                Ok(found) => (Unwell::Machine(format!("still {}", found.word)), pause),
                Err(Fault { why, again }) => {
                    failed += 1;
                    let may = match again {
                        Again::Never => false,
                        Again::Once => !std::mem::replace(&mut has_renewed, true),
                        Again::Soon | Again::After(_) => failed < TRIES,
                    };
                    // The keeper repeats a change that lacked descriptors; here it would fail.
                    if !may || matches!(why, Unwell::Short(_)) {
                        return Err(why);
                    }
                    (why, if let Again::After(wait) = again { wait } else { pause })
                }
            };
            // Not added to the clock: the other side may ask for more seconds than that can hold.
            if until.saturating_duration_since(Instant::now()) <= wait {
                return Err(format!("{why}, and its time is over").into());
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
