//! A server, as its description has it, and checked.

use halfwink_policy::gating::{Costs, Slots};
use halfwink_units::{Power, PowerBasis, Time};
use serde::{Deserialize, Serialize};

/// A value of a description that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct SpecError {
    /// Path of the value (`server.cores`).
    pub element: String,
    /// What was found and what is expected.
    pub message: String,
}

impl SpecError {
    /// Creates an error about the value at a path.
    pub fn at(element: impl Into<String>, message: impl Into<String>) -> SpecError {
        SpecError { element: element.into(), message: message.into() }
    }
}

/// A description of a server (`machines/node/*.toml`). Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// One line.
    pub description: String,
    /// Machine file of the core, which profiles of this server are made on.
    pub core: String,
    /// Sockets, dies, cores.
    pub server: Layout,
    /// Watts of a core that is not in an idle state.
    pub power: CorePower,
    /// Idle states of a core, from the shallowest to the deepest.
    pub idle_states: Vec<IdleState>,
    /// What cores share.
    #[serde(default)]
    pub shared: Vec<Shared>,
    /// States of a socket in which what its cores share sleeps.
    #[serde(default)]
    pub package_states: Vec<PackageState>,
    /// What wakes idle cores beside requests.
    pub kernel: Kernel,
    /// Kind of the cores that run kernel code where it has cores of its own.
    #[serde(default)]
    pub kernel_cores: KernelCores,
    /// Rest of the machine (fans, disks, network card, supply losses), in watts.
    pub rest_w: f64,
}

/// Numbers of sockets, dies and cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Sockets of the machine.
    pub sockets: u32,
    /// Dies of a socket that hold cores.
    pub dies: u32,
    /// Cores of a die.
    pub cores: u32,
}

/// Watts of a core that is not in an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorePower {
    /// Serving a request whose profile has no watts of its own.
    pub active_w: f64,
    /// Spinning in an idle loop.
    pub poll_w: f64,
    /// Leaving an idle state.
    pub waking_w: f64,
    /// Origin of the watts of the whole server.
    #[serde(default)]
    pub basis: PowerBasis,
    /// The least and the greatest multiple of these watts that each part may take, where they are
    /// estimated or assumed.
    #[serde(default = "as_written")]
    pub factor: [f64; 2],
}

fn as_written() -> [f64; 2] {
    [1.0; 2]
}

/// An idle state of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Name, such as `c6`.
    pub name: String,
    /// Exit latency that governors are told, in microseconds.
    pub exit_us: f64,
    /// Shortest stay worth the state that governors are told, in microseconds.
    pub residency_us: f64,
    /// Least and greatest time that silicon takes to leave the state, in microseconds; drawn
    /// evenly between them.
    pub wake_us: [f64; 2],
    /// Watts of the core and its private caches in the state.
    pub core_w: f64,
    /// Contents that the state loses, named as in the core's machine file.
    #[serde(default)]
    pub loses: Vec<String>,
    /// Whether a machine that is on sale has the state.
    #[serde(default)]
    pub proposed: bool,
}

/// A part that several cores share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Name, such as `mesh`.
    pub name: String,
    /// How many of it the machine has.
    pub scope: Scope,
    /// Watts of one while its socket is awake.
    pub awake_w: f64,
}

/// What a shared part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One for each die.
    Die,
    /// One for each socket.
    Socket,
}

/// A state of a socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageState {
    /// Name, such as `pc1a`.
    pub name: String,
    /// Shallowest idle state that all cores must be in.
    pub needs: String,
    /// All cores are that idle for so long before it is entered, in microseconds.
    pub enter_us: f64,
    /// Time to leave it, beside the core's own exit, in microseconds.
    pub exit_us: f64,
    /// Share of the awake watts of each shared part that remains, in the order of `shared`.
    pub shares: Vec<f64>,
    /// Whether a machine that is on sale has the state.
    #[serde(default)]
    pub proposed: bool,
}

/// What the kernel does on an idle core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Between ticks, in microseconds.
    pub tick_us: f64,
    /// Work of a tick, in microseconds.
    pub tick_work_us: f64,
    /// Until the next timer that an idle core's governor sees, in microseconds.
    pub next_timer_us: f64,
    /// Wake-ups of a core a second beside requests and ticks (timers, RCU, workers).
    pub background_per_s: f64,
    /// Work of such a wake-up in the mean, in microseconds; exponential.
    pub background_us: f64,
}

/// Cores of the kernel beside cores that serve requests (Mogul 2007, section 3). They have the same
/// idle states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelCores {
    /// Time that they take for kernel code, as a multiple.
    pub slowdown: f64,
    /// Watts that they take in each state, as a multiple.
    pub power: f64,
}

