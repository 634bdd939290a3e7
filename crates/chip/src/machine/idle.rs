//! C-states of a core as its kernel lists them, and what the cores of a package share.

use halfwink_engine::InputError;
use halfwink_policy::scaling::{Depth, IdleState as Told, IdleStates};
use halfwink_power::{CoreState, Lost};
use halfwink_units::{Energy, Time};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Check, POWER};
use super::{Machine, PowerSpec};

/// Names that an idle state can have: those of Linux' tables, and of published proposals.
// A ledger names its rows by `&'static str`, so names from a file have to be among these.
const NAMES: [&str; 16] = [
    "poll",
    "c1",
    "c1e",
    "c2",
    "c3",
    "c6",
    "c6s",
    "c6p",
    "c6sp",
    "c7",
    "c8",
    "c10",
    "retention",
    "off",
    "c6a",
    "c6ae",
];

/// A loop that polls.
const POLL: &str = "poll";
/// A stopped clock: what a halt of the recording is taken to hold.
const C1: &str = "c1";

/// A state that a halted core may be put into, as a kernel's table of idle states has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Name of the state, such as `c6`.
    pub name: String,
    /// Longest time from the interrupt until the core runs, in microseconds, as the governor is
    /// told.
    pub exit_us: f64,
    /// Shortest stay that is worth it, in microseconds, as the governor is told.
    pub residency_us: f64,
    /// Time from the interrupt until the core runs, in microseconds, as silicon has it. Without it,
    /// as the governor is told.
    pub wake_us: Option<WakeTime>,
    /// Time in it, beyond its exit, after which it and C1 have taken the same energy, in
    /// microseconds. Without it, what lies between the exit and the residency that a governor is
    /// told.
    pub break_even_us: Option<f64>,
    /// Power of the core and its private caches in it, in watts. Polling and C1 take the power
    /// that `power.core` says.
    pub core_w: Option<f64>,
    /// Parts that lose their contents.
    #[serde(default)]
    pub loses: Vec<Lost>,
    /// True for a published state that no part on sale has.
    #[serde(default)]
    pub proposed: bool,
    /// True if a core may enter it. A technique sets this, not the file.
    #[serde(skip)]
    pub enabled: bool,
}

/// Duration of waking, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum WakeTime {
    /// Takes the same time at each wake-up.
    Always(f64),
    /// Anything between these, as likely; drawn for each wake-up.
    Between([f64; 2]),
}

impl WakeTime {
    /// Returns the least and the most.
    #[must_use]
    pub fn ends(&self) -> [f64; 2] {
        match *self {
            WakeTime::Always(us) => [us, us],
            WakeTime::Between(ends) => ends,
        }
    }
}

impl IdleState {
    /// Least and most time that silicon takes to wake, in microseconds.
    #[must_use]
    pub fn wakes_us(&self) -> [f64; 2] {
        self.wake_us.map_or([self.exit_us, self.exit_us], |wake| wake.ends())
    }

    /// Time in it, beyond its exit, after which it and C1 have taken the same energy, in
    /// microseconds.
    #[must_use]
    pub fn break_even_us(&self) -> f64 {
        let told = || (self.residency_us - self.exit_us).max(0.0);
        self.break_even_us.unwrap_or_else(told)
    }

    /// Watts of a state deeper than C1.
    #[must_use]
    pub fn core_w(&self) -> f64 {
        self.core_w.unwrap_or(0.0)
    }

    /// Returns whether it is deeper than a stopped clock.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        ![POLL, C1].contains(&self.name.as_str())
    }

    /// Returns its name in ledgers.
    fn label(&self) -> &'static str {
        NAMES.into_iter().find(|name| *name == self.name).unwrap_or("idle")
    }
}

/// Power of a package beside its cores, its third level and its memory, and its sleep state.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSpec {
    /// Mesh, memory controllers and input and output of a whole package while any core is awake, in
    /// watts.
    pub uncore_w: f64,
    /// Cores of a whole package. A machine with fewer has their share of `uncore_w`.
    pub cores: Option<usize>,
    /// Cores that share one third level; a machine with fewer has their share of its leakage.
    pub l3_cores: Option<usize>,
    /// Cores that share the memory; a machine with fewer has their share of its background.
    pub memory_cores: Option<usize>,
    /// Thermal design power of a whole package, in watts.
    pub tdp_w: Option<f64>,
    /// Published power of a package without work, least and most, in watts.
    pub idle_w: Option<[f64; 2]>,
    /// A state that it can enter while all cores are halted.
    pub sleep: Option<PackageSleep>,
    /// Whether it sleeps: set by a technique, not by the file.
    #[serde(skip)]
    pub sleeps: bool,
}

