//! Hosts, an optical switch with nights and days, and what becomes of their packets.
//!
//! ```text
//!   schedule ── matching, day ──▶ switch ── sync frames, late now and then ──▶ hosts
//!                                   ▲                                           │ tokens
//!                                   └────────── packets, on the wire ◀── card ◀─┘
//! ```
//!
//! A slot at a time, a host after the other: within a slot hosts touch each other only through the
//! switch, and who sends to whom stands before it begins. A packet's time on the wire is known when
//! it is handed over, so nothing waits in an event queue, and what a slot takes grows with what is
//! sent in it. Times are exact in picoseconds.

mod books;
mod card;
mod connections;
mod draw;
mod exchange;
mod host;
mod packets;
mod quiet;
mod setting;
mod sync;
mod times;

use halfwink_engine::{Closed, Imbalance, Interrupted, RunControl};
use halfwink_policy::circuits::host::{TokenParameters, Tokens};
use halfwink_policy::circuits::{CircuitsPolicy, Event};
use halfwink_policy::Host as PolicyHost;
use halfwink_units::Time;

pub use connections::TcpCounts;
pub use packets::{packet_gbps, play_packets};
pub use setting::{Counts, Setting, Transport};
pub use sync::Gaps;

use crate::faults::{Broken, FaultCounts};
use crate::matching;
use books::Books;
use connections::Connections;
use exchange::Exchange;
use host::{Host, Slot, Turn};
use quiet::Quiet;
use setting::us;
use times::Times;

/// Results of a run. Everything is modelled.
#[derive(Debug)]
pub struct Run {
    /// Length, to the end of the last slot.
    pub duration: Time,
    /// Nights with a day after them.
    pub slots: u64,
    /// Time in which circuits were up.
    pub up: Time,
    /// Counters of packets.
    pub counts: Counts,
    /// Distances between sync frames.
    pub gaps: Gaps,
    /// Number of faults injected.
    pub faults: FaultCounts,
    /// Packets delivered for each pair, by rows of senders; of TCP those in order.
    pub delivered: Vec<u64>,
    /// Further counters of TCP.
    pub tcp: Option<TcpCounts>,
    /// Time and energy of what carries packets.
    pub books: Closed,
}

impl Counts {
    fn packet(&mut self, to: u16, passes: bool) {
        self.sent += 1;
        if passes {
            self.delivered[usize::from(to)] += 1;
        } else {
            self.lost += 1;
        }
    }
}

/// Reason why a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The ledger does not balance.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// An invariant was violated, which holds under any faults.
    #[error("seed {seed}: {broken}")]
    Broken {
        /// Seed of the setting.
        seed: u64,
        /// Invariant that was violated.
        broken: Broken,
    },
    /// Faults where there is no world for them.
    #[error("hosts.faults: a packet switch is a closed form in which nothing goes wrong")]
    NoFaults,
    /// The policy asked for something that cannot be.
    #[error("slot {slot}: {message}")]
    Schedule {
        /// Number of the slot.
        slot: u64,
        /// Message in one line.
        message: String,
    },
}

/// Plays traffic from all to all: every host has as much for every other as it can put into its
/// queues, or as its connections may have on their way.
///
/// # Errors
/// If it is stopped, or the policy asks for circuits that cannot be.
pub fn play(
    setting: &Setting,
    policy: CircuitsPolicy,
    control: &RunControl,
) -> Result<Run, WorldError> {
    let hosts = setting.hosts;
    let tokens = Tokens::new(TokenParameters {
        scheme: setting.scheme,
        // One gigabit a second is 125 bytes a microsecond; a fraction of a byte is cut off.
        bytes_per_us: (setting.switch.port_gbps * 1e3 / 8.0) as u32,
        margin: us(hosts.margin_us),
        // Tokens are spent when a packet goes to the card, which takes packets in batches: up to
        // one batch may be there that is not on the wire yet.
        backlog_bytes: hosts.card.batch_bytes,
        overdraws: hosts.overdraws,
    });
    let host = |n| Host::new(n, hosts, setting.seed, tokens.clone());
    let times = Times::of(setting);
    let (connections, cut) = match setting.transport {
        Transport::Udp => (None, 1),
        Transport::Tcp { algorithm, offload } => {
            // Without offload each segment is a frame; with it the card cuts as many as fit in one
            // hand-over, and never none.
            let most = (hosts.processor.offload_bytes / hosts.frame_bytes).max(1) as usize;
            let cut = if offload { most } else { 1 };
            (Some(Connections::new(setting, &times, algorithm)), cut)
        }
    };
    let mut world = World {
        setting,
        times,
        quiet: Quiet::of(hosts),
        connections,
        cut,
        turns: vec![],
        policy: PolicyHost::new(policy),
        hosts: (0..hosts.count).map(host).collect(),
        matching: vec![None; usize::from(hosts.count)],
    };
    world.play(control)
}

