//! Recorded idle times, and what the idle policies of a server of today would have made of them.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use halfwink_engine::RunControl;
use halfwink_inputs::{open_input, Budget, Share};
use halfwink_node::gaps::{self, Outcome, ReadError, Recording};
use halfwink_techniques::node::machine::Machine;
use halfwink_techniques::node::{MakeIdler, Plan};
use halfwink_techniques::Choice;
use halfwink_units::Time;
use serde::Serialize;

use super::job::{check, idler, plan};
use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::prepared::blamed;

/// Linux' default, with which all else is compared.
const USUAL: &str = "menu";
/// Played if nothing is named, of those whose states the machine has.
const TECHNIQUES: [&str; 7] = ["teo", "haltpoll", "c1", "c1e", "c6a", "idle-adaptive", "pc1a"];
/// A recording is read up to this length, unpacked.
const MOST_BYTES: u64 = 16 << 30;

/// A question about a recording of idle times.
#[derive(Clone, Debug)]
pub struct IdleQuestion {
    /// Text of the kernel's events, or a table of gaps; `-` is standard input.
    pub file: PathBuf,
    /// A server of today.
    pub machine: String,
    /// Values of its description.
    pub set: Vec<(String, String)>,
    /// Idle policies; Linux' menu is played beside them. If empty, the usual ones that the machine
    /// has states for.
    pub techniques: Vec<String>,
    /// Longest exit latency that is allowed, in microseconds (PM QoS).
    pub limit_us: Option<f64>,
    /// The machine's states by their numbers in the kernel that was recorded; if empty, `poll` and
    /// the states on sale.
    pub states: Vec<String>,
    /// True if any number of bad lines is left out.
    pub any_bad: bool,
}

/// Facts of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingInfo {
    /// Name of the format.
    pub format: String,
    /// CPUs with idle times.
    pub cpus: u64,
    /// Number of idle times.
    pub gaps: u64,
    /// Time from the first event to the last, in seconds.
    pub length_s: f64,
    /// Share of the CPUs' time that is idle, in per cent.
    pub idle_pct: f64,
    /// Mean, median and 99th percentile of the idle times, in microseconds.
    pub gap_us: [f64; 3],
    /// Share of the time in which all CPUs are idle, in per cent.
    pub all_idle_pct: f64,
    /// Mean length of the spans in which all CPUs are idle, in microseconds.
    pub all_idle_us: Option<f64>,
    /// Share of the gaps after which a task ran, in per cent, if switches were recorded.
    pub to_task_pct: Option<f64>,
    /// Gaps that the kernel itself found longer than the chosen state is for.
    pub kernel_shallow: Option<u64>,
    /// Gaps that the kernel itself found too short for the chosen state.
    pub kernel_deep: Option<u64>,
    /// Gaps by the state that the kernel chose: its number there, the machine's name of it, gaps.
    pub chosen: Vec<ChosenState>,
    /// Lines that cannot be read, events that the recorder lost, gaps that were left out because of
    /// them, and gaps that the recording cuts.
    pub left_out: LeftOut,
}

/// A state that the kernel chose in some gaps.
#[derive(Clone, Debug, Serialize)]
pub struct ChosenState {
    /// Number of the state in the kernel.
    pub number: u8,
    /// The machine's name of it; none if the machine has no such state.
    pub name: Option<String>,
    /// Gaps in which it was chosen.
    pub gaps: u64,
}

/// Contents of a recording that are not played.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LeftOut {
    /// Lines that look like events and cannot be read.
    pub bad_lines: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// Gaps with missing events, or within which the clock stepped back.
    pub broken_gaps: u64,
    /// Gaps that begin before the recording or end after it.
    pub cut_gaps: u64,
}