impl Default for KernelCores {
    /// Cores of the same kind.
    fn default() -> KernelCores {
        KernelCores { slowdown: 1.0, power: 1.0 }
    }
}

/// Number of the state in which an idle core spins; others follow in the order of the file.
pub const POLL: usize = 0;

/// An idle state in whole picoseconds and microwatts.
#[derive(Clone, Debug)]
pub struct State {
    /// Name in the file.
    pub name: &'static str,
    /// Shortest and longest time that silicon takes to wake.
    pub wake: [Time; 2],
    /// Power of a core in it.
    pub power: Power,
    /// Caches and predictors that lose their contents.
    pub loses: Vec<String>,
}

/// A package state in whole picoseconds.
#[derive(Clone, Debug)]
pub struct Package {
    /// Number of the idle state that all cores must be in, or deeper.
    pub needs: usize,
    /// Time to enter.
    pub enter: Time,
    /// Time to leave.
    pub exit: Time,
    /// Share of the awake power that each shared part keeps.
    pub shares: Vec<f64>,
}

/// A server, ready to be played.
#[derive(Clone, Debug)]
pub struct Machine {
    spec: Spec,
    /// Idle states, `poll` first.
    pub states: Vec<State>,
    /// Power of a core that wakes.
    pub waking: Power,
    /// Power of a core that serves.
    pub active: Power,
    /// Busy time of a scheduler tick.
    pub tick_work: Time,
}

const MOST_CORES: u32 = 4096;

impl Machine {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that is not possible.
    pub fn new(spec: Spec) -> Result<Machine, SpecError> {
        within("schema", f64::from(spec.schema), 1.0, 1.0)?;
        let Layout { sockets, dies, cores } = spec.server;
        let counts = [("server.sockets", sockets), ("server.dies", dies), ("server.cores", cores)];
        for (element, count) in counts {
            within(element, f64::from(count), 1.0, f64::from(MOST_CORES))?;
        }
        let total = u64::from(sockets) * u64::from(dies) * u64::from(cores);
        within("server", total as f64, 1.0, f64::from(MOST_CORES))?;
        let CorePower { active_w, poll_w, waking_w, basis: _, factor: [least, most] } = spec.power;
        for (element, watts) in
            [("power.active_w", active_w), ("power.poll_w", poll_w), ("power.waking_w", waking_w)]
        {
            within(element, watts, 1e-6, 1e4)?;
        }
        within("power.factor", least, 0.0, 1.0)?;
        within("power.factor", most, 1.0, 100.0)?;
        within("rest_w", spec.rest_w, 0.0, 1e6)?;
        kernel(&spec.kernel)?;
        within("kernel_cores.slowdown", spec.kernel_cores.slowdown, 0.1, 100.0)?;
        within("kernel_cores.power", spec.kernel_cores.power, 1e-3, 10.0)?;
        let states = states(&spec)?;
        packages(&spec)?;
        Ok(Machine {
            states,
            waking: Power::from_w(waking_w),
            active: Power::from_w(active_w),
            tick_work: us(spec.kernel.tick_work_us),
            spec,
        })
    }

    /// The description.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Number of cores of the machine.
    #[must_use]
    pub fn cores(&self) -> usize {
        let Layout { sockets, dies, cores } = self.spec.server;
        (sockets * dies * cores) as usize
    }

    /// Number of cores of a socket.
    #[must_use]
    pub fn socket_cores(&self) -> usize {
        (self.spec.server.dies * self.spec.server.cores) as usize
    }

