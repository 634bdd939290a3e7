//! Ways of sleep that this machine's kernel has, and the magic packet.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::{Wanted, Who};
use crate::health::Unwell;

pub(super) async fn freeze(
    cgroup: &Path,
    wanted: Wanted,
    patience: Duration,
) -> Result<(), Unwell> {
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

pub(super) fn read_pid(path: &Path) -> Result<i32, Unwell> {
    let text = std::fs::read_to_string(path).map_err(|e| Unwell::at(&path.display(), e))?;
    match text.trim().parse() {
        Ok(pid) if pid > 1 => Ok(pid),
        _ => Err(format!("{}: expected the number of a process", path.display()).into()),
    }
}

pub(super) fn signal(pid: i32, who: Who, wanted: Wanted) -> Result<(), String> {
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
pub(super) fn tree(pid: i32) -> Vec<i32> {
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

pub(super) fn magic(mac: [u8; 6], to: SocketAddr) -> io::Result<()> {
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
