//! The nodes of a fabric that one process plays: a switch, a host, or all of them, each in a
//! network namespace that is there already. A machine of its own, whose time is counted in
//! instructions, plays all: all threads begin in one order, and are counted over the same time.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use halfwink_policy::circuits::CircuitsPolicy;
use serde::Serialize;

use crate::card::{week, Card, Gates};
use crate::config::{FabricConfig, HostConfig, Shaping, SwitchConfig};
use crate::report::{HostReport, SwitchReport};
use crate::streams::{listen, Streams, StreamsReport};
use crate::{time, EventLog, Shaper, Switch};

/// Priority of the thread that counts a fabric: above all threads that it counts.
const COUNT_PRIORITY: i32 = 40;
/// Traffic classes of the kernel, at most: a host has one for each other.
pub const MOST_CLASSES: usize = 16;

/// Reports of the nodes of a process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Report of the switch, if it is here.
    pub switch: Option<SwitchReport>,
    /// Report of each host that is here.
    pub hosts: Vec<HostReport>,
    /// Report of each host's connections, if there are any.
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

    fn is_running(&self) -> bool {
        match self {
            Sender::Shaper(shaper) => shaper.is_running(),
            Sender::Card(card) => card.is_running(),
        }
    }

    fn stop(&mut self) -> Result<(), String> {
        match self {
            Sender::Shaper(shaper) => shaper.stop(),
            Sender::Card(card) => card.stop(),
        }
    }
}

/// Nodes at work. Dropping them ends them.
#[derive(Default)]
pub struct Nodes {
    // Ended in this order: connections before what carries them.
    streams: Vec<Streams>,
    hosts: Vec<Sender>,
    switch: Option<Switch>,
}

impl Nodes {
    /// Starts a switch.
    ///
    /// # Errors
    /// Something is missing or was refused; the line says what.
    pub fn switch(
        config: &SwitchConfig,
        policy: CircuitsPolicy,
        log: Option<EventLog>,
    ) -> Result<Nodes, String> {
        let switch = inside(config.namespace.as_ref(), || Switch::start(config, policy, log))?;
        Ok(Nodes { switch: Some(switch), ..Nodes::default() })
    }

    /// Starts a host with our shaper, and its load if it has one.
    ///
    /// # Errors
    /// Something is missing or was refused; the line says what.
    pub fn host(config: &HostConfig) -> Result<Nodes, String> {
        let shaper = inside(config.namespace.as_ref(), || Shaper::start(config))?;
        Ok(Nodes { hosts: vec![Sender::Shaper(shaper)], ..Nodes::default() })
    }

    /// Adds all hosts of a fabric and their connections to its switch, and counts from zero once
    /// they are warm. The calling thread has real-time priority from then on, if the switch has.
    ///
    /// # Errors
    /// Something is missing or was refused; the line says what.
    pub fn fabric(
        mut self,
        fabric: &FabricConfig,
        switch: &SwitchConfig,
        hosts: &[HostConfig],
    ) -> Result<Nodes, String> {
        for config in hosts {
            self.hosts.push(inside(config.namespace.as_ref(), || {
                Ok(match fabric.shaping {
                    Shaping::Tokens => Sender::Shaper(Shaper::start(config)?),
                    Shaping::Taprio => Sender::Card(Card::start(config)?),
                })
            })?);
        }
        if fabric.shaping == Shaping::Taprio {
            // Days are told from now on; a gate list begins with the week after it is given.
            let two_weeks = 2.0 * hosts.len() as f64 * switch.slot_us;
            let two_weeks = Duration::from_nanos((two_weeks * 1e3) as u64);
            std::thread::sleep(two_weeks);
            self.gate_all(hosts)?;
            std::thread::sleep(two_weeks);
            for (config, sender) in hosts.iter().zip(&mut self.hosts) {
                let Sender::Card(card) = sender else { continue };
                inside(config.namespace.as_ref(), || card.begin_load(config))?;
            }
        }
        self.streams = begin_streams(fabric, hosts)?;
        // Their threads have their own priority; this one counts, whatever they do.
        time::be_punctual(if switch.realtime { COUNT_PRIORITY } else { 0 });
        std::thread::sleep(Duration::from_millis(fabric.warm_up_ms));
        drop(self.report(true));
        Ok(self)
    }

    fn gate_all(&self, hosts: &[HostConfig]) -> Result<(), String> {
        for (config, sender) in hosts.iter().zip(&self.hosts) {
            let Sender::Card(card) = sender else { continue };
            inside(config.namespace.as_ref(), || gate(config, card))?;
        }
        Ok(())
    }

    /// Returns the counters, and sets them to zero if requested.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> Report {
        Report {
            hosts: self.hosts.iter().map(|host| host.report(from_zero)).collect(),
            streams: self.streams.iter().map(|stream| stream.report(from_zero)).collect(),
            switch: self.switch.as_ref().map(|switch| switch.report(from_zero)),
        }
    }

    /// Returns whether all nodes are running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.switch.as_ref().is_none_or(Switch::is_running)
            && self.hosts.iter().all(Sender::is_running)
    }

    /// Ends all nodes.
    ///
    /// # Errors
    /// If one of them had ended before, and why.
    pub fn stop(mut self) -> Result<(), String> {
        self.streams.clear();
        self.hosts.iter_mut().try_for_each(Sender::stop)?;
        self.switch.as_mut().map_or(Ok(()), Switch::stop)
    }
}

/// Opens the connections of a fabric, if it has any.
fn begin_streams(fabric: &FabricConfig, hosts: &[HostConfig]) -> Result<Vec<Streams>, String> {
    let Some(congestion) = &fabric.streams else { return Ok(Vec::new()) };
    let wrong = |config: &HostConfig, e: io::Error| format!("host {}: {e}", config.host);
    let mut listeners = Vec::new();
    for config in hosts {
        let listener = || listen(config.host).map_err(|e| wrong(config, e));
        listeners.push(inside(config.namespace.as_ref(), listener)?);
    }
    // All listen by now, so that the first to connect finds the others there.
    let mut streams = Vec::new();
    for (config, listener) in hosts.iter().zip(listeners) {
        let start = || {
            Streams::start(config.host, config.hosts, congestion, listener)
                .map_err(|e| wrong(config, e))
        };
        streams.push(inside(config.namespace.as_ref(), start)?);
    }
    Ok(streams)
}

/// Runs a function on this thread in a network namespace, with what it begins; then returns to the
/// own one.
fn inside<T>(name: Option<&String>, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let Some(name) = name else { return work() };
    let own = open("/proc/thread-self/ns/net")?;
    let path = format!("/run/netns/{name}");
    enter(&open(&path)?).map_err(|e| format!("{path}: {e}"))?;
    let done = work();
    enter(&own).map_err(|e| format!("return from {path}: {e}"))?;
    done
}

fn open(path: &str) -> Result<File, String> {
    File::open(path).map_err(|e| format!("{path}: {e}"))
}

fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: a descriptor that is open, and a plain number.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
    use halfwink_engine::Input;

    fn host() -> HostConfig {
        let text = "schema = 1\nrole = \"host\"\nhost = 0\nhosts = 3\ninterface = \"up0\"\n\
                    device = \"circ0\"\nbytes_per_us = 25\n";
        Input::new("h.toml", text).parse().unwrap()
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
