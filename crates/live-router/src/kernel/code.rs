//! The programs that the kernel runs, as `tools/bpf.py` has compiled them from `forward.c`.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use halfwink_live::bpf::{program, refusal, Instruction};

use crate::bpf::PROG_TYPE_XDP;

const TEXT: &str = include_str!("forward.bpf");
/// Kinds of the operand of a wide load: a number, a map, the address of a map's value.
const NUMBER: u8 = 0;
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// Values of the names that the programs use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// The map of one value, which is `struct memory`.
    pub(super) memory: RawFd,
    /// Map of the CPUs that frames can be handed to.
    pub(super) cpus: RawFd,
    /// Map of the interfaces that frames can be sent by.
    pub(super) devices: RawFd,
    /// Number of the port that a program runs for.
    pub(super) port: u32,
}

/// Loads a program by its name, for one way to attach it.
///
/// # Errors
/// As the kernel says, with the last line of its checker if that refuses the program.
pub(super) fn load(name: &str, attach_type: u32, names: &Names) -> io::Result<OwnedFd> {
    let code = code(name, names);
    program(PROG_TYPE_XDP, attach_type, &code).map_err(|error| match error.raw_os_error() {
        // Without the right to load programs the checker has nothing to say.
        Some(libc::EPERM) => error,
        _ => match refusal(PROG_TYPE_XDP, attach_type, &code) {
            Some(line) => io::Error::new(error.kind(), format!("{error}: {line}")),
            None => error,
        },
    })
}

/// Instructions of a program.
fn code(name: &str, names: &Names) -> Vec<Instruction> {
    let lines = TEXT.lines().skip_while(|line| line.strip_prefix("program ") != Some(name));
    let lines = lines.skip(1).take_while(|line| !line.starts_with("program "));
    let mut code: Vec<Instruction> = Vec::new();
    let mut moved = None;
    for line in lines {
        let (text, used) =
            line.split_once(' ').map_or((line, None), |(text, name)| (text, Some(name)));
        let mut next = instruction(text);
        // The offset in a map's value stands in the second half of a wide load.
        if let Some(offset) = moved.take() {
            next.immediate = offset;
        }
        if let Some(used) = used {
            let (kind, value) = match used {
                "memory" => (MAP_VALUE, names.memory),
                "cpus" => (MAP, names.cpus),
                "devices" => (MAP, names.devices),
                _ => (NUMBER, names.port as RawFd),
            };
            moved = (kind == MAP_VALUE).then_some(next.immediate);
            next.registers = next.registers & 0x0f | kind << 4;
            next.immediate = value;
        }
        code.push(next);
    }
    code
}

/// Reads the eight bytes of an instruction; the text is ours, and a test reads all of it.
fn instruction(text: &str) -> Instruction {
    let bytes = u64::from_str_radix(text, 16).unwrap_or_default().to_be_bytes();
    let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
    Instruction {
        code,
        registers,
        offset: i16::from_le_bytes([o0, o1]),
        immediate: i32::from_le_bytes([i0, i1, i2, i3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { memory: 7, cpus: 8, devices: 9, port: 3 };
    const WIDE_LOAD: u8 = 0x18;
    const EXIT: u8 = 0x95;

    #[test]
    fn each_line_is_an_instruction_and_each_name_has_its_value() {
        let mut lines = 0;
        for name in ["receive", "serve", "sent"] {
            let code = code(name, &NAMES);
            assert!(code.iter().any(|ends| ends.code == EXIT), "{name}");
            lines += code.len();
            for used in code.iter().filter(|used| used.code == WIDE_LOAD) {
                let value = match used.registers >> 4 {
                    MAP_VALUE => vec![NAMES.memory],
                    MAP => vec![NAMES.cpus, NAMES.devices],
                    _ => vec![NAMES.port as RawFd],
                };
                assert!(value.contains(&used.immediate), "{name}: {used:?}");
            }
        }
        let hex = |line: &&str| u64::from_str_radix(&line[..16.min(line.len())], 16).is_ok();
        assert_eq!(TEXT.lines().filter(hex).count(), lines);
    }
}
