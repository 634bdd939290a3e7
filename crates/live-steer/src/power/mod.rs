//! How machines are put to sleep and woken.

mod container;
mod drive;
#[cfg(test)]
mod drive_tests;
mod endpoint;
mod ipmi;
mod kubernetes;
mod libvirt;
mod local;
mod redfish;
mod run;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use halfwink_live::descriptor::mac;
use halfwink_live::program::child::can_run;

use super::health::Unwell;
use drive::{Driver, Fault, Tool};
pub use drive::{Found, Seen};
pub use run::run;

/// A way to put a machine to sleep and to wake it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Power {
    /// The machine is never put to sleep.
    None {},
    /// A control group (cgroup v2) of this machine is frozen.
    Freezer {
        /// Folder of the control group.
        cgroup: PathBuf,
    },
    /// Processes of this machine are stopped (SIGSTOP) and continued (SIGCONT).
    Signal {
        /// Number of the process.
        pid: Option<i32>,
        /// The file that holds its number; read each time.
        pidfile: Option<PathBuf>,
        /// Further processes.
        #[serde(default)]
        who: Who,
    },
    /// Commands put the machine to sleep and wake it.
    Command {
        /// Program and arguments; done when it has ended well.
        wake: Vec<String>,
        /// Program and arguments; done when it has succeeded.
        sleep: Vec<String>,
    },
    /// Another machine: Wake-on-LAN, and a command that sends it to sleep.
    WakeOnLan {
        /// Ethernet address of the machine.
        mac: String,
        /// Address that the magic packet is sent to.
        #[serde(default = "broadcast")]
        broadcast: SocketAddr,
        /// Program and arguments.
        sleep: Vec<String>,
    },
    /// A unit of systemd is started and stopped.
    Systemd {
        /// Name of the unit.
        unit: String,
    },
    /// A domain of libvirt.
    Libvirt(libvirt::Libvirt),
    /// A machine behind a BMC that speaks Redfish.
    Redfish(redfish::Redfish),
    /// A machine behind a BMC that speaks IPMI.
    Ipmi(ipmi::Ipmi),
    /// A container of this machine.
    Container(container::Container),
    /// A workload of Kubernetes.
    Kubernetes(kubernetes::Kubernetes),
}

impl Default for Power {
    fn default() -> Power {
        Power::None {}
    }
}

/// Which processes are stopped with one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Only the process itself.
    Process,
    /// The process and its descendants.
    #[default]
    Tree,
    /// The process and its process group.
    Group,
}

fn broadcast() -> SocketAddr {
    SocketAddr::from(([255, 255, 255, 255], 9))
}

/// Power state that is wanted of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The machine should serve.
    Awake,
    /// The machine should sleep.
    Asleep,
}

impl Wanted {
    /// Returns the state in which a driver sees a machine that is as wanted.
    const fn seen(self) -> Seen {
        match self {
            Wanted::Awake => Seen::Awake,
            Wanted::Asleep => Seen::Asleep,
        }
    }
}

/// Time of a state query at the start, and while the proxy runs.
pub const QUERY: Duration = Duration::from_secs(10);

