//! The running kernel: which build it is, where its image lies, and what of it may be read.

use std::fs;
use std::ops::Range;
use std::path::Path;

/// Bytes of a line.
pub const LINE: u64 = 64;

/// The kernel's image in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Which build, as `/sys/kernel/notes` has it, in hexadecimal.
    pub build_id: String,
    /// First address of its text. It changes with each boot (KASLR).
    pub base: u64,
    /// Lines of its text, counted from `base`.
    pub text: Range<u64>,
    /// Lines of its constants and own variables (no memory of processes or buffers), counted from
    /// `base`: they may be read besides text. Bytes that are read are discarded.
    pub allowed: Vec<Range<u64>>,
}

impl Image {
    /// The kernel that runs here.
    ///
    /// # Errors
    /// What cannot be read, in one line.
    pub fn running() -> Result<Image, String> {
        let notes = fs::read("/sys/kernel/notes").map_err(|e| format!("/sys/kernel/notes: {e}"))?;
        let build_id = build_id(&notes).ok_or("/sys/kernel/notes: no build id")?;
        let [base, end] = symbols(Path::new("/proc/kallsyms"), ["_stext", "_etext"])?;
        let text = 0..(end - base).div_ceil(LINE);
        let ranges = fs::read_to_string("/proc/iomem").unwrap_or_default();
        let allowed = allowed(&ranges, text.end);
        Ok(Image { build_id, base, text, allowed })
    }

    /// Returns whether a line, counted from `base`, may be read.
    #[must_use]
    pub fn allows(&self, line: u64) -> bool {
        self.text.contains(&line) || self.allowed.iter().any(|range| range.contains(&line))
    }

    /// All lines that may be read.
    pub fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        self.text.clone().chain(self.allowed.iter().cloned().flatten())
    }
}

/// Addresses of symbols; zeroes where the kernel hides them.
fn symbols<const N: usize>(path: &Path, names: [&str; N]) -> Result<[u64; N], String> {
    let place = path.display();
    let text = fs::read_to_string(path).map_err(|e| format!("{place}: {e}"))?;
    let mut found = [0; N];
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (address, _, name) = (words.next(), words.next(), words.next());
        // Names of modules stand in brackets behind theirs.
        let Some(at) = names.iter().position(|n| Some(*n) == name) else { continue };
        if words.next().is_none() {
            found[at] = address.and_then(|a| u64::from_str_radix(a, 16).ok()).unwrap_or(0);
        }
    }
    if found.contains(&0) {
        let hidden = "addresses are hidden: run as root with kernel.kptr_restrict below 2";
        return Err(format!("{place}: {hidden}"));
    }
    Ok(found)
}

/// The image's parts besides text, from `/proc/iomem`, as lines from the beginning of its text.
fn allowed(iomem: &str, text_lines: u64) -> Vec<Range<u64>> {
    let part = |name: &str| {
        let line = iomem.lines().find(|line| line.trim_end().ends_with(name))?;
        let (from, to) = line.trim().split_once(' ')?.0.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok().filter(|n| *n != 0);
        Some(number(from)?..number(to)? + 1)
    };
    let Some(code) = part("Kernel code") else { return Vec::new() };
    let lines = |range: Range<u64>| {
        let line = |at: u64| at.checked_sub(code.start).map(|bytes| bytes / LINE);
        Some(line(range.start)?..line(range.end)?).filter(|r| r.start >= text_lines)
    };
    let names = ["Kernel rodata", "Kernel data", "Kernel bss"];
    names.into_iter().filter_map(|name| lines(part(name)?)).collect()
}

/// The GNU build id in a section of ELF notes, in hexadecimal.
#[must_use]
pub fn build_id(notes: &[u8]) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    let mut rest = notes;
    while rest.len() >= 12 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let (name, bytes, kind) = (word(0) as usize, word(4) as usize, word(8));
        let begin = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = begin.checked_add(bytes)?;
        let value = rest.get(begin..end)?;
        if kind == GNU_BUILD_ID && rest[12..].starts_with(b"GNU\0") && !value.is_empty() {
            return Some(value.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_id_is_found_among_notes() {
        let note = |name: &[u8], kind: u32, value: &[u8]| {
            let mut all = Vec::new();
            all.extend((name.len() as u32).to_le_bytes());
            all.extend((value.len() as u32).to_le_bytes());
            all.extend(kind.to_le_bytes());
            for part in [name, value] {
                all.extend(part);
                all.resize(all.len().next_multiple_of(4), 0);
            }
            all
        };
        let both = [note(b"Linux\0", 0, &[1, 2, 3]), note(b"GNU\0", 3, &[0xab, 0x01])].concat();
        assert_eq!(build_id(&both).as_deref(), Some("ab01"));
        assert_eq!(build_id(&note(b"GNU\0", 1, &[1])), None);
        for end in 0..both.len() {
            // Cut anywhere, or with lengths beyond all bounds: nothing, and no panic.
            let _ = build_id(&both[..end]);
        }
        assert_eq!(build_id(&[0xff; 40]), None);
    }

    #[test]
    fn parts_of_the_image() {
        let iomem = "00000000-00000fff : Reserved\n  01000000-01ffffff : Kernel code\n  \
                     02400000-024fffff : Kernel rodata\n  03000000-0300ffff : Kernel data\n";
        let text = 0x100_0000 / LINE;
        let found = allowed(iomem, text);
        let line = |address: u64| (address - 0x100_0000) / LINE;
        let expected = [line(0x240_0000)..line(0x250_0000), line(0x300_0000)..line(0x301_0000)];
        assert_eq!(found, expected);
        // Hidden from whoever is not root: nothing but text.
        assert!(allowed("  00000000-00000000 : Kernel code\n", text).is_empty());
        assert!(allowed("", text).is_empty());
    }

    #[test]
    fn nothing_but_the_image_is_allowed() {
        let image =
            Image { build_id: String::new(), base: 0, text: 0..10, allowed: vec![20..22, 30..31] };
        let allowed: Vec<u64> = (0..40).filter(|line| image.allows(*line)).collect();
        assert_eq!(allowed, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 30]);
        assert!(image.lines().eq(allowed));
    }
}
