//! Interfaces whose frames the kernel's program forwards. One that goes away is watched until it is
//! back.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use halfwink_live::bpf::{set, unset, Map};
use halfwink_live::program::config::plain;

use super::code::{load, Names};
use super::features::takes_frames;
use super::memory::{Memory, PORTS};
use crate::bpf::{Attached, ATTACH_XDP};
use crate::claim::Claim;
use crate::interface::Interface;

const MAP_TYPE_CPUMAP: u32 = 16;
const MAP_TYPE_DEVMAP_HASH: u32 = 25;
const ATTACH_DEVMAP: u32 = 33;
const ATTACH_CPUMAP: u32 = 35;

/// Value of a map of CPUs or of interfaces: room of a ring or number of an interface, and the
/// program that runs there.
#[repr(C)]
struct Target {
    what: u32,
    program: u32,
}

/// Maps of the programs.
pub(super) struct Maps {
    /// CPUs that frames can be handed to.
    pub(super) cpus: OwnedFd,
    devices: OwnedFd,
    _serve: OwnedFd,
}

impl Maps {
    /// Makes the maps, and a ring of `room` frames for each of these CPUs.
    ///
    /// # Errors
    /// As the kernel says.
    pub(super) fn new(memory: &Memory, cpus: &[u32], room: u32) -> io::Result<Maps> {
        let map = |kind, entries| Map { kind, key_bytes: 4, value_bytes: 8, entries, flags: 0 };
        let entries = cpus.iter().max().map_or(1, |most| most + 1);
        let all = map(MAP_TYPE_CPUMAP, entries).create()?;
        let devices = map(MAP_TYPE_DEVMAP_HASH, PORTS as u32).create()?;
        let names = names(memory, &all, &devices, 0);
        let serve = load("serve", ATTACH_CPUMAP, &names)?;
        for &cpu in cpus {
            set(&all, cpu, &Target { what: room, program: serve.as_raw_fd() as u32 })?;
        }
        Ok(Maps { cpus: all, devices, _serve: serve })
    }
}

fn names(memory: &Memory, cpus: &OwnedFd, devices: &OwnedFd, port: usize) -> Names {
    Names {
        memory: memory.map(),
        cpus: cpus.as_raw_fd(),
        devices: devices.as_raw_fd(),
        port: port as u32,
    }
}

/// An interface with its programs.
pub(super) struct Port {
    /// Name of the interface.
    pub(super) name: String,
    /// True while the interface is present and up.
    pub(super) up: bool,
    /// Times that it went away.
    pub(super) gone: u64,
    number: usize,
    interface: Interface,
    attached: Option<Attached>,
    generic: bool,
    /// True while XDP programs may send by it; the kernel's stack does otherwise.
    sends: bool,
    receive: OwnedFd,
    sent: OwnedFd,
    _claim: Claim,
}

impl Port {
    /// Claims an interface, and loads its programs; `attach` puts them there.
    pub(super) fn new(
        number: usize,
        name: &str,
        memory: &Memory,
        maps: &Maps,
    ) -> Result<Port, String> {
        let wrong = |e: io::Error| explain(name, &e);
        let claim = Claim::new(name)?;
        let interface = Interface::find(name).map_err(wrong)?;
        forwards(name)?;
        let names = names(memory, &maps.cpus, &maps.devices, number);
        let receive = load("receive", ATTACH_XDP, &names).map_err(wrong)?;
        let sent = load("sent", ATTACH_DEVMAP, &names).map_err(wrong)?;
        let (up, name) = (interface.up, name.to_owned());
        Ok(Port {
            name,
            up,
            gone: 0,
            number,
            interface,
            attached: None,
            generic: false,
            sends: true,
            receive,
            sent,
            _claim: claim,
        })
    }

    /// Has the kernel run the programs on the interface: in the driver if that can.
    pub(super) fn attach(&mut self, memory: &Memory, maps: &Maps) -> Result<(), String> {
        let wrong = |e: io::Error| explain(&self.name, &e);
        let index = self.interface.index;
        memory.set_mac(self.number, self.interface.mac);
        let attached = Attached::new(&self.receive, index, false).map_err(wrong)?;
        self.generic = !attached.native;
        self.attached = Some(attached);
        self.sends = false;
        self.follow_features(maps, true)
    }

    /// Has programs send by the interface if its driver takes their frames, which may change while
    /// it is there. What they do not send, they pass to the kernel's stack.
    fn follow_features(&mut self, maps: &Maps, is_new: bool) -> Result<(), String> {
        let index = self.interface.index;
        let sends = takes_frames(index);
        if sends == self.sends && !is_new {
            return Ok(());
        }
        let target = Target { what: index, program: self.sent.as_raw_fd() as u32 };
        let result = match sends {
            true => set(&maps.devices, index, &target),
            // It is not there if it never took frames.
            false => unset(&maps.devices, index).or(Ok(())),
        };
        result.map_err(|e| explain(&self.name, &e))?;
        let name = plain(&self.name);
        match sends {
            true if !is_new => halfwink_live::say!("halfwink: {name} takes frames from XDP again"),
            false => halfwink_live::say!(
                "halfwink: {name} takes no frames from XDP: the kernel's stack sends what goes \
                 there (a veth takes them where its peer has GRO: ethtool -K PEER gro on)"
            ),
            true => {}
        }
        self.sends = sends;
        Ok(())
    }

    /// Takes the programs off the interface: its frames reach the kernel's stack.
    pub(super) fn detach(&mut self) {
        self.attached = None;
    }

    /// Returns the way in which its frames reach the program.
    pub(super) fn io(&self) -> &'static str {
        if self.generic {
            "xdp-generic"
        } else {
            "xdp"
        }
    }

    /// Follows an interface that has gone, is back, or has another address.
    pub(super) fn look_after(&mut self, memory: &Memory, maps: &Maps) {
        let found = Interface::find(&self.name).ok();
        let up = found.as_ref().is_some_and(|found| found.up);
        self.gone += u64::from(self.up && !up);
        self.up = up;
        let Some(found) = found else {
            // The kernel has taken the programs off with the interface.
            self.attached = None;
            return;
        };
        let is_new = found.index != self.interface.index;
        if is_new || found.mac != self.interface.mac {
            memory.set_mac(self.number, found.mac);
        }
        self.interface = found;
        if is_new || self.attached.is_none() {
            self.attached = None;
            // Tried again at the next look.
            let _ = self.attach(memory, maps);
        } else {
            let _ = self.follow_features(maps, false);
        }
    }
}

/// Checks that the kernel forwards what an interface receives, in IPv4 or IPv6.
pub(super) fn forwards(name: &str) -> Result<(), String> {
    let on = |family| {
        let path = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
        std::fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
    };
    if on("ipv4") || on("ipv6") {
        return Ok(());
    }
    Err(format!(
        "interface {name}: the kernel does not forward there, expected that it does; run: \
         sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
    ))
}

fn explain(name: &str, error: &io::Error) -> String {
    format!("interface {name} by XDP: {error}{}", needed(error))
}

/// Returns the remedy of an error; empty if none is known.
pub(super) fn needed(error: &io::Error) -> &'static str {
    match error.kind() {
        // Without CAP_PERFMON the checker allows less arithmetic, and slows the programs down.
        io::ErrorKind::PermissionDenied => ": needs CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON",
        io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists => {
            ": another XDP program is there"
        }
        _ => "",
    }
}
