//! A process whose threads all stand still, and that can be made to ask the kernel something, as
//! debuggers and CRIU do it (`ptrace`).
//!
//! It goes on when this goes, also if the command is killed. Calls that wait for events come back
//! to it with `EINTR`, as after any stop.

use std::fs;
use std::io;

use halfwink_live::sys::is_error;

use crate::maps::Mapping;

/// Signals that are held back, as the kernel has them.
const SIGNALS_BYTES: usize = 8;
const GET_SIGNALS_HELD: libc::c_uint = 0x420a;
const SET_SIGNALS_HELD: libc::c_uint = 0x420b;
/// Rounds in which new threads may turn up.
const ROUNDS: usize = 16;
/// Stops that are not the one that is waited for, at most.
const STOPS: usize = 64;

/// A process that stands still. Only the thread that stopped it may use this.
#[derive(Debug)]
pub struct Frozen {
    pid: u32,
    /// Threads, and the signal that each was about to get.
    threads: Vec<(u32, i32)>,
    /// Address of a `syscall` instruction in the process.
    entry: u64,
    _same_thread: std::marker::PhantomData<*const ()>,
}

impl Frozen {
    /// Stops all threads of a process.
    ///
    /// # Errors
    /// If that is not allowed, or the process goes away.
    pub fn stop(pid: u32) -> Result<Frozen, String> {
        let why = |e: io::Error| format!("stopping process {pid}: {e}");
        let _same_thread = std::marker::PhantomData;
        let mut frozen = Frozen { pid, threads: Vec::new(), entry: 0, _same_thread };
        for _ in 0..ROUNDS {
            let before = frozen.threads.len();
            for tid in crate::harness::server::threads(pid) {
                if frozen.threads.iter().any(|(known, _)| *known == tid) {
                    continue;
                }
                match stop_thread(tid) {
                    Ok(signal) => frozen.threads.push((tid, signal)),
                    // It ended meanwhile.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) && tid != pid => {}
                    Err(e) => return Err(why(e)),
                }
            }
            if frozen.threads.len() == before && before > 0 {
                return Ok(frozen);
            }
        }
        Err(format!("stopping process {pid}: threads come faster than they are stopped"))
    }

    /// Has the process's first thread make a system call.
    ///
    /// # Errors
    /// The call's; those of stopping; if the process has no such instruction.
    pub fn call(&mut self, mappings: &[Mapping], number: i64, args: [u64; 6]) -> io::Result<u64> {
        if self.entry == 0 {
            self.entry = entry(self.pid, mappings)?;
        }
        let mut saved = registers(self.pid)?;
        let mut held = [0u8; SIGNALS_BYTES];
        signals(GET_SIGNALS_HELD, self.pid, &mut held)?;
        signals(SET_SIGNALS_HELD, self.pid, &mut [0xff; SIGNALS_BYTES])?;
        let mut asked = saved;
        asked.rip = self.entry;
        asked.rax = number as u64;
        // Of the call that was interrupted nothing is to be begun again yet.
        asked.orig_rax = u64::MAX;
        [asked.rdi, asked.rsi, asked.rdx, asked.r10, asked.r8, asked.r9] = args;
        let answer = set_registers(self.pid, &mut asked)
            .and_then(|()| step(self.pid, self.entry))
            .and_then(|()| registers(self.pid));
        set_registers(self.pid, &mut saved)?;
        signals(SET_SIGNALS_HELD, self.pid, &mut held)?;
        match answer?.rax as i64 {
            error if is_error(error) => Err(io::Error::from_raw_os_error(-error as i32)),
            answer => Ok(answer as u64),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for (tid, signal) in &self.threads {
            // SAFETY: plain numbers; the thread goes on.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, *tid, 0, *signal) };
        }
    }
}

/// Checks whether other processes may be stopped.
///
/// # Errors
///
/// The reason why not.
pub fn may_stop() -> Result<(), String> {
    let child =
        std::process::Command::new("sleep").arg("9").stdout(std::process::Stdio::null()).spawn();
    let mut child = child.map_err(|e| format!("sleep: {e}"))?;
    let stopped = Frozen::stop(child.id()).map(drop);
    let _ = child.kill();
    let _ = child.wait();
    stopped.map_err(|why| format!("needs root or CAP_SYS_PTRACE ({why})"))
}

/// Stops a thread; the signal that it was about to get.
fn stop_thread(tid: u32) -> io::Result<i32> {
    // SAFETY: plain numbers.
    unsafe {
        done(libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0))?;
        done(libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0))?;
    }
    let status = wait(tid)?;
    let is_event = status >> 16 != 0;
    Ok(if is_event { 0 } else { libc::WSTOPSIG(status) })
}

/// Waits for a stop.
fn wait(tid: u32) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        let answer = unsafe { libc::waitpid(tid as i32, &raw mut status, libc::__WALL) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if libc::WIFSTOPPED(status) {
            return Ok(status);
        }
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
}

/// One instruction, which is two bytes long.
fn step(tid: u32, from: u64) -> io::Result<()> {
    for _ in 0..STOPS {
        // SAFETY: plain numbers.
        done(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0) })?;
        let status = wait(tid)?;
        let is_trap = libc::WSTOPSIG(status) == libc::SIGTRAP && status >> 16 == 0;
        if is_trap && registers(tid)?.rip == from + 2 {
            return Ok(());
        }
    }
    Err(io::Error::other("it does not make the call"))
}

fn registers(tid: u32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain numbers, for which zeroes are fine; the kernel fills them in.
    unsafe {
        let mut found: libc::user_regs_struct = core::mem::zeroed();
        done(libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut found))?;
        Ok(found)
    }
}

fn set_registers(tid: u32, values: &mut libc::user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads them.
    done(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, core::ptr::from_mut(values)) })
}

fn signals(request: libc::c_uint, tid: u32, held: &mut [u8; SIGNALS_BYTES]) -> io::Result<()> {
    // SAFETY: the kernel reads or writes as many bytes as it is told.
    done(unsafe { libc::ptrace(request, tid, SIGNALS_BYTES, held.as_mut_ptr()) })
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Finds a `syscall` instruction in a process: the kernel's own page in it has some.
fn entry(pid: u32, mappings: &[Mapping]) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let none = || io::Error::other("no instruction in [vdso] that asks the kernel");
    let place = mappings.iter().find(|m| m.name == "[vdso]").ok_or_else(none)?;
    let mut code = vec![0u8; (place.range.end - place.range.start) as usize];
    fs::File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut code, place.range.start)?;
    let at = code.windows(2).position(|two| two == [0x0f, 0x05]).ok_or_else(none)?;
    Ok(place.range.start + at as u64)
}
