//! A whole fabric in one process: its switch, and what sends at each of its hosts, each in a
//! network namespace that is there already. For a machine of its own, whose time is counted in
//! instructions: all threads begin in one order, and are counted over the same time.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use halfwink_policy::circuits::Turns;
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use crate::card::{week, Card, Gates};
use crate::load::LoadReport;
use crate::report::{HostReport, SwitchReport};
use crate::streams::{listen, Streams, StreamsReport};
use crate::{time, HostConfig, Shaper, Switch, SwitchConfig};

/// The namespace of the switch; those of hosts are [`namespace`]s.
pub const SWITCH: &str = "switch";
/// Priority of the counting thread: above all threads that it counts.
const COUNT_PRIORITY: i32 = 40;
/// Traffic classes of the kernel, at most: a host has one for each other.
pub const MOST_CLASSES: usize = 16;

/// Mechanism that releases frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shaping {
    /// Our shaper, as everywhere.
    Tokens,
    /// The kernel's gates (IEEE 802.1Qbv), by the clock alone.
    Taprio,
}

/// Description of a fabric to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// Settings of the switch.
    pub switch: SwitchConfig,
    /// Settings of the hosts, by number.
    pub hosts: Vec<HostConfig>,
    /// Length of a day of round robin, in microseconds.
    pub day_us: f64,
    /// Mechanism that releases frames.
    pub shaping: Shaping,
    /// TCP between all hosts, under this congestion control.
    pub streams: Option<String>,
    /// Time from the begin of the traffic until counting begins, in milliseconds.
    pub warm_up_ms: u64,
    /// Time of counting, in milliseconds.
    pub count_ms: u64,
}

/// Reports of a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct FabricReport {
    /// Report of the switch.
    pub switch: SwitchReport,
    /// Report of each host.
    pub hosts: Vec<HostReport>,
    /// Report of each host's connections, if there were any.
    pub streams: Vec<StreamsReport>,
}

enum Sender {
    Shaper(Shaper),
    Card(Card),
}

impl Sender {
    fn report(&self, from_zero: bool) -> HostReport {
        match self {
            Sender::Shaper(shaper) => shaper.report(from_zero),
            Sender::Card(card) => card.report(from_zero),
        }
    }
}

/// The namespace of a host.
#[must_use]
pub fn namespace(host: u16) -> String {
    format!("host{host}")
}

/// Plays it.
///
/// # Errors
/// What is missing or was refused, in one line.
pub fn play(fabric: &Fabric) -> Result<FabricReport, String> {
    let n = fabric.hosts.len() as u16;
    inside(SWITCH)?;
    let policy = Box::new(Turns::round_robin(n, Time::from_ns(fabric.day_us * 1e3)));
    let mut switch = Switch::start(fabric.switch.clone(), policy, None)?;
    let mut senders = Vec::new();
    for config in &fabric.hosts {
        inside(&namespace(config.host))?;
        senders.push(match fabric.shaping {
            Shaping::Tokens => Sender::Shaper(Shaper::start(config)?),
            Shaping::Taprio => Sender::Card(Card::start(config)?),
        });
    }
    if fabric.shaping == Shaping::Taprio {
        // Days are told from now on; a gate list begins with the week after it is given.
        let two_weeks = 2.0 * f64::from(n) * (fabric.day_us + fabric.switch.night_us);
        let two_weeks = Duration::from_nanos((two_weeks * 1e3) as u64);
        std::thread::sleep(two_weeks);
        gate_all(fabric, &senders)?;
        std::thread::sleep(two_weeks);
        for (config, sender) in fabric.hosts.iter().zip(&mut senders) {
            let Sender::Card(card) = sender else { continue };
            inside(&namespace(config.host))?;
            card.begin_load(config)?;
        }
    }
    let streams = begin_streams(fabric)?;
    // What they begin has its own priority; this one counts, whatever they do.
    time::be_punctual(COUNT_PRIORITY);
    std::thread::sleep(Duration::from_millis(fabric.warm_up_ms));
    // Loads and streams count on: what they had at this moment is subtracted at the end.
    let loads: Vec<Option<LoadReport>> = senders.iter().map(|s| s.report(true).load).collect();
    let before: Vec<StreamsReport> = streams.iter().map(Streams::report).collect();
    drop(switch.report(true));
    std::thread::sleep(Duration::from_millis(fabric.count_ms));
    let report = FabricReport {
        switch: switch.report(false),
        hosts: senders
            .iter()
            .zip(loads)
            .map(|(sender, then)| {
                let now = sender.report(false);
                let load = now.load.map(|load| load.since(&then.unwrap_or_default()));
                HostReport { load, ..now }
            })
            .collect(),
        streams: streams.iter().zip(&before).map(|(now, then)| since(now.report(), then)).collect(),
    };
    drop(streams);
    for sender in &mut senders {
        match sender {
            Sender::Shaper(shaper) => shaper.stop()?,
            Sender::Card(card) => card.stop()?,
        }
    }
    switch.stop()?;
    Ok(report)
}

fn begin_streams(fabric: &Fabric) -> Result<Vec<Streams>, String> {
    let Some(congestion) = &fabric.streams else { return Ok(Vec::new()) };
    let mut listeners = Vec::new();
    for config in &fabric.hosts {
        inside(&namespace(config.host))?;
        listeners.push(listen(config.host).map_err(|e| format!("host {}: {e}", config.host))?);
    }
    // All listen by now, so that the first to connect finds the others there.
    let hosts = fabric.hosts.len() as u16;
    let mut streams = Vec::new();
    for (config, listener) in fabric.hosts.iter().zip(listeners) {
        inside(&namespace(config.host))?;
        let started = Streams::start(config.host, hosts, congestion, listener);
        streams.push(started.map_err(|e| format!("host {}: {e}", config.host))?);
    }
    Ok(streams)
}