impl Power {
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Power::Signal { pid: Some(_), pidfile: Some(_), .. }
            | Power::Signal { pid: None, pidfile: None, .. } => {
                Err("expected either pid or pidfile".to_owned())
            }
            Power::Signal { pid: Some(pid), .. } if *pid <= 1 => {
                Err(format!("found pid {pid}, expected 2 or more"))
            }
            Power::Command { wake, sleep } if wake.is_empty() || sleep.is_empty() => {
                Err("expected a program in wake and in sleep".to_owned())
            }
            Power::WakeOnLan { mac: text, .. } if mac(text).is_none() => {
                Err(format!("found mac {text}, expected one such as 02:00:00:00:00:01"))
            }
            Power::WakeOnLan { sleep, .. } if sleep.is_empty() => {
                Err("expected a program in sleep".to_owned())
            }
            Power::Libvirt(libvirt) => is_name("domain", &libvirt.domain),
            Power::Container(container) => is_name("name", &container.name),
            Power::Ipmi(ipmi) => is_name("user", &ipmi.user),
            Power::Redfish(redfish) => redfish.check(),
            Power::Kubernetes(kubernetes) => kubernetes.check(),
            _ => Ok(()),
        }
    }

    /// Returns whether its server runs as soon as it is woken: if no server listens then, none
    /// will.
    pub(super) fn wakes_at_once(&self) -> bool {
        matches!(self, Power::None {} | Power::Freezer { .. } | Power::Signal { .. })
    }

    /// Returns the programs that it runs.
    fn programs(&self) -> Vec<String> {
        let first = |words: &[String]| words.first().cloned();
        match self {
            Power::Command { wake, sleep } => {
                [wake, sleep].into_iter().filter_map(|w| first(w)).collect()
            }
            Power::WakeOnLan { sleep, .. } => first(sleep).into_iter().collect(),
            Power::Systemd { .. } => vec!["systemctl".to_owned()],
            _ => match self.driver() {
                Some(Driver::Tool(tool)) => first(&tool.state()).into_iter().collect(),
                _ => vec![],
            },
        }
    }

    /// Returns the file with its secret, if it has one.
    pub(super) fn secret(&self) -> Option<&Path> {
        match self {
            Power::Ipmi(ipmi) => Some(&ipmi.password_file),
            Power::Redfish(redfish) => redfish.secret().map(PathBuf::as_path),
            Power::Kubernetes(kubernetes) => Some(&kubernetes.token_file),
            _ => None,
        }
    }

    fn endpoint(&self) -> Option<&endpoint::Endpoint> {
        match self {
            Power::Redfish(redfish) => Some(&redfish.bmc),
            Power::Kubernetes(kubernetes) => Some(&kubernetes.api),
            _ => None,
        }
    }

    /// Takes paths of files as relative to a folder.
    pub(super) fn set_folder(&mut self, folder: &Path) {
        let mut files: Vec<&mut PathBuf> = Vec::new();
        match self {
            Power::Ipmi(ipmi) => files.push(&mut ipmi.password_file),
            Power::Redfish(redfish) => {
                files.extend(&mut redfish.bmc.ca_file);
                files.extend(&mut redfish.password_file);
                files.extend(&mut redfish.token_file);
            }
            Power::Kubernetes(kubernetes) => {
                files.extend(&mut kubernetes.api.ca_file);
                files.push(&mut kubernetes.token_file);
            }
            _ => {}
        }
        // An absolute path stays as it is.
        files.into_iter().for_each(|file| *file = folder.join(&*file));
    }

    /// Checks what this machine has of what it needs: programs, and files that can be read.
    ///
    /// # Errors
    /// A program or a file is missing, or cannot be used; in one line.
    pub(super) fn check_parts(&self) -> Result<(), String> {
        // A program that is missing would be found at the first sleep only.
        if let Some(program) = self.programs().into_iter().find(|program| !can_run(program)) {
            return Err(format!("found {program}, expected a program that can be run"));
        }
        if let Some(path) = self.secret() {
            secret(path)?;
        }
        if let Some(path) = self.endpoint().and_then(|endpoint| endpoint.ca_file.as_ref()) {
            endpoint::authorities(path)?;
        }
        Ok(())
    }

    /// Returns the driver, if its state can be queried.
    fn driver(&self) -> Option<Driver<'_>> {
        let tool: &(dyn Tool + Sync) = match self {
            Power::Libvirt(libvirt) => libvirt,
            Power::Ipmi(ipmi) => ipmi,
            Power::Container(container) => container,
            Power::Redfish(redfish) => return Some(Driver::Redfish(redfish)),
            Power::Kubernetes(kubernetes) => return Some(Driver::Kubernetes(kubernetes)),
            _ => return None,
        };
        Some(Driver::Tool(tool))
    }

    /// Queries its state; none if it has no state query.
    ///
    /// # Errors
    /// Why it is not known, in one line.
    pub(super) async fn state(&self) -> Option<Result<Found, Unwell>> {
        let driver = self.driver()?;
        Some(in_time(driver.state(QUERY)).await)
    }

    /// Checks that its interface answers, and allows what is to be asked of it.
    ///
    /// # Errors
    /// Why not, in one line.
    pub(super) async fn verify(&self) -> Result<(), Unwell> {
        // Queries and changes have the same credentials, so one that answers can be switched.
        self.state().await.transpose()?;
        let Power::Redfish(redfish) = self else { return Ok(()) };
        in_time(redfish.verify()).await
    }

    /// Does it. Commands have `patience`; then they are killed.
    ///
    /// # Errors
    /// What went wrong, in one line.
    pub(super) async fn turn(&self, wanted: Wanted, patience: Duration) -> Result<(), Unwell> {
        match self {
            Power::None {} => Ok(()),
            Power::Freezer { cgroup } => local::freeze(cgroup, wanted, patience).await,
            Power::Signal { pid, pidfile, who } => {
                let pid = match (pid, pidfile) {
                    (Some(pid), _) => *pid,
                    (None, Some(path)) => local::read_pid(path)?,
                    (None, None) => return Err("no process is named".to_owned().into()),
                };
                local::signal(pid, *who, wanted).map_err(Unwell::Machine)
            }
            Power::Command { wake, sleep } => {
                run(if wanted == Wanted::Awake { wake } else { sleep }, patience).await
            }
            Power::WakeOnLan { mac: text, broadcast, sleep } => match wanted {
                Wanted::Asleep => run(sleep, patience).await,
                Wanted::Awake => {
                    let mac = mac(text).ok_or_else(|| format!("{text} is no address"))?;
                    local::magic(mac, *broadcast).map_err(|e| Unwell::at(&"magic packet", e))
                }
            },
            Power::Systemd { unit } => {
                let verb = if wanted == Wanted::Awake { "start" } else { "stop" };
                let words = ["systemctl", verb, "--", unit].map(str::to_owned);
                run(&words, patience).await
            }
            _ => match self.driver() {
                Some(driver) => driver.turn(wanted, patience).await,
                None => Ok(()),
            },
        }
    }
}