/// A state of a package in which every core is halted (Antoniou et al., AgilePkgC, MICRO 2022:
/// PC1A). Leaving it takes less than a core's own exit and goes on beside that: no time is lost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSleep {
    /// All cores are halted for so long before it is entered, in nanoseconds.
    pub enter_ns: f64,
    /// Share of the uncore's power that remains (0..=1).
    pub uncore_share: f64,
    /// Share of the third level's leakage that remains (0..=1).
    pub l3_share: f64,
    /// Share of the background power of memory with closed rows that remains (0..=1).
    pub memory_share: f64,
}

impl PackageSleep {
    /// Returns the time for which all cores are halted before it is entered.
    #[must_use]
    pub fn enter(&self) -> Time {
        Time::from_ns(self.enter_ns)
    }
}

impl Machine {
    /// The state of this name, if the machine has it.
    #[must_use]
    pub fn idle_state(&self, name: &str) -> Option<&IdleState> {
        self.idle_states.iter().find(|state| state.name == name)
    }

    /// Returns a machine whose halted cores may enter these states. They may always poll and enter
    /// C1.
    #[must_use]
    pub fn resting_in(mut self, allowed: impl Fn(&IdleState) -> bool) -> Machine {
        for state in &mut self.idle_states {
            state.enabled = allowed(state);
        }
        self
    }

    /// Idle states that a technique may use, in the order of a policy's `Rest`: polling and C1 if
    /// the machine names them, and what [`Machine::resting_in`] allows.
    pub fn rests(&self) -> impl Iterator<Item = &IdleState> {
        self.idle_states.iter().filter(|state| state.enabled || !state.is_deep())
    }

    /// States deeper than C1, in the order of [`CoreState::DEEP`].
    pub(crate) fn deep_states(&self) -> impl Iterator<Item = &IdleState> {
        self.idle_states.iter().filter(|state| state.is_deep())
    }

    /// The table that a governor is told, of [`Machine::rests`]; none if the machine names none.
    #[must_use]
    pub fn told_idle_states(&self) -> Option<IdleStates> {
        let us = |us: f64| Time::from_ns(us * 1e3);
        let told = |state: &IdleState| Told {
            // The kernel's table tells states apart by their times; `Depth` only says which of them
            // are deeper than a stopped clock.
            depth: if state.is_deep() { Depth::C6 } else { Depth::C1 },
            exit: us(state.exit_us),
            residency: us(state.residency_us),
            polls: state.name == POLL,
        };
        let all: Vec<Told> = self.rests().map(told).collect();
        (!all.is_empty()).then(|| IdleStates::new(&all))
    }

    /// Returns the time, least and most, that waking from a state takes beyond waking from C1,
    /// which the halts of recordings contain.
    pub(crate) fn wake_beyond_c1(&self, state: &IdleState) -> [Time; 2] {
        let usual = self.idle_state(C1).map_or(0.0, |c1| c1.wakes_us()[0]);
        state.wakes_us().map(|us| Time::from_ns((us - usual).max(0.0) * 1e3))
    }

    /// Returns the place in ledgers of one of its idle states.
    #[must_use]
    pub fn state_of(&self, state: &IdleState) -> CoreState {
        let place = self.deep_states().position(|other| other.name == state.name);
        match place.and_then(|place| CoreState::DEEP.get(place)) {
            Some(&deep) => deep,
            None if state.name == POLL => CoreState::Stalled,
            None => CoreState::Idle,
        }
    }

    /// Energy of one round trip to an idle state beside what it takes while it lasts: what a stay
    /// saves against C1 until it breaks even.
    pub(crate) fn rest_wake_energy(&self, state: &IdleState) -> Energy {
        // Watts times microseconds are microjoules, which are 1e6 pJ each. The difference is above
        // zero: `impossible_state` refuses a state that takes as much as C1.
        let saved_w = self.power.core.leakage_w - state.core_w();
        Energy::from_pj(saved_w * state.break_even_us() * 1e6)
    }

    /// The name of a core's state in ledgers.
    #[must_use]
    pub fn state_name(&self, state: CoreState) -> &'static str {
        let deep = state.deep().and_then(|place| self.deep_states().nth(place));
        deep.map_or(state.name(), IdleState::label)
    }

    /// The share of a part that is shared by so many cores.
    pub(crate) fn share(&self, cores: impl Fn(&PackageSpec) -> Option<usize>) -> f64 {
        let sharing = self.package.as_ref().and_then(cores);
        sharing.map_or(1.0, |all| (self.cores as f64 / all as f64).min(1.0))
    }

    /// Returns a machine whose package sleeps while all cores are halted, if it can.
    #[must_use]
    pub fn with_package_sleep(mut self) -> Machine {
        if let Some(package) = &mut self.package {
            package.sleeps = package.sleep.is_some();
        }
        self
    }
}

