//! A program under `ptrace`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use iced_x86::Register;

use super::RecordFault;

/// `nopl disp32(%rax)`, and the last three bytes of the displacement: "HWT".
const MARK: [u8; 3] = [0x0f, 0x1f, 0x80];
/// Last bytes of a mark's displacement: "HWT".
const MARK_TAIL: [u8; 3] = [0x48, 0x57, 0x54];
/// Opcode of `int3`.
const BREAK: u8 = 0xcc;

/// General registers, flags and segment bases, as the kernel hands them over.
#[derive(Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    /// Address of the next instruction.
    #[must_use]
    pub fn rip(&self) -> u64 {
        self.0.rip
    }

    /// Value of a register that forms addresses; none of others.
    #[must_use]
    pub fn get(&self, register: Register) -> Option<u64> {
        let r = &self.0;
        Some(match register.full_register() {
            Register::RAX => r.rax,
            Register::RCX => r.rcx,
            Register::RDX => r.rdx,
            Register::RBX => r.rbx,
            Register::RSP => r.rsp,
            Register::RBP => r.rbp,
            Register::RSI => r.rsi,
            Register::RDI => r.rdi,
            Register::R8 => r.r8,
            Register::R9 => r.r9,
            Register::R10 => r.r10,
            Register::R11 => r.r11,
            Register::R12 => r.r12,
            Register::R13 => r.r13,
            Register::R14 => r.r14,
            Register::R15 => r.r15,
            Register::FS => r.fs_base,
            Register::GS => r.gs_base,
            Register::CS | Register::DS | Register::ES | Register::SS => 0,
            _ => return None,
        })
    }
}

/// A stopped program that is traced.
pub struct Stepper {
    name: String,
    child: Child,
    pid: libc::pid_t,
    memory: File,
}

impl Stepper {
    /// Starts a program, stopped at its first instruction. Addresses are the same every time.
    ///
    /// # Errors
    /// If it cannot be started, or not under control.
    pub fn start(command: &[String]) -> Result<Stepper, RecordFault> {
        let name = command.first().cloned().unwrap_or_default();
        let fault = |what| {
            let program = name.clone();
            move |error| RecordFault::Program { program, what, error }
        };
        let mut starter = Command::new(&name);
        starter.args(command.get(1..).unwrap_or_default());
        starter.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe {
            starter.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let child = starter.spawn().map_err(fault("starting it under ptrace"))?;
        let pid = child.id() as libc::pid_t;
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(fault("its memory"))?;
        let mut stepper = Stepper { name: name.clone(), child, pid, memory };
        stepper.wait("begin")?;
        Ok(stepper)
    }

    fn fault(&self, what: &'static str) -> impl FnOnce(io::Error) -> RecordFault + '_ {
        move |error| RecordFault::Program { program: self.name.clone(), what, error }
    }

    fn ask(&self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: requests here take a number or the address of what is large enough.
        match unsafe { libc::ptrace(request, self.pid, 0usize, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Waits for a trap; passes other signals on.
    fn wait(&mut self, mark: &'static str) -> Result<(), RecordFault> {
        loop {
            let mut status = 0;
            // SAFETY: our own child.
            if unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 {
                return Err(self.fault("waiting for it")(io::Error::last_os_error()));
            }
            let ended = ExitStatus::from_raw(status);
            if !libc::WIFSTOPPED(status) {
                return Err(RecordFault::Ended(self.name.clone(), ended.to_string(), mark));
            }
            match libc::WSTOPSIG(status) {
                libc::SIGTRAP => return Ok(()),
                signal => self
                    .ask(libc::PTRACE_CONT, signal as usize)
                    .map_err(self.fault("continuing it"))?,
            }
        }
    }

    /// Finds the marks of a code in its text.
    ///
    /// # Errors
    /// If its mappings cannot be read.
    pub fn marks(&self, code: u8) -> Result<Vec<u64>, RecordFault> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid))
            .map_err(self.fault("its mappings"))?;
        let mut found = Vec::new();
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
            // Of a file: neither the vDSO nor what it assembled.
            if !rights.contains('x') || !words.any(|word| word.starts_with('/')) {
                continue;
            }
            let ends = range.split_once('-').and_then(|(low, high)| {
                let parse = |text| u64::from_str_radix(text, 16).ok();
                parse(low).zip(parse(high))
            });
            let Some((low, high)) = ends else { continue };
            let mut bytes = vec![0; (high - low) as usize];
            let read = self.read(low, &mut bytes);
            let is_mark = |w: &[u8]| w[..3] == MARK && w[3] == code && w[4..] == MARK_TAIL;
            let places = bytes[..read].windows(7).enumerate().filter(|(_, w)| is_mark(w));
            found.extend(places.map(|(n, _)| low + n as u64));
        }
        Ok(found)
    }

    /// Reads memory; how much of it there is.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> usize {
        self.memory.read_at(bytes, at).unwrap_or(0)
    }

    /// Runs at full speed to one of these addresses.
    ///
    /// # Errors
    /// If it ends before.
    pub fn run_to(&mut self, places: &[u64]) -> Result<(), RecordFault> {
        for &at in places {
            self.memory.write_all_at(&[BREAK], at).map_err(self.fault("a break point"))?;
        }
        self.ask(libc::PTRACE_CONT, 0).map_err(self.fault("continuing it"))?;
        self.wait("begin")?;
        let mut registers = self.registers()?;
        registers.0.rip -= 1;
        let data = &raw const registers.0 as usize;
        self.ask(libc::PTRACE_SETREGS, data).map_err(self.fault("its registers"))?;
        for &at in places {
            self.memory.write_all_at(&MARK[..1], at).map_err(self.fault("a break point"))?;
        }
        Ok(())
    }

    /// Returns the registers of the program.
    ///
    /// # Errors
    /// If it is gone.
    pub fn registers(&self) -> Result<Registers, RecordFault> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        let data = registers.as_mut_ptr() as usize;
        self.ask(libc::PTRACE_GETREGS, data).map_err(self.fault("its registers"))?;
        // SAFETY: all of it are integers.
        Ok(Registers(unsafe { registers.assume_init() }))
    }

    /// Executes an instruction, or one iteration of a repeated one.
    ///
    /// # Errors
    /// If it ended.
    pub fn step(&mut self) -> Result<(), RecordFault> {
        self.ask(libc::PTRACE_SINGLESTEP, 0).map_err(self.fault("stepping it"))?;
        self.wait("end")
    }

    /// Kills the program.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.end();
    }
}
