//! C-states of a core as its kernel lists them, and the state that a whole package may enter while
//! all its cores are halted.

use halfwink_engine::InputError;
use halfwink_power::{Gating, Lost};
use halfwink_units::Time;
use serde::Deserialize;
use toml::Spanned;

use super::check::{Check, POWER};
use super::{Machine, PowerSpec};

/// A state that a halted core may be put into, as a kernel's table of idle states has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Name of the state, such as `c6`.
    pub name: String,
    /// Longest time from the interrupt until the core runs, in microseconds.
    pub exit_us: f64,
    /// The shortest stay that is worth it, in microseconds.
    pub residency_us: f64,
    /// Power of the core and its private caches in it, in watts.
    pub core_w: f64,
    /// Parts that lose their contents.
    #[serde(default)]
    pub loses: Vec<Lost>,
}

/// Power of a package beside its cores, its third level and its memory, and its sleep state.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSpec {
    /// Mesh, memory controllers and input and output while any core is awake, in watts.
    pub uncore_w: f64,
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

    /// Returns a machine whose halted cores enter this state instead of being gated; unchanged, if
    /// it has none of the name.
    ///
    /// The table's residency is the stay that pays for itself; the wake-up energy follows from that
    /// (assumption: governors use no other reason).
    #[must_use]
    pub fn with_idle_state(mut self, name: &str) -> Machine {
        let Some(state) = self.idle_state(name).cloned() else { return self };
        let leakage = self.power.core.leakage_w;
        let refill = self.clock.time_of(self.core.refill);
        let exit = Time::from_ns(state.exit_us * 1e3).saturating_sub(refill);
        let off = Time::from_ns(state.residency_us * 1e3).saturating_sub(exit + refill);
        self.gating = Gating {
            entry_cycles: 0,
            wake_up_ns: exit.as_ns(),
            control_cycles: 0,
            refill_cycles: self.core.refill,
            wake_up_energy_pj: (leakage - state.core_w) * off.as_ns() * 1e3,
            leakage_reduction: 1.0 - state.core_w / leakage,
            retention_overhead: 0.0,
            loses: state.loses,
            loses_after_us: 0.0,
        };
        self.wake_up.controller = super::WakeUpKind::Fixed;
        self
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
    /// C-states that can be: of names of their own, rising, and never above what a halted core
    /// takes.
    pub(super) fn idle_states(
        &self,
        states: Vec<Spanned<IdleState>>,
        power: &PowerSpec,
    ) -> Result<Vec<IdleState>, InputError> {
        let leakage = power.core.leakage_w;
        let mut known: Vec<IdleState> = Vec::new();
        for spanned in states {
            let state = spanned.get_ref();
            let name = &state.name;
            if name.is_empty() || known.iter().any(|other| other.name == *name) {
                let message = format!("idle state \"{name}\": expected a name of its own");
                return Err(self.fail(&spanned, message));
            }
            let [exit, residency] = [state.exit_us, state.residency_us];
            if !(0.001..=1e6).contains(&exit) || !(exit..=1e6).contains(&residency) {
                let message = format!(
                    "idle state \"{name}\": an exit of {exit} us and a residency of {residency} \
                     us, expected 0.001 to 1e6, the residency no shorter than the exit"
                );
                return Err(self.fail(&spanned, message));
            }
            if !(0.0..leakage).contains(&state.core_w) {
                let message = format!(
                    "idle state \"{name}\" takes {} W, expected less than power.core.leakage_w, \
                     which a halted core takes: {leakage} W",
                    state.core_w
                );
                return Err(self.fail(&spanned, message));
            }
            known.push(spanned.into_inner());
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