    /// Number of the idle state of this name; `poll` is 0.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<usize> {
        self.states.iter().position(|state| state.name == name)
    }

    /// Names of the idle states, `poll` first.
    pub fn state_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.states.iter().map(|state| state.name)
    }

    /// An idle state as the file has it; none for `poll`.
    #[must_use]
    pub fn told(&self, state: usize) -> Option<&IdleState> {
        self.spec.idle_states.get(state.checked_sub(1)?)
    }

    /// Numbers of the idle states that a machine on sale has, from the shallowest.
    #[must_use]
    pub fn on_sale(&self) -> Vec<usize> {
        let states = self.spec.idle_states.iter().enumerate();
        states.filter(|(_, state)| !state.proposed).map(|(n, _)| n + 1).collect()
    }

    /// Costs of a core that is gated in a state, as the kernel is told of it.
    #[must_use]
    pub fn gating_costs(&self, gated: usize) -> Costs {
        let (exit_us, residency_us) =
            self.told(gated).map_or((0.0, 0.0), |state| (state.exit_us, state.residency_us));
        Costs {
            entry: Time::ZERO,
            break_even: us(residency_us - exit_us),
            wake_up: us(exit_us),
            restore: Time::ZERO,
            slots: Slots::ANY,
        }
    }

    /// Returns a package state by name.
    #[must_use]
    pub fn package(&self, name: &str) -> Option<Package> {
        let state = self.spec.package_states.iter().find(|state| state.name == name)?;
        Some(Package {
            needs: self.state(&state.needs)?,
            enter: us(state.enter_us),
            exit: us(state.exit_us),
            shares: state.shares.clone(),
        })
    }

    /// Watts of the machine without requests: cores in this state, all else awake.
    #[must_use]
    pub fn idle_w(&self, state: usize) -> f64 {
        let core_w = self.states[state].power.as_w();
        self.floor_w() + core_w * self.cores() as f64
    }

    /// Watts of all but the cores, awake.
    #[must_use]
    pub fn floor_w(&self) -> f64 {
        let Layout { sockets, dies, .. } = self.spec.server;
        let count = |scope| match scope {
            Scope::Die => f64::from(sockets * dies),
            Scope::Socket => f64::from(sockets),
        };
        let shared = self.spec.shared.iter().map(|part| count(part.scope) * part.awake_w);
        self.spec.rest_w + shared.sum::<f64>()
    }
}

/// Converts microseconds to a time.
#[must_use]
pub fn us(us: f64) -> Time {
    Time::from_ns(us * 1e3)
}

/// State names live as long as the program, as the ledger's do: there are few, and each machine
/// names the same ones.
fn leak(name: &str) -> &'static str {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

fn states(spec: &Spec) -> Result<Vec<State>, SpecError> {
    let mut states = vec![State {
        name: "poll",
        wake: [Time::ZERO; 2],
        power: Power::from_w(spec.power.poll_w),
        loses: Vec::new(),
    }];
    if spec.idle_states.is_empty() {
        return Err(SpecError::at("idle_states", "expected one state or more"));
    }
    for (n, state) in spec.idle_states.iter().enumerate() {
        let at = |key: &str| format!("idle_states.{n}.{key}");
        if state.name.is_empty() || states.iter().any(|other| other.name == state.name) {
            let message = format!("`{}`, expected a name of its own", state.name);
            return Err(SpecError::at(at("name"), message));
        }
        within(&at("exit_us"), state.exit_us, 0.0, 1e6)?;
        within(&at("residency_us"), state.residency_us, state.exit_us, 1e6)?;
        within(&at("wake_us"), state.wake_us[0], 0.0, 1e6)?;
        within(&at("wake_us"), state.wake_us[1], state.wake_us[0], 1e6)?;
        within(&at("core_w"), state.core_w, 0.0, spec.power.poll_w)?;
        states.push(State {
            name: leak(&state.name),
            wake: state.wake_us.map(us),
            power: Power::from_w(state.core_w),
            loses: state.loses.clone(),
        });
    }
    Ok(states)
}

fn packages(spec: &Spec) -> Result<(), SpecError> {
    for (n, part) in spec.shared.iter().enumerate() {
        within(&format!("shared.{n}.awake_w"), part.awake_w, 0.0, 1e5)?;
    }
    for (n, state) in spec.package_states.iter().enumerate() {
        let at = |key: &str| format!("package_states.{n}.{key}");
        if !spec.idle_states.iter().any(|core| core.name == state.needs) {
            let message = format!("no idle state `{}`", state.needs);
            return Err(SpecError::at(at("needs"), message));
        }
        within(&at("enter_us"), state.enter_us, 0.0, 1e6)?;
        within(&at("exit_us"), state.exit_us, 0.0, 1e6)?;
        if state.shares.len() != spec.shared.len() {
            let message =
                format!("{} shares, expected one for each of `shared`", state.shares.len());
            return Err(SpecError::at(at("shares"), message));
        }
        for &share in &state.shares {
            within(&at("shares"), share, 0.0, 1.0)?;
        }
    }
    Ok(())
}

fn kernel(kernel: &Kernel) -> Result<(), SpecError> {
    within("kernel.tick_us", kernel.tick_us, 1.0, 1e9)?;
    within("kernel.tick_work_us", kernel.tick_work_us, 0.0, 1e6)?;
    within("kernel.next_timer_us", kernel.next_timer_us, 1.0, 1e9)?;
    within("kernel.background_per_s", kernel.background_per_s, 0.0, 1e6)?;
    within("kernel.background_us", kernel.background_us, 0.0, 1e6)
}

/// Checks that a value is in a range.
///
/// # Errors
/// It is not; with its path and the range.
pub fn within(element: &str, value: f64, low: f64, high: f64) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(SpecError::at(element, format!("{value}, expected {low} to {high}")))
}
