//! Numbers of the kernel's types and functions, from its own description (`/sys/kernel/btf`).

use std::collections::BTreeMap;
use std::fs;

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;

/// Type identifiers by which the programs read memory with plain loads, whose faults the kernel
/// handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cast {
    /// The function `bpf_rdonly_cast` (Linux 6.2), which becomes a move between registers.
    pub(super) function: i32,
    /// The structure `list_head`, whose first eight bytes are looked at.
    pub(super) structure: i32,
}

impl Cast {
    /// Returns those of the running kernel; none if it has no such function.
    pub(super) fn of_kernel() -> Option<Cast> {
        let bytes = fs::read("/sys/kernel/btf/vmlinux").ok()?;
        let wanted = [(FUNCTION, "bpf_rdonly_cast"), (STRUCT, "list_head")];
        let found = find(&bytes, &wanted)?;
        Some(Cast { function: *found.get(&0)?, structure: *found.get(&1)? })
    }
}

/// Numbers of types, by their places in `wanted`; `None` of what is no such description.
fn find(bytes: &[u8], wanted: &[(u32, &str)]) -> Option<BTreeMap<usize, i32>> {
    let word =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if word(0)? as u16 != MAGIC {
        return None;
    }
    let head = word(4)? as usize;
    let at = |offset: u32| head.checked_add(offset as usize);
    let (mut place, strings) = (at(word(8)?)?, at(word(16)?)?);
    let end = place.checked_add(word(12)? as usize)?;
    let is_named = |offset: u32, name: &str| {
        let from = strings.checked_add(offset as usize)?;
        let found = bytes.get(from..from.checked_add(name.len() + 1)?)?;
        Some(&found[..name.len()] == name.as_bytes() && found[name.len()] == 0)
    };
    let mut found = BTreeMap::new();
    let mut number = 0;
    while place < end {
        number += 1;
        let (name, info) = (word(place)?, word(place + 4)?);
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        for (n, (_, wanted)) in wanted.iter().enumerate().filter(|(_, (k, _))| *k == kind) {
            if is_named(name, wanted)? {
                found.entry(n).or_insert(number);
            }
        }
        // What stands behind the twelve bytes of each: integers, variables and tags a word, arrays
        // three, structures and sections three a member, enumerations and prototypes two, those of
        // 64 bits three.
        place += 12
            + match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * members,
                6 | 13 => 8 * members,
                _ => 0,
            };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_numbered_from_one() {
        let strings = b"\0int\0list_head\0bpf_rdonly_cast\0";
        let types: [[u32; 3]; 2] = [[5, 4 << 24 | 1, 16], [15, 12 << 24, 0]];
        let mut body = Vec::new();
        // An integer with its word, the structure with one member, the function.
        for word in [1, 1 << 24, 4, 32] {
            body.extend(u32::to_le_bytes(word));
        }
        for word in types[0].iter().chain(&[0, 0, 0]).chain(&types[1]) {
            body.extend(word.to_le_bytes());
        }
        let mut all = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, body.len() as u32, body.len() as u32, strings.len() as u32] {
            all.extend(word.to_le_bytes());
        }
        all.extend(&body);
        all.extend(strings);
        let wanted = [(FUNCTION, "bpf_rdonly_cast"), (STRUCT, "list_head"), (STRUCT, "int")];
        assert_eq!(find(&all, &wanted), Some([(0, 3), (1, 2)].into()));
        for cut in 0..all.len() {
            let _ = find(&all[..cut], &wanted);
        }
        assert_eq!(find(b"nothing of that kind", &wanted), None);
    }
}