/// Result of one policy in the gaps.
#[derive(Clone, Debug, Serialize)]
pub struct IdleRow {
    /// The policy; `recorded` is what the kernel chose, `best` the best state of each gap.
    pub technique: String,
    /// Gaps of the recording.
    pub gaps: u64,
    /// Share of first choices that were right, too shallow and too deep, in per cent.
    pub right_pct: f64,
    /// Too shallow: a deeper state on sale was worth it.
    pub shallow_pct: f64,
    /// Too deep: the gap is shorter than the state's residency.
    pub deep_pct: f64,
    /// Energy of the CPUs in gaps, in joules.
    pub energy_j: f64,
    /// That energy over the time of all gaps: watts of an idle CPU.
    pub idle_w: f64,
    /// Energy beyond the best states where the first choice was too shallow, in joules.
    pub shallow_j: f64,
    /// Energy beyond the best states where it was too deep, in joules.
    pub deep_j: f64,
    /// Time that work waits for the CPU to wake: mean, 99th percentile and longest, in
    /// microseconds.
    pub latency_mean_us: f64,
    /// 99th percentile of that time, in microseconds.
    pub latency_p99_us: f64,
    /// Longest such time, in microseconds.
    pub latency_max_us: f64,
    /// Ticks that woke idle CPUs.
    pub ticks: u64,
    /// Gaps that were over before the CPU had slept.
    pub swallowed: u64,
    /// Share of the gaps in which it chose what the kernel chose, in per cent, where that is known.
    pub agrees_pct: Option<f64>,
    /// Seconds in each idle state of the machine, `poll` first.
    pub state_s: Vec<f64>,
    /// Seconds in which CPUs wake.
    pub waking_s: f64,
    /// Seconds in which idle CPUs handle ticks.
    pub tick_s: f64,
    /// Share of the recording in which what CPUs share sleeps, in per cent, if the policy lets it.
    pub asleep_pct: Option<f64>,
    /// Energy that this saves beside an awake package, in joules.
    pub package_saved_j: Option<f64>,
    /// Sleeps of the package; each adds its exit to a wake-up.
    pub package_sleeps: Option<u64>,
}

/// Linux' menu under a latency limit.
#[derive(Clone, Debug, Serialize)]
pub struct LimitRow {
    /// Longest exit latency that is allowed, in microseconds; none if any is.
    pub limit_us: Option<f64>,
    /// Result of menu under the limit.
    #[serde(flatten)]
    pub row: IdleRow,
}

/// Answer to an [`IdleQuestion`].
#[derive(Clone, Debug, Serialize)]
pub struct IdleAnswer {
    /// Facts of the recording.
    pub recording: RecordingInfo,
    /// Names of the machine's idle states, `poll` first.
    pub states: Vec<String>,
    /// Watts of a core in each of them, then waking, then active.
    pub watts: Vec<f64>,
    /// Origin of the watts.
    pub basis: String,
    /// Least and greatest multiple that each of the watts may take.
    pub factor: [f64; 2],
    /// Cores of the machine.
    pub cores: u64,
    /// Policies, the usual one first, then those asked for, `recorded` and `best`.
    pub rows: Vec<IdleRow>,
    /// The usual one under each latency limit that makes a difference, from the shortest.
    pub limits: Vec<LimitRow>,
}

impl Library {
    /// Plays idle policies in recorded idle times.
    ///
    /// # Errors
    /// If the recording cannot be read, a policy is no idle one, or the machine lacks a state.
    pub fn idle(
        &self,
        question: &IdleQuestion,
        control: &RunControl,
    ) -> Result<IdleAnswer, StudyError> {
        let named = &question.techniques;
        let usual: Vec<String> = TECHNIQUES.map(str::to_owned).to_vec();
        // Of the usual ones those that the machine has no states for are left out in silence; one
        // that was named is an error.
        let mut choices = choices(if named.is_empty() { &usual } else { named })?;
        let whole = self.node(&question.machine, &question.set)?.machine;
        let machine = match question.limit_us {
            Some(limit) => limited(&whole, limit, &question.machine)?,
            None => whole.clone(),
        };
        if named.is_empty() {
            choices.retain(|choice| check(choice, &machine, &question.machine).is_ok());
        }
        for choice in &choices {
            check(choice, &machine, &question.machine)?;
        }
        let kernel = numbered(&machine, &whole, &question.states, &question.machine)?;
        let recording = read(&question.file, question.any_bad)?;
        let chosen = recording.chosen();
        let of = Of::new(&recording, !chosen.is_empty());
        let plays = plays(choices, &machine)?;
        // All at once, so that none waits for the slowest of a kind.
        let outcomes =
            parallel(&plays, |play| play.outcome((&machine, &recording, &kernel), control));
        let (mut rows, mut limits) = (Vec::new(), Vec::new());
        for (play, outcome) in plays.iter().zip(outcomes) {
            let Some(outcome) = outcome? else { continue };
            let mut row = play.row(&of, &machine, &outcome);
            spread(&mut row, play.machine(&machine), &whole);
            match play {
                Play::Limit(limit, ..) => limits.push(LimitRow { limit_us: Some(*limit), row }),
                _ => rows.push(row),
            }
        }
        limits.push(LimitRow { limit_us: question.limit_us, row: rows[0].clone() });
        Ok(IdleAnswer {
            recording: info(&recording, &chosen, &kernel, &machine),
            states: whole.state_names().map(str::to_owned).collect(),
            watts: watts(&whole),
            basis: machine.spec().power.basis.to_string(),
            factor: machine.spec().power.factor,
            cores: machine.cores() as u64,
            rows,
            limits,
        })
    }
}