fn since(now: StreamsReport, then: &StreamsReport) -> StreamsReport {
    StreamsReport {
        received_bytes: now.received_bytes - then.received_bytes,
        retransmitted: now.retransmitted - then.retransmitted,
        ..now
    }
}

/// Moves this thread into a namespace, and with it what it begins from now on.
fn inside(name: &str) -> Result<(), String> {
    let path = format!("/run/netns/{name}");
    let entered = File::open(&path).and_then(|file| {
        // SAFETY: a descriptor that is open, and a plain number.
        match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
    entered.map_err(|e| format!("{path}: {e}"))
}

fn gate_all(fabric: &Fabric, senders: &[Sender]) -> Result<(), String> {
    for (config, sender) in fabric.hosts.iter().zip(senders) {
        let Sender::Card(card) = sender else { continue };
        inside(&namespace(config.host))?;
        gate(config, card)?;
    }
    Ok(())
}

/// Gives a host's device the gates of the week that its card has heard of.
fn gate(config: &HostConfig, card: &Card) -> Result<(), String> {
    let hosts = usize::from(config.hosts);
    if hosts > MOST_CLASSES {
        return Err(format!("taprio has {MOST_CLASSES} classes, and there are {hosts} hosts"));
    }
    let margin_ns = (config.margin_us * 1e3) as u64;
    let gates = week(&card.days(), hosts - 1, margin_ns)
        .ok_or_else(|| format!("host {}: heard of no whole week", config.host))?;
    for line in commands(config, &gates) {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        let done = Command::new(program).args(words).output();
        let done = done.map_err(|e| format!("{program}: {e}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{line}: {}", said.trim().lines().last().unwrap_or("failed")));
        }
    }
    Ok(())
}

/// Returns the commands that make the kernel gate a device: a class, a queue of the device, and a
/// queue of frames for each host.
///
/// The queues of frames must stay those that taprio makes, as long as the device exists: another
/// qdisc in their place would reset taprio (`taprio_graft` of Linux 6.1), which then keeps its
/// gates open.
fn commands(config: &HostConfig, gates: &Gates) -> Vec<String> {
    let (device, n) = (&config.device, config.hosts);
    let others = || (0..n).filter(|&to| to != config.host);
    // Bits of guard bands and budgets are the device's.
    let mbps = config.bytes_per_us * 8;
    let mut lines = vec![
        format!("ethtool -s {device} speed {mbps} duplex full autoneg off"),
        format!("tc qdisc add dev {device} clsact"),
    ];
    lines.extend(others().map(|to| {
        format!(
            "tc filter add dev {device} egress protocol ip flower dst_ip {} \
             action skbedit priority {to} queue_mapping {to}",
            crate::load::address(to)
        )
    }));
    let map: Vec<String> =
        (0..MOST_CLASSES).map(|class| (class as u16).min(n - 1).to_string()).collect();
    let queues: Vec<String> = (0..n).map(|queue| format!("1@{queue}")).collect();
    // A mask has a bit for each class, which is that of a host; without one, all gates are closed.
    let entries: Vec<String> = gates
        .intervals
        .iter()
        .map(|(peer, ns)| format!("sched-entry S {:x} {ns}", peer.map_or(0, |peer| 1u32 << peer)))
        .collect();
    lines.push(format!(
        "tc qdisc replace dev {device} parent root handle 100: taprio num_tc {n} map {} queues {} \
         base-time {} {} clockid CLOCK_MONOTONIC",
        map.join(" "),
        queues.join(" "),
        gates.base_ns,
        entries.join(" "),
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostConfig {
        HostConfig {
            host: 0,
            hosts: 3,
            interface: "up0".to_owned(),
            device: "circ0".to_owned(),
            bytes_per_us: 25,
            tokens: "naive".to_owned(),
            margin_us: 1175.0,
            backlog_bytes: 80_000,
            queue_bytes: 500_000,
            spin_us: 0.0,
            spin_share: 0.0,
            realtime: true,
            load_frame_bytes: None,
            load_every_us: 500.0,
        }
    }

    #[test]
    fn the_kernel_is_told_of_a_class_and_a_queue_for_each_host() {
        let intervals = vec![(Some(1), 100), (None, 35), (Some(2), 100), (None, 35)];
        let lines = commands(&host(), &Gates { base_ns: 7, intervals });
        let expected = [
            "ethtool -s circ0 speed 200 duplex full autoneg off",
            "tc qdisc add dev circ0 clsact",
            "tc filter add dev circ0 egress protocol ip flower dst_ip 10.77.0.2 action skbedit \
             priority 1 queue_mapping 1",
            "tc filter add dev circ0 egress protocol ip flower dst_ip 10.77.0.3 action skbedit \
             priority 2 queue_mapping 2",
            "tc qdisc replace dev circ0 parent root handle 100: taprio num_tc 3 map 0 1 2 2 2 2 2 \
             2 2 2 2 2 2 2 2 2 queues 1@0 1@1 1@2 base-time 7 sched-entry S 2 100 sched-entry S 0 \
             35 sched-entry S 4 100 sched-entry S 0 35 clockid CLOCK_MONOTONIC",
        ];
        assert_eq!(lines, expected);
    }
}
