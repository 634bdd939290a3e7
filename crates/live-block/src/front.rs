//! Where the requests of a described device come from: clients over NBD, this machine's kernel, or
//! virtual machines.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use halfwink_eventlog::Header;

use crate::backend::Backend;
use crate::config::{Config, Disk};
use crate::control::{Control, Decides, EventLog};
use crate::report::Report;
use crate::server::{Listen, Server, Setting};
use crate::topology::{Cpu, Machine};
use crate::ublk::{self, Ublk};
use crate::vhost::{Served, Vhost};

/// A client has so long to say what it wants.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Counts and times of a device since its start.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Done {
    /// I/Os of clients or of the kernel, which passed a policy.
    Policed(Box<Report>),
    /// Requests of virtual machines.
    Guests(Served),
}

/// A device at work. Dropping it stops it.
pub enum Front {
    /// Serves clients over NBD.
    Clients(Server),
    /// Serves this machine's kernel.
    Kernel(Ublk),
    /// Serves virtual machines, one after another.
    Guests(Guests),
}

impl Front {
    /// Serves a device as its description says; virtual machines are served without the policy.
    ///
    /// # Errors
    /// The machine does not allow it; the text says what.
    pub fn start(
        config: &Config,
        machine: &Machine,
        backend: Box<dyn Backend>,
        policy: impl Into<Decides>,
        log: Option<EventLog>,
    ) -> Result<Front, String> {
        let pin = |cpu: &Cpu| config.pin.then_some(cpu.cpu);
        let cpus = machine.cpus.iter().map(pin).collect();
        let read_only = config.read_only;
        let listen = match (&config.vhost, config.ublk, &config.unix, config.tcp) {
            (Some(socket), ..) => {
                let device = Vhost::new(backend, read_only, config.queues.unwrap_or(1))?;
                return Guests::start(device, socket).map(Front::Guests);
            }
            (_, Some(disk), ..) => {
                let setting = ublk::Setting { number: Disk::number(disk), read_only, cpus };
                return Ublk::start(&setting, backend, policy, log).map(Front::Kernel);
            }
            (.., Some(path), _) => Listen::Unix(path.clone()),
            (.., Some(address)) => Listen::Tcp(address),
            _ => return Err("a description without a place to listen".to_owned()),
        };
        let setting = Setting {
            listen,
            name: config.export.clone().unwrap_or_default(),
            read_only,
            cpus,
            connections: config.most_connections(),
            handshake: HANDSHAKE,
        };
        Server::start(&setting, backend, policy, log).map(Front::Clients)
    }

    /// Returns the place at which it serves: an NBD URI, a disk, a socket.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Front::Clients(server) => server.address().to_owned(),
            Front::Kernel(disk) => disk.address(),
            Front::Guests(guests) => guests.socket.display().to_string(),
        }
    }

    /// Returns whether all its threads are running, and the disk is present.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self {
            Front::Clients(server) => server.is_running(),
            Front::Kernel(disk) => disk.is_running(),
            Front::Guests(guests) => guests.is_running(),
        }
    }

    /// Returns what it has done up to now.
    #[must_use]
    pub fn report(&self) -> Done {
        match self {
            Front::Clients(server) => Done::Policed(Box::new(server.report())),
            Front::Kernel(disk) => Done::Policed(Box::new(disk.report())),
            Front::Guests(guests) => Done::Guests(guests.device.served()),
        }
    }

    /// Returns where its policy lives; none if it has no policy.
    fn control(&self) -> Option<&Control> {
        match self {
            Front::Clients(server) => Some(server.control()),
            Front::Kernel(disk) => Some(disk.control()),
            Front::Guests(_) => None,
        }
    }

    /// Returns the number of policies in files that failed.
    #[must_use]
    pub fn policy_faults(&self) -> u64 {
        self.control().map_or(0, |control| control.faults().policy_faults)
    }

    /// Takes what can change of a description: the number of connections, and another policy with
    /// the header of its part of the log.
    ///
    /// # Errors
    /// The policy reads requests in another way, for which other threads would be needed. Then
    /// nothing changes.
    pub fn reload(&self, config: &Config, policy: Option<(Decides, Header)>) -> Result<(), String> {
        let Some(control) = self.control() else { return Ok(()) };
        if let Some((policy, header)) = policy {
            control.replace(policy, header)?;
        }
        if let Front::Clients(server) = self {
            server.limit(config.most_connections());
        }
        Ok(())
    }

    /// Takes nothing more, and ends; what was answered is on stable storage then.
    ///
    /// # Errors
    /// The device's last flush failed, or the kernel did not let the disk go.
    pub fn stop(self) -> Result<(), String> {
        match self {
            Front::Clients(server) => server.stop(),
            Front::Kernel(disk) => disk.stop(),
            Front::Guests(guests) => guests.stop(),
        }
    }
}

/// A device that serves virtual machines, one after another.
pub struct Guests {
    device: Vhost,
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
}

impl Guests {
    fn start(device: Vhost, socket: &Path) -> Result<Guests, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (own, path, over) = (device.clone(), socket.to_owned(), Arc::clone(&is_over));
        let body = move || {
            loop {
                let served = own.serve(&path);
                if let Err(why) = served {
                    halfwink_live::say!("halfwink: {why}");
                    // The next virtual machine may do better; a socket that cannot be made never
                    // will.
                    if !path.exists() {
                        break;
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
        };
        Builder::new().name("block vhost".to_owned()).spawn(body).map_err(|e| e.to_string())?;
        Ok(Guests { device, socket: socket.to_owned(), is_over })
    }

    fn is_running(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Flushes the device and removes the socket. A request under way is not waited for, since its
    /// guest has had no answer; the thread that waits for a guest ends with the process.
    fn stop(&self) -> Result<(), String> {
        let flushed = self.device.flush();
        let _ = std::fs::remove_file(&self.socket);
        flushed.map_err(|e| format!("the last flush of the device failed: {e}"))
    }
}