/// The policies, Linux' menu first.
fn choices(techniques: &[String]) -> Result<Vec<Choice>, StudyError> {
    let mut choices: Vec<Choice> = Vec::new();
    for name in std::iter::once(USUAL).chain(techniques.iter().map(String::as_str)) {
        let choice = Choice::parse("node", name).map_err(StudyError::Name)?;
        let plan = plan(&choice);
        let allowed = Plan { package: plan.package.clone(), ..Plan::default() };
        let is_within = choice.parts().any(|part| part.technique().is_within_requests());
        if plan != allowed || is_within {
            return Err(StudyError::Usage(format!(
                "`{name}`: in recorded gaps only idle policies and package states can be played \
                 (menu, teo, haltpoll, c6a, pc1a); the rest needs the service: `halfwink compare \
                 nginx -t {name}`"
            )));
        }
        // Menu may be named as well; it is played once.
        if !choices.iter().any(|known| known.to_string() == choice.to_string()) {
            choices.push(choice);
        }
    }
    Ok(choices)
}

/// The machine without states whose exit takes longer.
fn limited(machine: &Machine, limit_us: f64, name: &str) -> Result<Machine, StudyError> {
    let mut spec = machine.spec().clone();
    spec.idle_states.retain(|state| state.exit_us <= limit_us);
    if spec.idle_states.is_empty() {
        let least = machine.spec().idle_states.iter().map(|state| state.exit_us);
        let least = least.fold(f64::INFINITY, f64::min);
        return Err(StudyError::Usage(format!(
            "no idle state of {name} has an exit within {limit_us} us (the least is {least} us); \
             `-t always-on` polls"
        )));
    }
    let states = &spec.idle_states;
    // A package state without the core state that it needs is no machine that `Machine::new`
    // accepts.
    spec.package_states.retain(|package| states.iter().any(|state| state.name == package.needs));
    Machine::new(spec).map_err(|error| StudyError::Usage(error.to_string()))
}

/// The machine's states by their numbers in the kernel: those that are named, or `poll` and the
/// states on sale. Ends before the first that a latency limit forbids.
fn numbered(
    machine: &Machine,
    whole: &Machine,
    names: &[String],
    name: &str,
) -> Result<Vec<usize>, StudyError> {
    let on_sale = || {
        let states = whole.spec().idle_states.iter().filter(|state| !state.proposed);
        std::iter::once("poll".to_owned()).chain(states.map(|state| state.name.clone())).collect()
    };
    let names: Vec<String> = if names.is_empty() { on_sale() } else { names.to_vec() };
    let mut numbers = Vec::new();
    for state in &names {
        if whole.state(state).is_none() {
            let known = whole.state_names().collect::<Vec<_>>().join(", ");
            let message = format!("--states: {name} has no state `{state}` (it has {known})");
            return Err(StudyError::Usage(message));
        }
        match machine.state(state) {
            Some(number) => numbers.push(number),
            // Numbers are places in a list: after a gap they would name other states.
            None => break,
        }
    }
    Ok(numbers)
}

fn read(file: &Path, any_bad: bool) -> Result<Recording, StudyError> {
    let opened = open_input(file, &Budget::new(MOST_BYTES))
        .and_then(halfwink_inputs::Opened::text)
        .map_err(|error| StudyError::Usage(error.to_string()))?;
    let name = opened.path().display().to_string();
    let accepted = if any_bad { Share::ALL } else { Share::default() };
    gaps::read_with(BufReader::with_capacity(1 << 16, opened), accepted).map_err(|error| {
        // The reader knows nothing of options: the step that leads on is named here.
        let next = match error {
            ReadError::TooMany { .. } => "; `--ignore bad-lines` plays the rest",
            _ => "",
        };
        StudyError::Usage(format!("{name}: {error}{next}"))
    })
}

