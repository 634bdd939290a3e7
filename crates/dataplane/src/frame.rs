/// A frame in a buffer with room before and after it: an XDP chunk, a slot of a pool, a `Vec`.
///
/// Elements grow and shrink the frame where it lies; nothing is copied to make room. Encryption
/// needs 56 bytes before it and 21 behind it, restoring what redundancy elimination took out as
/// many behind it as the link's MTU has; without room the packet is dropped.
#[derive(Debug)]
pub struct Frame<'a> {
    room: &'a mut [u8],
    start: usize,
    end: usize,
}

impl<'a> Frame<'a> {
    /// The `len` bytes of `room` from `start`; `None` if the room does not hold them.
    #[must_use]
    pub fn new(room: &'a mut [u8], start: usize, len: usize) -> Option<Frame<'a>> {
        let end = start.checked_add(len)?;
        (end <= room.len()).then_some(Frame { room, start, end })
    }

    /// The frame, from its destination address on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    /// Returns the bytes of the frame for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.end]
    }

    /// Returns the offset of the frame in its buffer, in bytes.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether no bytes are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Grows by `n` bytes to the front and returns them, their content unspecified; `None`, and
    /// nothing changed, if there is no room.
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let start = self.start.checked_sub(n)?;
        self.start = start;
        Some(&mut self.room[start..start + n])
    }

    /// Grows by `n` bytes to the back and returns them, their content unspecified; `None`, and
    /// nothing changed, if there is no room.
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        let old = self.end;
        let end = old.checked_add(n).filter(|&end| end <= self.room.len())?;
        self.end = end;
        Some(&mut self.room[old..end])
    }

    /// Cuts `n` bytes from the front; false, and nothing changed, if there are fewer.
    pub fn trim_front(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.start += n;
        }
        fits
    }

    /// Cuts all behind the first `len` bytes, if there is more.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Bytes of room before and after the frame.
    #[must_use]
    pub fn headroom(&self) -> (usize, usize) {
        (self.start, self.room.len() - self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_within_its_room_and_no_further() {
        let mut room = [0u8; 16];
        assert!(Frame::new(&mut room, 10, 7).is_none());
        assert!(Frame::new(&mut room, usize::MAX, 2).is_none());
        let mut frame = Frame::new(&mut room, 4, 8).expect("fits");
        frame.bytes_mut().fill(7);
        assert!(frame.prepend(5).is_none());
        assert!(frame.append(5).is_none());
        frame.prepend(4).expect("fits").fill(1);
        frame.append(4).expect("fits").fill(2);
        assert_eq!(frame.bytes(), [1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7, 7, 2, 2, 2, 2]);
        assert!(!frame.trim_front(17));
        assert!(frame.trim_front(3));
        frame.truncate(2);
        frame.truncate(9);
        assert_eq!((frame.bytes(), frame.start()), (&[1u8, 7][..], 3));
        assert_eq!(frame.headroom(), (3, 11));
    }
}
