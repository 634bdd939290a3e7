use super::{slot_of, time_of, Key};

/// No event: the end of a list.
const NONE: u32 = u32::MAX;

/// Events that come later than those of the present bucket, in buckets of equal time.
///
/// A bucket is an unordered list: an event is linked to its front in constant time. Only the events
/// of the next bucket that is not empty are sorted, by the caller that takes them. Buckets stand
/// for times modulo the wheel's circumference; events more than one turn ahead wait in `beyond`
/// until the wheel has come round (R. Brown, "Calendar queues", CACM 31, 1988; unordered lists as
/// in Tang, Goh and Thng, "Ladder queue", ACM TOMACS 15, 2005).
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// The first event of each bucket; as many as a power of two, or none if there is no wheel.
    heads: Vec<u32>,
    /// One bit for each bucket that holds any.
    filled: Vec<u64>,
    /// The key and the next of its bucket, for each event by its slot.
    nodes: Vec<(Key, u32)>,
    /// Width of a bucket, as a power of two of picoseconds.
    width: u32,
    /// The present bucket, counted from time zero. Its events have left.
    now: u64,
    /// Number of events in buckets.
    held: usize,
    beyond: Vec<Key>,
    /// The first bucket of those beyond.
    beyond_from: u64,
    /// Keys that were moved from beyond into view, since the wheel was made.
    pub(super) moved: usize,
}

impl Wheel {
    /// No wheel: every event is of the present bucket.
    pub(super) const fn none() -> Wheel {
        Wheel {
            heads: Vec::new(),
            filled: Vec::new(),
            nodes: Vec::new(),
            width: u64::BITS - 1,
            now: 1,
            held: 0,
            beyond: Vec::new(),
            beyond_from: u64::MAX,
            moved: 0,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.heads.is_empty()
    }

    /// Makes it fit for these keys, one at least, which are not put in. The nearer half of them
    /// says how dense events are, so that few that are far away do not matter.
    pub(super) fn fit(&mut self, keys: &mut [Key]) {
        debug_assert!(self.held == 0 && self.beyond.is_empty());
        let first = keys.iter().copied().min().map_or(0, time_of);
        let half = keys.len() / 2;
        let (_, &mut middle, _) = keys.select_nth_unstable(half);
        let span = time_of(middle) - first;
        // Two to four events in each bucket of the nearer half.
        let width = (span / half.max(1) as u64).saturating_mul(2).max(1);
        self.width = width.ilog2();
        self.now = first >> self.width;
        let buckets = (2 * keys.len()).next_power_of_two().max(64);
        self.heads.clear();
        self.heads.resize(buckets, NONE);
        self.filled.clear();
        self.filled.resize(buckets / 64, 0);
        self.moved = 0;
    }

    /// Keeps a later key; gives back one of the present bucket or before.
    #[inline]
    pub(super) fn put(&mut self, key: Key) -> Option<Key> {
        let bucket = time_of(key) >> self.width;
        if bucket <= self.now {
            return Some(key);
        }
        if bucket - self.now >= self.heads.len() as u64 {
            self.beyond_from = self.beyond_from.min(bucket);
            self.beyond.push(key);
            return None;
        }
        let place = self.place(bucket);
        let slot = slot_of(key);
        if slot >= self.nodes.len() {
            self.nodes.resize(slot + 1, (0, NONE));
        }
        self.nodes[slot] = (key, self.heads[place]);
        self.heads[place] = slot as u32;
        self.filled[place / 64] |= 1 << (place % 64);
        self.held += 1;
        None
    }

    /// Turns an empty wheel on to the bucket of this key, which becomes the present one.
    #[inline]
    pub(super) fn turn_to(&mut self, key: Key) {
        debug_assert!(self.held == 0 && self.beyond.is_empty(), "what it holds would be passed");
        self.now = self.now.max(time_of(key) >> self.width);
    }

    /// Turns to the next bucket that holds any, and gives out its keys.
    pub(super) fn turn(&mut self, mut out: impl FnMut(Key)) {
        let mut next = self.next_filled();
        if self.beyond_from <= next.unwrap_or(u64::MAX) && !self.beyond.is_empty() {
            // Those beyond come first or at the same time. The next bucket is theirs.
            self.now = self.beyond_from - 1;
            self.beyond_from = u64::MAX;
            let beyond = std::mem::take(&mut self.beyond);
            self.moved += beyond.len();
            beyond.into_iter().for_each(|key| {
                let present = self.put(key);
                debug_assert!(present.is_none(), "the present bucket is before all of them");
            });
            next = self.next_filled();
        }
        let Some(bucket) = next else { return };
        self.now = bucket;
        let place = self.place(bucket);
        self.filled[place / 64] &= !(1 << (place % 64));
        let mut slot = std::mem::replace(&mut self.heads[place], NONE);
        while slot != NONE {
            let (key, after) = self.nodes[slot as usize];
            self.held -= 1;
            out(key);
            slot = after;
        }
    }

    /// All keys, in no order; none are left, and there is no wheel.
    pub(super) fn take(&mut self) -> Vec<Key> {
        let mut keys = std::mem::take(&mut self.beyond);
        for &head in &self.heads {
            let mut slot = head;
            while slot != NONE {
                let (key, after) = self.nodes[slot as usize];
                keys.push(key);
                slot = after;
            }
        }
        *self = Wheel::none();
        keys
    }

    /// Returns the index of a bucket on the wheel.
    #[inline]
    fn place(&self, bucket: u64) -> usize {
        bucket as usize & (self.heads.len() - 1)
    }

    /// The first bucket after the present one that holds any.
    fn next_filled(&self) -> Option<u64> {
        if self.held == 0 {
            return None;
        }
        let start = self.place(self.now + 1);
        let mut word = start / 64;
        let mut bits = self.filled[word] & (u64::MAX << (start % 64));
        // One turn comes back to the bits before `start` in the first word.
        while bits == 0 {
            word = (word + 1) % self.filled.len();
            bits = self.filled[word];
        }
        let place = word * 64 + bits.trailing_zeros() as usize;
        Some(self.now + 1 + self.place(place.wrapping_sub(start) as u64) as u64)
    }
}
