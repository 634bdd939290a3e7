//! The kernel's ublk driver: devices are made, begun, stopped and taken away.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io_uring::{cqueue, opcode, squeue, types, IoUring};

use super::wire::{
    ControlCommand, Info, Params, ADD_DEV, CONTROL, DEAD, DEL_DEV, DEL_DEV_ASYNC, F_IOCTL_ENCODE,
    F_USER_COPY, GET_DEV_INFO, GET_FEATURES, GET_QUEUE_AFFINITY, MOST_BYTES, SET_PARAMS, START_DEV,
    STOP_DEV,
};

/// A server that was killed is cleaned up by the kernel for so long.
const DYING: Duration = Duration::from_secs(10);
/// Requests of one queue that may be under way.
pub(super) const DEPTH: u16 = 128;
/// CPUs of a queue, as bits.
const MASK_BYTES: usize = 1024;

/// Returns the reason why ublk devices are not available here, and the way to add them; none if
/// they are.
#[must_use]
pub fn missing() -> Option<String> {
    if Path::new(CONTROL).exists() {
        return None;
    }
    let get = "modprobe ublk_drv (Linux 6.5 or newer, CONFIG_BLK_DEV_UBLK)";
    Some(format!("{CONTROL} is missing: this kernel has no ublk driver; run: {get}"))
}

/// Commands to the driver, one after another.
pub(super) struct Driver {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    control: File,
}

impl Driver {
    pub(super) fn open() -> Result<Driver, String> {
        if let Some(why) = missing() {
            return Err(why);
        }
        let control = OpenOptions::new().read(true).write(true).open(CONTROL);
        let control = control.map_err(|e| format!("{CONTROL}: {e}; run as root"))?;
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4);
        let ring = ring.map_err(|e| format!("io_uring: {e}"))?;
        let mut driver = Driver { ring, control };
        let mut features = 0u64;
        // SAFETY: the kernel writes eight bytes.
        let told = unsafe { driver.ask(GET_FEATURES, &to(u32::MAX, &mut features)) };
        if told.is_err() || features & F_USER_COPY == 0 {
            return Err("this kernel's ublk driver has no UBLK_F_USER_COPY: Linux 6.5".to_owned());
        }
        Ok(driver)
    }

    /// # Safety
    /// What the command's address names, the kernel may read and write as far as the command says.
    unsafe fn ask(&mut self, what: u32, command: &ControlCommand) -> io::Result<i32> {
        let fd = types::Fd(self.control.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, what).cmd(command.bytes()).build();
        // SAFETY: the caller's; the answer is waited for.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            if let Some(event) = self.ring.completion().next() {
                let result = event.result();
                return if result < 0 {
                    Err(io::Error::from_raw_os_error(-result))
                } else {
                    Ok(result)
                };
            }
        }
    }

    /// Makes a device with so many queues, as far as the kernel likes; any number if none. What a
    /// killed server has left under that number is taken away first.
    pub(super) fn add(&mut self, number: Option<u32>, queues: u16) -> Result<Info, String> {
        let until = Instant::now() + DYING;
        loop {
            let mut info = Info {
                queues,
                depth: DEPTH,
                most_bytes: MOST_BYTES,
                device: number.unwrap_or(u32::MAX),
                flags: F_IOCTL_ENCODE | F_USER_COPY,
                ..Info::default()
            };
            let command = to(info.device, &mut info);
            // SAFETY: the kernel reads and writes the description.
            let added = unsafe { self.ask(ADD_DEV, &command) };
            match (added, number) {
                (Ok(_), _) => return Ok(info),
                (Err(e), Some(number)) if e.raw_os_error() == Some(libc::EEXIST) => {
                    self.bury(number, until)?;
                }
                (Err(e), _) => return Err(format!("ublk: a new device: {e}")),
            }
        }
    }

    /// Removes a device that no server serves.
    fn bury(&mut self, number: u32, until: Instant) -> Result<(), String> {
        let mut info = Info::default();
        // SAFETY: the kernel writes the description.
        if unsafe { self.ask(GET_DEV_INFO, &to(number, &mut info)) }.is_err() {
            // It has just gone.
            return Ok(());
        }
        if info.state == DEAD {
            // A device for servers can be opened by one at a time.
            let opened = OpenOptions::new().read(true).write(true).open(node(number));
            if opened.is_ok() {
                drop(opened);
                return self.delete(number).map_err(|e| format!("ublk device {number}: {e}"));
            }
        }
        let serves = Path::new(&format!("/proc/{}", info.server_pid)).exists();
        if info.server_pid > 0 && serves {
            let pid = info.server_pid;
            return Err(format!("ublk device {number} is served already, by process {pid}"));
        }
        if Instant::now() > until {
            let why = if node(number).exists() {
                "is served already".to_owned()
            } else {
                format!("was left by another server and {} is still open: unmount it", disk(number))
            };
            return Err(format!("ublk device {number} {why}, or take another number"));
        }
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }

    pub(super) fn set_params(&mut self, number: u32, mut params: Params) -> io::Result<()> {
        // SAFETY: the kernel reads the parameters.
        unsafe { self.ask(SET_PARAMS, &to(number, &mut params)) }.map(drop)
    }

    /// The CPUs whose requests come through a queue.
    pub(super) fn cpus(&mut self, number: u32, queue: u16) -> io::Result<Vec<u32>> {
        let mut mask = [0u64; MASK_BYTES / 8];
        let command = ControlCommand { data: u64::from(queue), ..to(number, &mut mask) };
        // SAFETY: the kernel writes the mask.
        unsafe { self.ask(GET_QUEUE_AFFINITY, &command) }?;
        let has = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 != 0;
        Ok((0..MASK_BYTES as u32 * 8).filter(has).collect())
    }

    /// Shows the disk, once all queues have been asked for requests.
    pub(super) fn start(&mut self, number: u32) -> io::Result<()> {
        let data = u64::from(std::process::id());
        // SAFETY: it names no memory.
        unsafe { self.ask(START_DEV, &ControlCommand { data, ..bare(number) }) }.map(drop)
    }

    /// Takes the disk away. Who serves it has to go on meanwhile.
    pub(super) fn stop(&mut self, number: u32) -> io::Result<()> {
        // SAFETY: it names no memory.
        unsafe { self.ask(STOP_DEV, &bare(number)) }.map(drop)
    }

    /// Takes the device away; its number is free once nothing of it is open or mapped any more,
    /// which is waited for before Linux 6.9.
    pub(super) fn delete(&mut self, number: u32) -> io::Result<()> {
        // SAFETY: it names no memory.
        match unsafe { self.ask(DEL_DEV_ASYNC, &bare(number)) } {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                // SAFETY: as above.
                unsafe { self.ask(DEL_DEV, &bare(number)) }.map(drop)
            }
            other => other.map(drop),
        }
    }
}

fn bare(device: u32) -> ControlCommand {
    ControlCommand { device, queue: u16::MAX, ..ControlCommand::default() }
}

/// A command about some memory, which has to live until it is answered.
fn to<T>(device: u32, what: &mut T) -> ControlCommand {
    let address = std::ptr::from_mut(what) as u64;
    ControlCommand { length: size_of::<T>() as u16, address, ..bare(device) }
}

/// The device for servers.
pub(super) fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}

/// Returns the path of the disk.
pub(super) fn disk(number: u32) -> String {
    format!("/dev/ublkb{number}")
}
