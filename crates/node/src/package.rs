//! What cores share, and when it sleeps.

use halfwink_engine::{Cause, Ledger, Mode, Row, State};
use halfwink_units::{Energy, Power, Time};

use crate::books::{Account, Window};
use halfwink_techniques::node::machine::{Machine, Package, Scope};

const AWAKE: usize = 0;
const ASLEEP: usize = 1;

/// One instance of a shared part.
struct Part {
    name: String,
    socket: usize,
    power: [Power; 2],
    account: Account,
}

struct Socket {
    /// Cores that run, or rest in too shallow a state.
    shallow: usize,
    epoch: u64,
    is_asleep: bool,
    since: Time,
    sleeps: u64,
}

/// Sockets with all that their cores share.
pub(crate) struct Sockets {
    package: Option<Package>,
    socket_cores: usize,
    is_deep: Vec<bool>,
    sockets: Vec<Socket>,
    parts: Vec<Part>,
}

impl Sockets {
    pub(crate) fn new(machine: &Machine, package: Option<Package>, window: &Window) -> Sockets {
        let layout = machine.spec().server;
        let mut parts = Vec::new();
        for (n, part) in machine.spec().shared.iter().enumerate() {
            let of_socket = if part.scope == Scope::Die { layout.dies } else { 1 };
            let share = package.as_ref().map_or(1.0, |package| package.shares[n]);
            let asleep_w = share * part.awake_w;
            for number in 0..of_socket * layout.sockets {
                parts.push(Part {
                    name: format!("{}{number}", part.name),
                    socket: (number / of_socket) as usize,
                    power: [part.awake_w, asleep_w].map(Power::from_w),
                    account: Account::new(window, 2),
                });
            }
        }
        let socket_cores = machine.socket_cores();
        let socket = |_| Socket {
            shallow: socket_cores,
            epoch: 0,
            is_asleep: false,
            since: Time::ZERO,
            sleeps: 0,
        };
        Sockets {
            package,
            socket_cores,
            is_deep: vec![false; machine.cores()],
            sockets: (0..layout.sockets).map(socket).collect(),
            parts,
        }
    }

    /// Whether any socket may sleep.
    pub(crate) fn can_sleep(&self) -> bool {
        self.package.is_some()
    }

    /// A core rests in this state; when its socket sleeps, by which epoch, if it now may.
    pub(crate) fn rested(
        &mut self,
        core: usize,
        state: usize,
        now: Time,
    ) -> Option<(Time, usize, u64)> {
        let package = self.package.as_ref()?;
        // A core that goes from one deep state to a deeper one is heard of again, and was counted
        // already.
        if state < package.needs || self.is_deep[core] {
            return None;
        }
        self.is_deep[core] = true;
        let number = core / self.socket_cores;
        let socket = &mut self.sockets[number];
        socket.shallow -= 1;
        (socket.shallow == 0).then(|| (now + package.enter, number, socket.epoch))
    }

    /// A core that rests goes to a state in which its socket may not sleep. The core does not wait
    /// for the socket.
    pub(crate) fn rises(
        &mut self,
        core: usize,
        state: usize,
        now: Time,
        to: (&Window, &mut [u128]),
    ) {
        if self.package.as_ref().is_some_and(|package| state < package.needs) {
            self.woke(core, now, to);
        }
    }

    /// A socket enters its state, unless a core has woken since.
    pub(crate) fn enter(
        &mut self,
        number: usize,
        epoch: u64,
        now: Time,
        to: (&Window, &mut [u128]),
    ) {
        if self.sockets[number].epoch == epoch && !self.sockets[number].is_asleep {
            self.switch(number, true, now, to);
            self.sockets[number].sleeps += 1;
        }
    }

    /// A core wakes; how long its socket takes to.
    pub(crate) fn woke(&mut self, core: usize, now: Time, to: (&Window, &mut [u128])) -> Time {
        if !std::mem::take(&mut self.is_deep[core]) {
            return Time::ZERO;
        }
        let number = core / self.socket_cores;
        self.sockets[number].shallow += 1;
        self.sockets[number].epoch += 1;
        if !self.sockets[number].is_asleep {
            return Time::ZERO;
        }
        self.switch(number, false, now, to);
        self.package.as_ref().map_or(Time::ZERO, |package| package.exit)
    }

    fn switch(
        &mut self,
        number: usize,
        sleeps: bool,
        now: Time,
        (window, slices): (&Window, &mut [u128]),
    ) {
        let socket = &mut self.sockets[number];
        let kind = if socket.is_asleep { ASLEEP } else { AWAKE };
        for part in self.parts.iter_mut().filter(|part| part.socket == number) {
            part.account.post(window, slices, (kind, part.power[kind]), socket.since, now);
        }
        (socket.is_asleep, socket.since) = (sleeps, now);
    }

    /// The run is over.
    pub(crate) fn settle(&mut self, (window, slices): (&Window, &mut [u128])) {
        for number in 0..self.sockets.len() {
            let sleeps = self.sockets[number].is_asleep;
            // Into the state that it has: this posts the time since the last change.
            self.switch(number, sleeps, window.end, (window, slices));
        }
    }

    /// Share of the window in which sockets slept, and how often they went to sleep.
    pub(crate) fn slept(&self, window: &Window) -> (f64, u64) {
        let sleeps = self.sockets.iter().map(|socket| socket.sleeps).sum();
        let Some(_) = &self.package else { return (0.0, 0) };
        // Every part of a socket sleeps when the socket does; one of each socket tells.
        let asleep = |number| {
            let part = self.parts.iter().find(|part| part.socket == number);
            part.map_or(0.0, |part| part.account.time(ASLEEP).as_s())
        };
        let seconds: f64 = (0..self.sockets.len()).map(asleep).sum();
        (seconds / (window.end - window.start).as_s() / self.sockets.len() as f64, sleeps)
    }

    pub(crate) fn enter_ledger(&self, ledger: &mut Ledger, window: &Window) -> Energy {
        let mut total = Energy(0);
        for part in &self.parts {
            let meter = part.account.meter(window);
            total += meter.energy;
            let id = ledger.component(part.name.clone(), meter);
            for (kind, state) in [(AWAKE, "awake"), (ASLEEP, "asleep")] {
                let time = part.account.time(kind);
                let row = Row { time, energy: part.power[kind] * time };
                ledger.post(id, State(state), Cause { mode: Mode::Idle, reason: "shared" }, row);
            }
        }
        total
    }
}
