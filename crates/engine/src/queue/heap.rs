use super::Key;

/// Children of a node. Four keys are one cache line, and are compared in two rounds instead of the
/// four that two levels of a binary heap would take.
const ARITY: usize = 4;

/// A heap of keys, the least on top.
///
/// In a world one event mostly makes another. So taking the top fills it from below at once, but
/// leaves the hole that this makes where it is, one level down: the next key goes there, and moves
/// down once instead of another moving down and the key moving up.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyHeap {
    keys: Vec<Key>,
    /// Slot of the heap that holds no valid key. The top is never a hole, so 0 means none.
    hole: usize,
}

impl KeyHeap {
    #[inline]
    pub(super) fn push(&mut self, key: Key) {
        debug_assert!(self.hole == 0 || self.hole < self.keys.len(), "a hole is a place");
        match std::mem::take(&mut self.hole) {
            0 => self.rise(key),
            // The top is all that is above the hole.
            hole if key < self.keys[0] => {
                self.keys[hole] = self.keys[0];
                self.keys[0] = key;
            }
            hole => self.sink(hole, key),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.close();
        let first = self.first()?;
        match least_of(&self.keys, 1) {
            Some((least, child)) => {
                self.keys[0] = least;
                self.hole = child;
            }
            None => self.keys.clear(),
        }
        Some(first)
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.keys.len() - usize::from(self.hole != 0)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// All keys, in no order; none are left.
    pub(super) fn take(&mut self) -> Vec<Key> {
        self.close();
        std::mem::take(&mut self.keys)
    }

    /// Puts the last key into the hole, if there is one.
    #[inline]
    fn close(&mut self) {
        let hole = std::mem::take(&mut self.hole);
        if hole != 0 {
            // Where the hole is the last, what is taken off is the hole.
            let key = self.keys.pop().unwrap_or_default();
            if hole < self.keys.len() {
                self.sink(hole, key);
            }
        }
    }

    /// Adds a key at the end, and lets it rise.
    fn rise(&mut self, key: Key) {
        let mut place = self.keys.len();
        self.keys.push(key);
        let keys = &mut self.keys[..];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if keys[parent] < key {
                break;
            }
            keys[place] = keys[parent];
            place = parent;
        }
        keys[place] = key;
    }

    /// Lets a key sink from a place whose own key is gone.
    #[inline]
    fn sink(&mut self, mut place: usize, key: Key) {
        let keys = &mut self.keys[..];
        while let Some((least, child)) = least_of(keys, ARITY * place + 1) {
            if key < least {
                break;
            }
            keys[place] = least;
            place = child;
        }
        keys[place] = key;
    }
}

/// The least of up to four keys from `children` on, and its place.
#[inline(always)]
fn least_of(keys: &[Key], children: usize) -> Option<(Key, usize)> {
    if let Some(&[a, b, c, d]) = keys.get(children..children + ARITY) {
        // Which of two is less is anybody's guess, so moves rather than jumps decide.
        let left = if b < a { (b, children + 1) } else { (a, children) };
        let right = if d < c { (d, children + 3) } else { (c, children + 2) };
        return Some(if right.0 < left.0 { right } else { left });
    }
    let rest = keys.get(children..)?;
    rest.iter().copied().zip(children..).min()
}
