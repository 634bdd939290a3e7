// SPDX-License-Identifier: GPL-2.0-or-later
//! Following a program that becomes another one by `execve`: QEMU would execute the other one
//! natively, so the plugin starts QEMU again instead.

use std::ffi::{CStr, CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Scripts that name scripts as their interpreters, at most: Linux has the same limit.
const NESTED: usize = 4;
/// Bytes of a script that Linux looks at.
const FIRST_LINE: usize = 256;
/// Bytes of a string, at most: as Linux has it.
const LONGEST: usize = 128 << 10;
/// Number of arguments, at most.
const MOST_WORDS: usize = 1 << 20;
const PAGE: usize = 4096;
/// Option of QEMU behind which the program's own words follow.
const WORDS_FOLLOW: &[u8] = b"-0";

/// A program that QEMU can be started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// An executable for x86-64.
    pub file: CString,
    /// Arguments of the executable, after the name that it is called by.
    pub words: Vec<CString>,
}

/// The executable that a path stands for, through the interpreters of scripts; None if it is none
/// for x86-64.
#[must_use]
pub fn resolve(path: &CStr, words: &[CString]) -> Option<Target> {
    let (mut file, mut words) = (path.to_owned(), words.to_vec());
    for _ in 0..=NESTED {
        let name = Path::new(OsStr::from_bytes(file.to_bytes()));
        let mut head = Vec::new();
        std::fs::File::open(name).ok()?.take(FIRST_LINE as u64).read_to_end(&mut head).ok()?;
        if is_x86_64(&head) {
            return Some(Target { file, words });
        }
        let (interpreter, argument) = interpreter(&head)?;
        let mut before = vec![interpreter.clone()];
        before.extend(argument);
        before.push(file);
        before.extend(words.drain(..).skip(1));
        (file, words) = (interpreter, before);
    }
    None
}

fn is_x86_64(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF\x02\x01") && head.get(18..20) == Some(&[62, 0])
}

/// The interpreter of a script and its one argument.
fn interpreter(head: &[u8]) -> Option<(CString, Option<CString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|b| b" \t".contains(b)).unwrap_or(line.len());
    let (name, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    let argument = (!argument.is_empty()).then(|| CString::new(argument)).transpose().ok()?;
    (!name.is_empty()).then(|| CString::new(name)).transpose().ok()?.map(|name| (name, argument))
}

/// Returns whether the caller may execute a file.
#[must_use]
pub fn may_execute(path: &CStr) -> bool {
    let plain = std::fs::metadata(Path::new(OsStr::from_bytes(path.to_bytes())));
    // SAFETY: the string ends with a zero.
    plain.is_ok_and(|data| data.is_file())
        && unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0
}

/// The strings of a zero-terminated array in the program's memory, `base` being what QEMU adds to
/// its addresses; None if the program gave an address at which nothing is.
#[must_use]
pub fn strings(address: u64, base: usize) -> Option<Vec<CString>> {
    let mut all = Vec::new();
    if address == 0 {
        return Some(all);
    }
    for number in 0..MOST_WORDS {
        let mut word = [0; 8];
        read(address.wrapping_add(8 * number as u64), base, &mut word)?;
        match u64::from_le_bytes(word) {
            0 => return Some(all),
            string => all.push(string_at(string, base)?),
        }
    }
    None
}

/// A string in the program's memory; None as for [`strings`].
#[must_use]
pub fn string_at(address: u64, base: usize) -> Option<CString> {
    let (mut bytes, mut at) = (Vec::new(), address);
    while bytes.len() < LONGEST {
        // No further than to the end of a page: what follows may not be mapped.
        let mut part = [0; PAGE];
        let part = &mut part[..PAGE - at as usize % PAGE];
        read(at, base, part)?;
        let end = part.iter().position(|&byte| byte == 0);
        bytes.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() {
            return CString::new(bytes).ok();
        }
        at = at.wrapping_add(part.len() as u64);
    }
    None
}