/// A row to be played in all gaps.
enum Play {
    /// A policy that was asked for, or the usual one.
    Policy(Choice),
    /// The states that the kernel chose.
    Recorded,
    /// The best state of each gap.
    Best,
    /// A policy on the machine that a latency limit leaves.
    Limit(f64, Choice, Box<Machine>),
}

impl Play {
    /// The machine that it is played on, of the one that all others are.
    fn machine<'a>(&'a self, machine: &'a Machine) -> &'a Machine {
        match self {
            Play::Limit(_, _, machine) => machine,
            _ => machine,
        }
    }

    /// Plays it, unless the run is to stop; nothing if the kernel's choice is not known in all
    /// gaps: then it is no row beside the others.
    fn outcome(
        &self,
        (machine, recording, kernel): (&Machine, &Recording, &[usize]),
        control: &RunControl,
    ) -> Result<Option<Outcome>, StudyError> {
        control.report(0).map_err(|_| StudyError::Interrupted)?;
        let (choice, machine) = match self {
            Play::Policy(choice) => (choice, machine),
            Play::Limit(_, choice, machine) => (choice, machine.as_ref()),
            Play::Best => return Ok(Some(gaps::best(machine, recording))),
            Play::Recorded => {
                let found = gaps::recorded(machine, recording, kernel);
                let known: u64 = found.count.iter().sum();
                return Ok((known == recording.gaps()).then_some(found));
            }
        };
        let make: MakeIdler = &|_| idler(choice, machine);
        let played = gaps::play(machine, recording, kernel, &plan(choice), make)
            .map(Some)
            .map_err(|error| StudyError::Model(error.to_string()));
        // A fault of a policy of the user's own names it already.
        blamed(choice, played).map_err(|error| match error {
            StudyError::Model(found) => StudyError::Model(format!("{choice}: {found}")),
            own => own,
        })
    }

    fn row(&self, of: &Of, machine: &Machine, outcome: &Outcome) -> IdleRow {
        let nothing = Plan::default();
        match self {
            Play::Policy(choice) => of.row(machine, &choice.to_string(), outcome, &plan(choice)),
            Play::Recorded => of.row(machine, "recorded", outcome, &nothing),
            Play::Best => of.row(machine, "best", outcome, &nothing),
            Play::Limit(_, _, machine) => of.row(machine, USUAL, outcome, &nothing),
        }
    }
}

/// The policies, what the kernel chose, the best states, and menu under each limit that forbids a
/// state on sale. Without such a limit it is among the policies.
fn plays(choices: Vec<Choice>, machine: &Machine) -> Result<Vec<Play>, StudyError> {
    let mut plays: Vec<Play> = choices.into_iter().map(Play::Policy).collect();
    plays.extend([Play::Recorded, Play::Best]);
    let on_sale = machine.spec().idle_states.iter().filter(|state| !state.proposed);
    let mut exits: Vec<f64> = on_sale.map(|state| state.exit_us).collect();
    exits.sort_by(f64::total_cmp);
    exits.dedup();
    // The longest exit as a limit forbids nothing.
    exits.pop();
    // Under a PM QoS limit of 0 the kernel polls, which no state on sale is.
    exits.insert(0, 0.0);
    let named = |name| Choice::parse("node", name).map_err(StudyError::Name);
    for limit in exits {
        let (name, machine) = match limit {
            0.0 => ("always-on", machine.clone()),
            _ => (USUAL, limited(machine, limit, "the machine")?),
        };
        plays.push(Play::Limit(limit, named(name)?, Box::new(machine)));
    }
    Ok(plays)
}

/// Gives a row of a machine without some states all states of the whole one, with no time in those
/// that a limit forbids.
fn spread(row: &mut IdleRow, machine: &Machine, whole: &Machine) {
    let seconds = |name| machine.state(name).map_or(0.0, |state| row.state_s[state]);
    row.state_s = whole.state_names().map(seconds).collect();
}

