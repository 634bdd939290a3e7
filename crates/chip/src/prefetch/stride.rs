//! Strides by instruction.

use super::within_page;

/// Entry of an instruction.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pc: u64,
    line: u64,
    stride: i64,
    /// Times in a row that the stride was seen again, up to [`SURE`].
    seen: u8,
    /// The farthest line that was wanted, in strides from `line`.
    ahead: i64,
}

const NONE: Entry = Entry { pc: u64::MAX, line: 0, stride: 0, seen: 0, ahead: 0 };

/// A stride counts when it was seen so often again (assumption: as in Fu, Patel and Janssens 1992,
/// a stride is tried when two distances in a row agree).
const SURE: u8 = 1;

/// A direct-mapped table of instructions.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    entries: Box<[Entry]>,
    distance: i64,
}

impl Strides {
    pub(super) fn new(entries: usize, distance: usize) -> Strides {
        Strides { entries: vec![NONE; entries].into_boxed_slice(), distance: distance as i64 }
    }

    /// The instruction at `pc` accesses a line: adds up to `degree` lines that are wanted.
    #[inline]
    pub(super) fn sees(&mut self, line: u64, pc: u64, degree: usize, wanted: &mut Vec<u64>) {
        // Instructions are of any length: neighbours differ in their lowest bits.
        let place = (pc ^ pc >> 8) as usize & (self.entries.len() - 1);
        let entry = &mut self.entries[place];
        if entry.pc != pc {
            *entry = Entry { pc, line, ..NONE };
            return;
        }
        let stride = line.wrapping_sub(entry.line) as i64;
        if stride == 0 {
            return;
        }
        entry.line = line;
        if stride != entry.stride {
            (entry.stride, entry.seen, entry.ahead) = (stride, 0, 0);
            return;
        }
        entry.seen = (entry.seen + 1).min(SURE);
        // A step on is one stride less to what was wanted before.
        entry.ahead = (entry.ahead - 1).max(0);
        for _ in 0..degree {
            if entry.seen < SURE || entry.ahead == self.distance {
                return;
            }
            let Some(next) = stride.checked_mul(entry.ahead + 1) else { return };
            let Some(next) = within_page(line, next) else { return };
            entry.ahead += 1;
            wanted.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [u64; 0] = [];

    fn sees(strides: &mut Strides, line: u64, pc: u64) -> Vec<u64> {
        let mut wanted = Vec::new();
        strides.sees(line, pc, 2, &mut wanted);
        wanted
    }

    #[test]
    fn two_equal_distances_make_a_stride_and_nothing_is_wanted_twice() {
        let mut strides = Strides::new(16, 3);
        assert_eq!(sees(&mut strides, 100 << 6, 5), NOTHING);
        assert_eq!(sees(&mut strides, (100 << 6) + 2, 5), NOTHING);
        let at = |n: u64| (100 << 6) + n;
        assert_eq!(sees(&mut strides, at(4), 5), [at(6), at(8)]);
        assert_eq!(sees(&mut strides, at(4), 5), NOTHING, "the same line again");
        assert_eq!(sees(&mut strides, at(6), 5), [at(10), at(12)]);
        assert_eq!(sees(&mut strides, at(8), 5), [at(14)], "three strides ahead at most");
        assert_eq!(sees(&mut strides, at(9), 5), NOTHING, "another stride");
        assert_eq!(sees(&mut strides, at(10), 5), [at(11), at(12)]);
    }

    #[test]
    fn a_stride_ends_with_its_page_and_may_go_down() {
        let mut strides = Strides::new(16, 8);
        let lines = [12u64, 8, 4].map(|n| (7 << 6) + n);
        let all: Vec<u64> = lines.iter().flat_map(|&l| sees(&mut strides, l, 5)).collect();
        assert_eq!(all, [7 << 6], "what lies below is in another page");
    }

    #[test]
    fn instructions_do_not_disturb_each_other() {
        let mut strides = Strides::new(16, 8);
        for n in 0..3u64 {
            let a = sees(&mut strides, (3 << 6) + n, 1);
            let b = sees(&mut strides, (9 << 6) + 2 * n, 2);
            assert_eq!((a.is_empty(), b.is_empty()), (n < 2, n < 2));
        }
    }
}
