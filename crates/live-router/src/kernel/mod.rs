//! Forwarding in the kernel: the policy moves a redirect table that programs execute there.
//!
//! ```text
//!  port ─▶ receive ─▶ redirect table ─▶ this CPU: forward ──▶ port
//!             │         ▲ 128 entries └▶ ring of a CPU: forward ──▶ port
//!             ▼         └─ Move ◀── policy ◀── Poll, Empty ◀── counters, read at each look
//!       kernel's stack: what needs thought
//! ```
//!
//! Routes, neighbours and addresses are the kernel's own. A core of the policy is a CPU; no thread
//! of this process touches a frame. Rests are the kernel's idle governor's affair: the policy's
//! are counted, and give parked and waiting CPUs the names of their states.

mod busy;
mod code;
mod features;
mod look;
mod memory;
mod ports;
mod rps;
mod softnet;
mod table;
mod xdp;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_live::clock::Rate;
use halfwink_live::program::config::{changes, plain, refuse};
use halfwink_live::program::stand_in::Deciding;
use halfwink_live::sys::CpuSet;
use halfwink_policy::scaling::ScalingPolicy;

use super::config::{Config, Forward, CPUS, FIXED};
use super::control::{Clock, Control, EventLog, Next};
use super::report::Report;
use super::sync::locked;
use busy::Clocks;
use look::Looks;
use rps::Rps;
use table::Table;
use xdp::Xdp;

/// At the end, frames in rings are served for that long at most.
const DRAIN: Duration = Duration::from_millis(300);

/// The kernel's forwarding under a policy. Dropping it stops it: the kernel then forwards alone.
pub(super) struct Forwarding {
    shared: Arc<Shared>,
    config: Mutex<Config>,
    /// Between which moments its times began.
    began: [Instant; 2],
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    table: Box<dyn Table>,
    control: Control,
    looks: Mutex<Looks>,
    stopping: Bell,
}

/// Wakes the thread that looks.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *locked(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Waits for so long at most; true once it was rung.
    fn wait(&self, most: Duration) -> bool {
        let rung = locked(&self.rung);
        let waited = self.changed.wait_timeout_while(rung, most, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Forwarding {
    /// Puts the programs on all ports, and starts to look after them.
    ///
    /// # Errors
    /// The reason why the kernel does not allow it, in one line.
    pub(super) fn start(
        config: Config,
        policy: Deciding<ScalingPolicy, Next>,
        log: Option<EventLog>,
    ) -> Result<Forwarding, String> {
        let cpus = cpus(&config)?;
        let (table, clocks) = open(&config, &cpus)?;
        let control = Control::new(policy, config.workers, Clock::start(Rate::measure()), log);
        let earliest = Instant::now();
        let looks = Looks::new(&cpus, clocks, &*table);
        let began = [earliest, Instant::now()];
        let looks = Mutex::new(looks);
        let shared = Arc::new(Shared { table, control, looks, stopping: Bell::default() });
        let looker = shared.clone();
        let thread = std::thread::Builder::new().name("router-looks".to_owned());
        let thread = thread.spawn(move || looker.run()).map_err(|e| format!("thread: {e}"))?;
        Ok(Forwarding { shared, config: Mutex::new(config), began, thread: Some(thread) })
    }

    /// Takes a new description, in which nothing but the policy may have changed: all else that
    /// this router uses of it is fixed.
    ///
    /// # Errors
    /// What can only change by a restart.
    pub(super) fn reload(&self, config: Config) -> Result<Vec<String>, String> {
        let mut now = locked(&self.config);
        let changes = changes(&*now, &config);
        refuse(&changes, &FIXED)?;
        *now = config;
        Ok(changes)
    }

    /// The policy, which the thread that looks follows at its next look.
    pub(super) fn control(&self) -> &Control {
        &self.shared.control
    }

    /// Returns the description in use.
    pub(super) fn config(&self) -> Config {
        locked(&self.config).clone()
    }

    /// Stops: rings are served to their end, and the kernel forwards alone.
    pub(super) fn stop(&mut self) {
        self.shared.stopping.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }

    /// Returns whether its thread is running.
    pub(super) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Returns the report up to now.
    pub(super) fn report(&self) -> Report {
        let (shared, began) = (&self.shared, self.began);
        let mut looks = locked(&shared.looks);
        look::report(&mut looks, &*shared.table, &shared.control, began)
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        let table = &*self.table;
        let mut next = Duration::ZERO;
        locked(&self.looks).act(table, &self.control);
        while !self.stopping.wait(next) {
            let mut looks = locked(&self.looks);
            next = looks.look(table, &self.control);
            if looks.must_care() {
                table.look_after();
            }
        }
        table.end();
        let end = Instant::now() + DRAIN;
        let mut looks = locked(&self.looks);
        while looks.waits(table) && Instant::now() < end {
            std::thread::sleep(look::LEAST);
        }
        looks.look(table, &self.control);
    }
}

/// Opens the table as described, with the clocks of its CPUs.
fn open(config: &Config, cpus: &[u32]) -> Result<(Box<dyn Table>, Clocks), String> {
    let by_xdp = || -> Result<(Box<dyn Table>, Clocks), String> {
        let xdp = Xdp::open(config, cpus)?;
        let clocks = xdp.clocks();
        Ok((Box::new(xdp), clocks))
    };
    let by_rps = || -> Result<(Box<dyn Table>, Clocks), String> {
        let rps = Rps::open(config, cpus)?;
        let clocks = rps.clocks();
        Ok((Box::new(rps), clocks))
    };
    match config.forward {
        Forward::Rps => by_rps(),
        Forward::Auto => by_xdp().or_else(|why| {
            halfwink_live::say!("halfwink: {}; forwarding by RPS", plain(&why));
            by_rps().map_err(|other| format!("{why}; {other}"))
        }),
        // User space has no table here.
        Forward::Xdp | Forward::UserSpace => by_xdp(),
    }
}

/// The CPUs of the policy's cores: as described, or the first that this process may use.
fn cpus(config: &Config) -> Result<Vec<u32>, String> {
    let workers = usize::from(config.workers);
    let allowed: Vec<u32> = CpuSet::allowed().iter().filter(|&cpu| cpu < CPUS).collect();
    let mut cpus = if config.cpus.is_empty() { allowed } else { config.cpus.clone() };
    if cpus.len() < workers {
        let found = cpus.len();
        return Err(format!(
            "workers: found {workers}, expected at most {found}: one for each CPU"
        ));
    }
    cpus.truncate(workers);
    Ok(cpus)
}
