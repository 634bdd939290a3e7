//! The redirect table that XDP programs execute before the kernel's stack.

use std::sync::atomic::Ordering;
use std::sync::Mutex;

use halfwink_policy::scaling::ENTRIES;

use super::busy::Clocks;
use super::memory::Memory;
use super::ports::{needed, Maps, Port};
use super::table::{port, Counts, Sums, Table};
use crate::config::{Config, Forward};
use crate::report::PortReport;
use crate::sync::locked;

/// Programs on all ports, with the memory that they share with this process.
pub(super) struct Xdp {
    memory: Memory,
    maps: Maps,
    ports: Mutex<Vec<Port>>,
    cpus: Vec<u32>,
}

impl Xdp {
    /// Puts the programs on all ports; all entries name the first of the CPUs.
    ///
    /// # Errors
    /// The reason why the kernel does not allow it, in one line.
    pub(super) fn open(config: &Config, cpus: &[u32]) -> Result<Xdp, String> {
        let wrong = |e: std::io::Error| format!("forwarding by XDP: {e}{}", needed(&e));
        // SAFETY: a plain number.
        let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
        let memory = Memory::new(all).map_err(wrong)?;
        let maps = Maps::new(&memory, cpus, config.queue as u32).map_err(wrong)?;
        (0..ENTRIES).for_each(|entry| memory.redirect(entry as u8, cpus[0], false));
        let names = config.port.iter().map(|port| port.interface.as_str());
        let ports = names.enumerate().map(|(n, name)| Port::new(n, name, &memory, &maps));
        let mut ports = ports.collect::<Result<Vec<_>, _>>()?;
        ports.iter_mut().try_for_each(|port| port.attach(&memory, &maps))?;
        Ok(Xdp { memory, maps, ports: Mutex::new(ports), cpus: cpus.to_vec() })
    }

    /// Returns the clocks of the CPUs that forward.
    pub(super) fn clocks(&self) -> Clocks {
        Clocks::of_rings(&self.cpus, &self.maps.cpus)
    }
}

impl Table for Xdp {
    fn forward(&self) -> Forward {
        Forward::Xdp
    }

    fn redirect(&self, entry: u8, cpu: u32, in_order: bool) {
        self.memory.redirect(entry, cpu, in_order);
    }

    fn counts(&self, cpu: u32) -> Counts {
        let served = self.memory.counters(cpu).served.load(Ordering::Acquire);
        let (handed, unserved) = self.memory.handed(cpu);
        Counts { served, handed, unserved }
    }

    fn sums(&self, waiting: u64) -> Sums {
        let each = self.cpus.iter().map(|&cpu| self.counts(cpu));
        let (served, handed) = each.fold((0, 0), |(s, h), c| (s + c.served, h + c.handed));
        let own = self.memory.sum(|c| &c.own);
        Sums {
            overflowed: (own + handed).saturating_sub(served + waiting),
            forwarded: Some(self.memory.sum(|c| &c.forwarded)),
            passed: self.memory.sum(|c| &c.passed),
            held: self.memory.sum(|c| &c.held),
            forced: self.memory.sum(|c| &c.forced),
            followed: self.memory.sum(|c| &c.moved),
        }
    }

    fn look_after(&self) {
        let mut ports = locked(&self.ports);
        ports.iter_mut().for_each(|port| port.look_after(&self.memory, &self.maps));
    }

    fn ports(&self) -> Vec<PortReport> {
        let report = |(n, p): (usize, &Port)| {
            let (received, sent) = self.memory.port(n);
            port(&p.name, p.io(), [received, sent, p.gone], p.up)
        };
        locked(&self.ports).iter().enumerate().map(report).collect()
    }

    fn end(&self) {
        locked(&self.ports).iter_mut().for_each(Port::detach);
    }
}