/// Facts of a recording, to which all its rows are related.
struct Of {
    gaps: u64,
    idle_s: f64,
    length_s: f64,
    /// True if the kernel's choice is known in some gaps.
    is_known: bool,
}

impl Of {
    fn new(recording: &Recording, is_known: bool) -> Of {
        Of {
            gaps: recording.gaps(),
            idle_s: recording.idle().as_s(),
            length_s: recording.length.as_s(),
            is_known,
        }
    }

    fn row(&self, machine: &Machine, technique: &str, outcome: &Outcome, plan: &Plan) -> IdleRow {
        let pct = |count: u64| 100.0 * count as f64 / self.gaps as f64;
        let time = |time: Option<Time>| time.map_or(0.0, |time| time.as_ns() / 1e3);
        let package = outcome.package.as_ref().zip(plan.package.as_deref());
        let saves = package.and_then(|(_, name)| gaps::package_saves(machine, name));
        let asleep = package.map(|(together, _)| together.asleep);
        IdleRow {
            technique: technique.to_owned(),
            gaps: self.gaps,
            right_pct: pct(outcome.count[0]),
            shallow_pct: pct(outcome.count[1]),
            deep_pct: pct(outcome.count[2]),
            energy_j: outcome.energy.as_j(),
            idle_w: outcome.energy.as_j() / self.idle_s,
            shallow_j: outcome.lost[1].as_j(),
            deep_j: outcome.lost[2].as_j(),
            latency_mean_us: time(outcome.latency.mean()),
            latency_p99_us: time(outcome.latency.quantile(0.99)),
            latency_max_us: time(outcome.latency.max()),
            ticks: outcome.ticks,
            swallowed: outcome.swallowed,
            agrees_pct: self.is_known.then(|| pct(outcome.agrees)),
            state_s: outcome.states.iter().map(|state| state.as_s()).collect(),
            waking_s: outcome.waking.as_s(),
            tick_s: machine.tick_work.as_s() * outcome.ticks as f64,
            asleep_pct: asleep.map(|asleep| 100.0 * asleep.as_s() / self.length_s),
            package_saved_j: asleep.zip(saves).map(|(asleep, saves)| (saves * asleep).as_j()),
            package_sleeps: package.map(|(together, _)| together.sleeps),
        }
    }
}

fn watts(machine: &Machine) -> Vec<f64> {
    let states = machine.states.iter().map(|state| state.power.as_w());
    states.chain([machine.waking.as_w(), machine.active.as_w()]).collect()
}

fn info(
    recording: &Recording,
    chosen: &[(u8, u64)],
    kernel: &[usize],
    machine: &Machine,
) -> RecordingInfo {
    let lengths = recording.lengths();
    let together = gaps::together(&recording.cpus, Time::ZERO);
    let gaps = recording.gaps();
    let length_s = recording.length.as_s();
    let at = |time: Option<Time>| time.map_or(0.0, |time| time.as_ns() / 1e3);
    let name = |number: usize| {
        let state = kernel.get(number)?;
        machine.state_names().nth(*state).map(str::to_owned)
    };
    RecordingInfo {
        format: recording.format.to_owned(),
        cpus: recording.cpus.len() as u64,
        gaps,
        length_s,
        idle_pct: 100.0 * recording.idle().as_s() / (length_s * recording.cpus.len() as f64),
        gap_us: [lengths.mean(), lengths.quantile(0.5), lengths.quantile(0.99)].map(at),
        all_idle_pct: 100.0 * together.time.as_s() / length_s,
        all_idle_us: (together.spans > 0)
            .then(|| 1e6 * together.time.as_s() / together.spans as f64),
        to_task_pct: recording.to_task.map(|count| 100.0 * count as f64 / gaps as f64),
        kernel_shallow: recording.kernel.map(|[below, _]| below),
        kernel_deep: recording.kernel.map(|[_, above]| above),
        chosen: chosen
            .iter()
            .map(|&(number, gaps)| ChosenState { number, name: name(number.into()), gaps })
            .collect(),
        left_out: LeftOut {
            bad_lines: recording.bad_lines,
            lost_events: recording.lost_events,
            broken_gaps: recording.broken,
            cut_gaps: recording.cut,
        },
    }
}