struct World<'a> {
    setting: &'a Setting<'a>,
    times: Times,
    quiet: Option<Quiet>,
    /// TCP connections, if that is the transport.
    connections: Option<Connections>,
    cut: usize,
    turns: Vec<Option<Turn>>,
    policy: PolicyHost<CircuitsPolicy>,
    hosts: Vec<Host>,
    matching: Vec<Option<u16>>,
}

impl World<'_> {
    fn play(&mut self, control: &RunControl) -> Result<Run, WorldError> {
        let count = self.hosts.len();
        let mut run = Run {
            duration: Time::ZERO,
            slots: 0,
            up: Time::ZERO,
            counts: Counts::default(),
            gaps: Gaps::default(),
            faults: FaultCounts::default(),
            delivered: vec![0; count * count],
            tcp: None,
            books: Closed { components: vec![], rows: Default::default(), duration: Time::ZERO },
        };
        run.counts.delivered = vec![0; count];
        let night = us(self.setting.switch.reconfiguration_us);
        let mut books = Books::default();
        while run.duration < self.setting.duration {
            control.report(run.counts.sent)?;
            let begins = run.duration;
            let day = self.schedule(begins, run.slots)?;
            let dawn = begins + night;
            // Circuits that stay end with the run.
            // At least a picosecond of day, so that each slot moves the run on.
            let last = Time(self.setting.duration.0.max(dawn.0 + 1));
            let ends = if day == Time::NEVER { last } else { dawn.saturating_add(day) };
            debug_assert!(ends > begins, "a slot moves the run on");
            let slot = Slot { night: begins, day: dawn, ends };
            self.slot(slot, &mut run);
            books.slot(night, ends - slot.day);
            run.up += ends - slot.day;
            run.duration = ends;
            run.slots += 1;
        }
        for host in &self.hosts {
            run.gaps.add(&host.receiver.gaps);
            run.faults.add(host.fate.as_ref().map(|fate| fate.counts).unwrap_or_default());
        }
        let broken = |broken| WorldError::Broken { seed: self.setting.seed, broken };
        self.verify(&run).map_err(broken)?;
        if let Some(connections) = &mut self.connections {
            run.delivered = connections.delivered();
            run.tcp = Some(connections.finish());
        }
        run.books = books.close(self.setting, run.duration)?;
        Ok(run)
    }

    /// Checks the invariants that hold under any faults.
    fn verify(&self, run: &Run) -> Result<(), Broken> {
        let (sent, lost) = (run.counts.sent, run.counts.lost);
        if let Some(connections) = &self.connections {
            return connections.verify(sent, lost);
        }
        let known = lost + run.delivered.iter().sum::<u64>();
        if sent != known {
            return Err(Broken::Unbalanced(sent, known));
        }
        Ok(())
    }

    fn slot(&mut self, slot: Slot, run: &mut Run) {
        let count = self.hosts.len();
        if let Some(connections) = &mut self.connections {
            let mut exchange = Exchange {
                setting: self.setting,
                times: &self.times,
                hosts: &mut self.hosts,
                connections,
                counts: &mut run.counts,
                turns: &mut self.turns,
                cut: self.cut,
            };
            exchange.play(slot, &self.matching);
            return;
        }
        for (n, (host, &to)) in self.hosts.iter_mut().zip(&self.matching).enumerate() {
            let is_quiet = |quiet: &Quiet| host.is_quiet(slot, to, quiet, &self.times);
            // At low load nothing waits in most slots: those are noted and not played.
            if self.quiet.as_ref().is_some_and(is_quiet) {
                continue;
            }
            host.play(slot, to, self.setting.hosts, &self.times, &mut run.counts);
            if let Some(to) = to.map(usize::from) {
                // A host counts by receiver alone: taken after each sender, its count is that of
                // the pair.
                run.delivered[n * count + to] += std::mem::take(&mut run.counts.delivered[to]);
            }
        }
    }

    /// Asks for the circuits of a slot.
    fn schedule(&mut self, now: Time, slot: u64) -> Result<Time, WorldError> {
        if self.policy.policy().wants_demand() {
            self.tell_demand(now);
        }
        let asked = (0, slot as u32);
        matching::ask(&mut self.policy, now, asked, "host", &mut self.matching)
            .map_err(|message| WorldError::Schedule { slot, message })
    }

    fn tell_demand(&mut self, now: Time) {
        let count = self.setting.hosts.count;
        for from in 0..count {
            for to in (0..count).filter(|&to| to != from) {
                let bytes = match &self.connections {
                    Some(connections) => connections.waiting(from, to),
                    None => self.hosts[usize::from(from)].waiting(to, now, &self.times),
                };
                self.policy.deliver(now, &Event::Demand { from, to, bytes }, |_, _| ());
            }
        }
    }
}