impl Check<'_> {
    /// C-states that can be: of known names, each once, and never above what a core in C1 takes.
    pub(super) fn idle_states(
        &self,
        states: Vec<Spanned<IdleState>>,
        power: &PowerSpec,
    ) -> Result<Vec<IdleState>, InputError> {
        let mut known: Vec<IdleState> = Vec::new();
        for spanned in states {
            let state = spanned.get_ref();
            let wrong = |message: String| {
                self.fail(&spanned, format!("idle state \"{}\": {message}", state.name))
            };
            if known.iter().any(|other| other.name == state.name) {
                return Err(wrong("expected a name of its own".into()));
            }
            impossible_state(state, power).map_or(Ok(()), |message| Err(wrong(message)))?;
            known.push(spanned.into_inner());
            // A ledger has a fixed place for each deep state, and for no more than these.
            let deep = known.iter().filter(|state| state.is_deep()).count();
            if deep > CoreState::DEEP.len() {
                let most = CoreState::DEEP.len();
                let message = format!("more than {most} idle states deeper than \"{C1}\"");
                return Err(InputError { name: self.input.name.clone(), line: None, message });
            }
        }
        Ok(known)
    }

    /// A package that can be.
    pub(super) fn package(
        &self,
        section: Option<Spanned<PackageSpec>>,
    ) -> Result<Option<PackageSpec>, InputError> {
        let Some(spanned) = section else { return Ok(None) };
        let package = spanned.get_ref();
        if !POWER.contains(&package.uncore_w) {
            return Err(self.fail(&spanned, "package.uncore_w: expected 0 to 1e9 W"));
        }
        let sharing = [package.cores, package.l3_cores, package.memory_cores];
        if sharing.iter().flatten().any(|cores| !(1..=4096).contains(cores)) {
            let message = "package: expected 1 to 4096 cores that share a part";
            return Err(self.fail(&spanned, message));
        }
        // Values that are not written pass the comparison below, in which a NaN of the file fails:
        // no range contains it.
        let [low, high] = package.idle_w.unwrap_or([0.0, 0.0]);
        let tdp_w = package.tdp_w.unwrap_or(f64::MAX);
        if !(0.0..=high).contains(&low) || !(high..).contains(&tdp_w) || tdp_w <= 0.0 {
            let message = "package: expected idle_w of least and most, no more than tdp_w";
            return Err(self.fail(&spanned, message));
        }
        if let Some(sleep) = &package.sleep {
            let shares = [sleep.uncore_share, sleep.l3_share, sleep.memory_share];
            let sound = shares.iter().all(|share| (0.0..=1.0).contains(share));
            if !sound || !(0.0..=1e9).contains(&sleep.enter_ns) {
                let message = "package.sleep: expected shares of 0 to 1, entered after 0 to 1e9 ns";
                return Err(self.fail(&spanned, message));
            }
        }
        Ok(Some(spanned.into_inner()))
    }
}

/// Says what is wrong with a state.
fn impossible_state(state: &IdleState, power: &PowerSpec) -> Option<String> {
    if !NAMES.contains(&state.name.as_str()) {
        return Some(format!("expected one of {}", NAMES.join(", ")));
    }
    let leakage = power.core.leakage_w;
    let [least, most] = state.wakes_us();
    // All go into sums of `Time`; a second for each is far from overflowing them, and NaN is in no
    // range.
    let times = [state.exit_us, state.residency_us, least, most, state.break_even_us()];
    if times.iter().any(|us| !(0.0..=1e6).contains(us)) || least > most {
        return Some("expected times of 0 to 1e6 us, and least before most".into());
    }
    if state.is_deep() && state.exit_us == 0.0 {
        return Some("an exit of 0 us, expected more".into());
    }
    match state.core_w {
        Some(_) if !state.is_deep() => Some("takes what power.core says; leave core_w out".into()),
        None if state.is_deep() => Some("missing field `core_w`".into()),
        // With as much power as C1 a stay would never break even, and a round trip would cost
        // nothing.
        Some(w) if !(0.0..leakage).contains(&w) => Some(format!(
            "takes {w} W, expected less than power.core.leakage_w, which a core in C1 takes: \
             {leakage} W"
        )),
        _ if state.loses.contains(&Lost::L3) => Some("loses no level that cores share".into()),
        _ => None,
    }
}
