// SPDX-License-Identifier: GPL-2.0-or-later
//! Completing the trace of a program that dies of a signal.
//!
//! QEMU 7.2 then sends itself the same signal by `kill`, without a callback. Its only call of that
//! function goes through the table of its own file's relocations, whose entry is replaced here.

use std::ffi::{c_int, c_void, CStr};

/// A function in the place of `kill`.
pub type Kill = extern "C" fn(libc::pid_t, c_int) -> c_int;

const DYNAMIC: u32 = 2;
const PAGE: usize = 4096;

/// Tags of a file's dynamic section.
mod tag {
    pub const JUMPS_SIZE: u64 = 2;
    pub const STRINGS: u64 = 5;
    pub const SYMBOLS: u64 = 6;
    pub const RELOCATIONS: u64 = 7;
    pub const RELOCATIONS_SIZE: u64 = 8;
    pub const JUMPS: u64 = 23;
}

/// Kinds of relocations that hold a function's address: `R_X86_64_GLOB_DAT`, `R_X86_64_JUMP_SLOT`.
const ADDRESSES: [u64; 2] = [6, 7];

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    kind: [u8; 4],
    value: u64,
    size: u64,
}

struct Search {
    replacement: Kill,
    replaced: usize,
    visited: bool,
}

/// Lets the main program call another function for `kill`; returns in how many places.
///
/// # Safety
/// The function must do what `kill` does, and no other thread may call that meanwhile.
pub unsafe fn replace_kill(replacement: Kill) -> usize {
    let mut search = Search { replacement, replaced: 0, visited: false };
    // SAFETY: the callback gets the address of `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.replaced
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes one file's description and our own data.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    // The main program comes first.
    if !search.visited {
        search.visited = true;
        // SAFETY: the headers are those of a loaded file.
        search.replaced = unsafe { replace_in(info, search.replacement) };
    }
    1
}

unsafe fn replace_in(info: &libc::dl_phdr_info, replacement: Kill) -> usize {
    let base = info.dlpi_addr;
    // SAFETY: the loader tells how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let Some(dynamic) = headers.iter().find(|header| header.p_type == DYNAMIC) else { return 0 };
    let mut found = [0u64; 24];
    let mut entry = (base + dynamic.p_vaddr) as *const [u64; 2];
    loop {
        // SAFETY: the section ends with a zero.
        let [tag, value] = unsafe { *entry };
        if tag == 0 {
            break;
        }
        if let Some(place) = found.get_mut(tag as usize) {
            *place = value;
        }
        entry = entry.wrapping_add(1);
    }
    // The loader has added the base already, if it is one that writes to this section.
    let at = |tag: u64| {
        let address = found[tag as usize];
        if address < base {
            address + base
        } else {
            address
        }
    };
    let tables = [
        (tag::RELOCATIONS, found[tag::RELOCATIONS_SIZE as usize]),
        (tag::JUMPS, found[tag::JUMPS_SIZE as usize]),
    ];
    let mut replaced = 0;
    for (table, bytes) in tables {
        let count = bytes as usize / size_of::<Relocation>();
        let first = at(table) as *const Relocation;
        for number in 0..count {
            // SAFETY: the loaded file has tables of these sizes, of symbols and strings too.
            let (relocation, name) = unsafe {
                let relocation = &*first.add(number);
                let symbol = at(tag::SYMBOLS) as *const Symbol;
                let symbol = &*symbol.add((relocation.info >> 32) as usize);
                let name = at(tag::STRINGS) as usize + symbol.name as usize;
                (relocation, CStr::from_ptr(name as *const _))
            };
            let kind = relocation.info & 0xffff_ffff;
            if ADDRESSES.contains(&kind) && name == c"kill" {
                // SAFETY: the place holds the address of `kill`.
                replaced += usize::from(unsafe { write(base + relocation.offset, replacement) });
            }
        }
    }
    replaced
}

unsafe fn write(address: u64, replacement: Kill) -> bool {
    let place = address as *mut Kill;
    let page = (address as usize & !(PAGE - 1)) as *mut c_void;
    // SAFETY: an aligned address lies in one page, which is mapped; the loader made it read-only.
    unsafe {
        if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        place.write(replacement);
    }
    true
}
