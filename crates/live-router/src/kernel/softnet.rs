//! What the kernel counts of the packets that each CPU takes: `/proc/net/softnet_stat`.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of the file for a CPU, at most.
const BYTES: usize = 160;

/// Counts of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Packets that it has taken.
    pub(super) processed: u64,
    /// Packets that found its backlog full.
    pub(super) dropped: u64,
    /// Times that it ended a softirq with packets left over on its devices.
    pub(super) squeezed: u64,
    /// Packets in its backlog; 0 before Linux 5.10, which does not say.
    pub(super) backlog: u64,
}

/// The file, open, with room for its text.
pub(super) struct Softnet {
    file: Option<File>,
    room: Vec<u8>,
}

impl Softnet {
    pub(super) fn open() -> Softnet {
        // SAFETY: a plain number.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
        Softnet { file: File::open("/proc/net/softnet_stat").ok(), room: vec![0; cpus * BYTES] }
    }

    /// Returns the text of the file now; empty if it cannot be read.
    pub(super) fn read(&mut self) -> &str {
        let room = &mut self.room;
        let read = self.file.as_ref().and_then(|file| file.read_at(room, 0).ok());
        std::str::from_utf8(&self.room[..read.unwrap_or(0)]).unwrap_or_default()
    }
}

/// Counts of a CPU, from the text of the file.
pub(super) fn line(text: &str, cpu: u32) -> Line {
    let mut lines = text.lines().enumerate().map(|(place, line)| {
        let fields = line.split_whitespace().map(|field| u64::from_str_radix(field, 16));
        let fields: Vec<u64> = fields.map(Result::unwrap_or_default).collect();
        (place, fields)
    });
    // CPUs that are off have no line; kernels since 5.10 number the lines.
    let is_it = |place: usize, fields: &[u64]| {
        fields.get(12).copied().unwrap_or(place as u64) == u64::from(cpu)
    };
    let found = lines.find(|(place, fields)| is_it(*place, fields)).map(|(_, fields)| fields);
    let field = |n| found.as_ref().and_then(|fields| fields.get(n)).copied().unwrap_or(0);
    Line { processed: field(0), dropped: field(1), squeezed: field(2), backlog: field(11) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_the_line_with_its_number() {
        let text = "10 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n20 2 3 0 0 0 0 0 0 5 0 b 2 b 0\n";
        let wanted = Line { processed: 0x20, dropped: 2, squeezed: 3, backlog: 11 };
        assert_eq!(line(text, 2), wanted);
        assert_eq!(line(text, 1), Line::default());
        assert_eq!(line(text, 0).processed, 0x10);
        assert_eq!(line("0000000a 0 0\n0000000b 0 0\n", 1).processed, 11);
    }
}
