//! How machines are put to sleep and woken.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use halfwink_live::descriptor::mac;

use super::health::Unwell;

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
            _ => Ok(()),
        }
    }

    /// Returns whether its server runs as soon as it is woken: if no server listens then, none
    /// will.
    pub(super) fn wakes_at_once(&self) -> bool {
        matches!(self, Power::None {} | Power::Freezer { .. } | Power::Signal { .. })
    }

    /// Returns the programs that it runs, with their arguments.
    pub(super) fn programs(&self) -> Vec<&[String]> {
        match self {
            Power::Command { wake, sleep } => vec![wake, sleep],
            Power::WakeOnLan { sleep, .. } => vec![sleep],
            Power::None {}
            | Power::Freezer { .. }
            | Power::Signal { .. }
            | Power::Systemd { .. } => {
                vec![]
            }
        }
    }

    /// Does it. Commands have `patience`; then they are killed.
    ///
    /// # Errors
    /// What went wrong, in one line.
    pub(super) async fn turn(&self, wanted: Wanted, patience: Duration) -> Result<(), Unwell> {
        match self {
            Power::None {} => Ok(()),
            Power::Freezer { cgroup } => freeze(cgroup, wanted, patience).await,
            Power::Signal { pid, pidfile, who } => {
                let pid = match (pid, pidfile) {
                    (Some(pid), _) => *pid,
                    (None, Some(path)) => read_pid(path)?,
                    (None, None) => return Err("no process is named".to_owned().into()),
                };
                signal(pid, *who, wanted).map_err(Unwell::Machine)
            }
            Power::Command { wake, sleep } => {
                run(if wanted == Wanted::Awake { wake } else { sleep }, patience).await
            }
            Power::WakeOnLan { mac: text, broadcast, sleep } => match wanted {
                Wanted::Asleep => run(sleep, patience).await,
                Wanted::Awake => {
                    let mac = mac(text).ok_or_else(|| format!("{text} is no address"))?;
                    magic(mac, *broadcast).map_err(|e| Unwell::at(&"magic packet", e))
                }
            },
            Power::Systemd { unit } => {
                let verb = if wanted == Wanted::Awake { "start" } else { "stop" };
                let words = ["systemctl", verb, "--", unit].map(str::to_owned);
                run(&words, patience).await
            }
        }
    }
}

async fn freeze(cgroup: &Path, wanted: Wanted, patience: Duration) -> Result<(), Unwell> {
    let file = cgroup.join("cgroup.freeze");
    let said = |e: io::Error| Unwell::at(&file.display(), e);
    let digit = if wanted == Wanted::Asleep { "1" } else { "0" };
    std::fs::write(&file, digit).map_err(said)?;
    // The kernel says when all have come to rest.
    let events = cgroup.join("cgroup.events");
    let line = format!("frozen {digit}");
    let until = std::time::Instant::now() + patience;
    loop {
        let text = std::fs::read_to_string(&events).map_err(said)?;
        if text.lines().any(|l| l == line) {
            return Ok(());
        }
        if std::time::Instant::now() > until {
            return Err(format!("{}: not `{line}` in time", events.display()).into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn read_pid(path: &Path) -> Result<i32, Unwell> {
    let text = std::fs::read_to_string(path).map_err(|e| Unwell::at(&path.display(), e))?;
    match text.trim().parse() {
        Ok(pid) if pid > 1 => Ok(pid),
        _ => Err(format!("{}: expected the number of a process", path.display()).into()),
    }
}

fn signal(pid: i32, who: Who, wanted: Wanted) -> Result<(), String> {
    let number = if wanted == Wanted::Awake { libc::SIGCONT } else { libc::SIGSTOP };
    let mut targets = match who {
        Who::Process => vec![pid],
        Who::Tree => tree(pid),
        Who::Group => {
            // SAFETY: plain numbers.
            let (group, own) = unsafe { (libc::getpgid(pid), libc::getpgrp()) };
            if group == own {
                return Err(format!("process {pid} is in this program's own group"));
            }
            vec![if group > 1 { -group } else { pid }]
        }
    };
    // Parents stop first, so that they start nobody meanwhile; and go on last.
    if wanted == Wanted::Awake {
        targets.reverse();
    }
    for target in targets {
        // SAFETY: plain numbers.
        if unsafe { libc::kill(target, number) } != 0 {
            let error = io::Error::last_os_error();
            // A child may have ended meanwhile.
            if target.abs() == pid || error.raw_os_error() != Some(libc::ESRCH) {
                return Err(format!("process {pid}: {error}"));
            }
        }
    }
    Ok(())
}

/// A process and its descendants, parents before children.
fn tree(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() && all.len() < 4096 {
        let path = format!("/proc/{0}/task/{0}/children", all[next]);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        next += 1;
    }
    all
}

/// Returns whether a program is there and may be run: a path, or a name that is looked for in PATH.
pub(super) fn can_run(program: &str) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_program(&folder.join(program)))
}

/// Runs a program to its end. Polls, so that no signal handler of the host program is touched.
pub(super) async fn run(words: &[String], patience: Duration) -> Result<(), Unwell> {
    let [program, arguments @ ..] = words else {
        return Err("no program is named".to_owned().into());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|e| Unwell::at(program, e))?;
    let until = std::time::Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{program}: {status}").into()),
            Ok(None) if std::time::Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program}: not done in time").into());
            }
            Err(error) => return Err(Unwell::at(program, error)),
        }
    }
}

fn magic(mac: [u8; 6], to: SocketAddr) -> io::Result<()> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_broadcast(true)?;
    socket.send_to(&magic_packet(mac), to).map(drop)
}

/// Six bytes of ones, and sixteen times the address.
fn magic_packet(mac: [u8; 6]) -> [u8; 102] {
    let mut packet = [0xff; 102];
    packet[6..].chunks_exact_mut(6).for_each(|part| part.copy_from_slice(&mac));
    packet
}

#[cfg(test)]
mod tests {
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
    fn programs_are_found_where_they_are_named_or_in_the_path() {
        assert!(can_run("sh") && can_run("/bin/sh"));
        assert!(!can_run("no-such-program") && !can_run("/no/such"));
        // A folder, and a file that nobody may run.
        assert!(!can_run("/etc") && !can_run("/etc/passwd"));
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