/// Gives a query its time.
async fn in_time<T>(query: impl Future<Output = Result<T, Fault>>) -> Result<T, Unwell> {
    match tokio::time::timeout(QUERY, query).await {
        Ok(found) => found.map_err(|fault| fault.why),
        Err(_) => Err(format!("no answer in {} s", QUERY.as_secs()).into()),
    }
}

/// Checks a name that is a word of a command line.
fn is_name(key: &str, text: &str) -> Result<(), String> {
    // A dash would make it an option of the program.
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err(format!("found {key} {text:?}, expected a name"));
    }
    Ok(())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Reads the first line of a file with a secret.
fn secret(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let line = text.lines().next().unwrap_or_default();
    // It becomes part of a header field.
    if line.is_empty() || line.contains(char::is_control) {
        return Err(format!("{}: expected a secret in the first line", path.display()));
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use super::local::tree;
    use super::*;

    fn turn(power: &Power, wanted: Wanted) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(power.turn(wanted, Duration::from_secs(2)));
        done.map_err(|why| why.to_string())
    }

    fn state(pid: u32) -> char {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit(") ").next().unwrap().chars().next().unwrap()
    }

    /// Waits for a condition that becomes true sooner or later, however busy the machine is.
    fn until<T>(mut there: impl FnMut() -> Option<T>) -> T {
        for _ in 0..120_000 {
            if let Some(found) = there() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("not in two minutes")
    }

    #[test]
    fn a_tree_of_processes_stands_still_and_goes_on() {
        let mut shell = Command::new("sh").args(["-c", "sleep 30; true"]).spawn().unwrap();
        let pid = shell.id();
        // Until its child has become `sleep`: up to then the shell waits for it in vfork, which no
        // signal stops.
        let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_sleep = |&&pid: &&i32| name(pid).is_ok_and(|name| name.trim() == "sleep");
        let child = until(|| tree(pid as i32).iter().find(is_sleep).copied()) as u32;
        let power = Power::Signal { pid: Some(pid as i32), pidfile: None, who: Who::Tree };
        turn(&power, Wanted::Asleep).unwrap();
        until(|| ((state(pid), state(child)) == ('T', 'T')).then_some(()));
        turn(&power, Wanted::Awake).unwrap();
        assert!(state(pid) != 'T' && state(child) != 'T');
        let own = Power::Signal { pid: Some(pid as i32), pidfile: None, who: Who::Group };
        assert!(turn(&own, Wanted::Asleep).unwrap_err().contains("own group"));
        // SAFETY: a process of this test.
        unsafe { libc::kill(child as i32, libc::SIGKILL) };
        shell.wait().unwrap();
        let gone = turn(&power, Wanted::Asleep).unwrap_err();
        assert!(gone.starts_with(&format!("process {pid}: ")), "{gone}");
    }

    #[test]
    fn commands_end_well_or_say_why_not() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let power = |wake, sleep| Power::Command { wake: words(wake), sleep: words(sleep) };
        turn(&power("true", "false"), Wanted::Awake).unwrap();
        assert!(turn(&power("true", "false"), Wanted::Asleep).unwrap_err().contains("exit status"));
        let late = turn(&power("sleep 9", "true"), Wanted::Awake).unwrap_err();
        assert_eq!(late, "sleep: not done in time");
        assert!(turn(&power("/no/such", "true"), Wanted::Awake).unwrap_err().contains("/no/such"));
    }

    #[test]
    fn a_magic_packet_is_sent() {
        let ear = UdpSocket::bind("127.0.0.1:0").unwrap();
        let power = Power::WakeOnLan {
            mac: "02:00:00:00:00:0a".to_owned(),
            broadcast: ear.local_addr().unwrap(),
            sleep: vec!["true".to_owned()],
        };
        power.check().unwrap();
        turn(&power, Wanted::Awake).unwrap();
        let mut heard = [0; 200];
        assert_eq!(ear.recv(&mut heard).unwrap(), 102);
        assert_eq!(heard[..12], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 10]);
        assert_eq!(heard[96..102], [2, 0, 0, 0, 0, 10]);
    }

    #[test]
    fn a_control_group_freezes_when_the_kernel_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let power = Power::Freezer { cgroup: folder.path().to_owned() };
        std::fs::write(folder.path().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        turn(&power, Wanted::Asleep).unwrap();
        assert_eq!(std::fs::read(folder.path().join("cgroup.freeze")).unwrap(), b"1");
        assert!(turn(&power, Wanted::Awake).unwrap_err().contains("not `frozen 0` in time"));
    }
}