/// Fills `out` from the program's memory, by the kernel, which checks the address.
fn read(address: u64, base: usize, out: &mut [u8]) -> Option<()> {
    let start = (address as usize).wrapping_add(base) as *mut libc::c_void;
    let ours = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let theirs = libc::iovec { iov_base: start, iov_len: out.len() };
    // SAFETY: `out` is as long as `ours` says; the kernel checks the other address.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const ours, 1, &raw const theirs, 1, 0)
    };
    (usize::try_from(copied) == Ok(out.len())).then_some(())
}

/// The command line of a QEMU like this one for another program.
#[must_use]
pub fn command_line(own: &[u8], target: &Target) -> Option<Vec<CString>> {
    let words = own.strip_suffix(&[0]).unwrap_or(own).split(|&b| b == 0);
    let mut line = Vec::new();
    for word in words {
        line.push(CString::new(word).ok()?);
        if word == WORDS_FOLLOW {
            let name = target.words.first().unwrap_or(&target.file);
            line.extend([name.clone(), target.file.clone()]);
            line.extend(target.words.iter().skip(1).cloned());
            return Some(line);
        }
    }
    None
}

/// Becomes a QEMU like this one for another program; returns only if that fails.
pub fn become_qemu(target: &Target, environment: &[CString]) {
    let own = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let program = std::fs::read_link("/proc/self/exe").map(|path| path.into_os_string().into_vec());
    let (Some(line), Ok(Ok(program))) = (command_line(&own, target), program.map(CString::new))
    else {
        return;
    };
    let ends = |all: &[CString]| {
        let pointers = all.iter().map(|word| word.as_ptr());
        pointers.chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    // SAFETY: both arrays end with a null pointer, and their strings live until the call returns.
    unsafe {
        libc::execve(program.as_ptr(), ends(&line).as_ptr(), ends(environment).as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<CString> {
        all.iter().map(|&word| CString::new(word).expect("no zero")).collect()
    }

    #[test]
    fn interpreters_have_one_argument() {
        let text = |bytes: &[u8]| {
            interpreter(bytes).map(|(name, argument)| {
                let argument = argument.map(|a| a.into_string().expect("text"));
                (name.into_string().expect("text"), argument)
            })
        };
        assert_eq!(text(b"#!/bin/sh\necho"), Some(("/bin/sh".into(), None)));
        let env = Some(("/usr/bin/env".into(), Some("-S python3 -I".into())));
        assert_eq!(text(b"#! /usr/bin/env \t-S python3 -I \n"), env);
        assert_eq!(text(b"#!\n"), None);
        assert_eq!(text(b"echo"), None);
    }

    #[test]
    fn another_program_has_the_options_of_this_one() {
        let own = b"qemu-x86_64\0-cpu\0max\0-0\0sh\0/bin/sh\0a\0";
        let target = Target { file: c"/bin/true".into(), words: words(&["true", "-x"]) };
        let line = ["qemu-x86_64", "-cpu", "max", "-0", "true", "/bin/true", "-x"];
        assert_eq!(command_line(own, &target), Some(words(&line)));
        assert_eq!(command_line(b"qemu-x86_64\0/bin/sh\0", &target), None);
    }

    #[test]
    fn this_test_is_an_executable() {
        let own = std::env::current_exe().expect("a path").into_os_string().into_vec();
        let own = CString::new(own).expect("no zero");
        let expected = Target { file: own.clone(), words: words(&["x"]) };
        assert_eq!(resolve(&own, &words(&["x"])), Some(expected));
        assert!(may_execute(&own) && !may_execute(c"/etc/passwd") && !may_execute(c"/tmp"));
        assert_eq!(resolve(c"/etc/passwd", &[]), None);
    }

    #[test]
    fn arrays_of_strings_end_at_zero() {
        let array = [c"a".as_ptr() as u64, c"bc".as_ptr() as u64, 0];
        assert_eq!(strings(array.as_ptr() as u64, 0), Some(words(&["a", "bc"])));
        assert_eq!(strings(0, 0), Some(Vec::new()), "0 stands for none");
        assert_eq!(string_at(array[1] - 16, 16), Some(c"bc".to_owned()));
    }

    #[test]
    fn addresses_of_nothing_are_refused() {
        assert_eq!((strings(16, 0), string_at(1, 0), string_at(u64::MAX, 0)), (None, None, None));
        let array = [1, 0];
        assert_eq!(strings(array.as_ptr() as u64, 0), None);
    }
}
