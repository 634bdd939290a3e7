//! Streams by page.

use super::{within_page, PAGE_LINES};

/// A page that is read.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    /// The line read last.
    line: u64,
    /// +1 or -1; 0 before two reads agree.
    direction: i64,
    /// The farthest line that was wanted, in lines from `line`.
    ahead: i64,
}

/// Streams, the one used last first.
#[derive(Clone, Debug)]
pub(super) struct Streamer {
    streams: Vec<Stream>,
    most: usize,
    distance: i64,
}

impl Streamer {
    pub(super) fn new(entries: usize, distance: usize) -> Streamer {
        let streams = Vec::with_capacity(entries);
        Streamer { streams, most: entries, distance: distance as i64 }
    }

    /// A line is read: adds up to `degree` lines that are wanted.
    #[inline]
    pub(super) fn sees(&mut self, line: u64, degree: usize, wanted: &mut Vec<u64>) {
        let page = line / PAGE_LINES;
        match self.streams.iter().position(|stream| stream.page == page) {
            Some(place) => self.streams[..=place].rotate_right(1),
            None => {
                if self.streams.len() == self.most {
                    self.streams.pop();
                }
                self.streams.insert(0, Stream { page, line, direction: 0, ahead: 0 });
                return;
            }
        }
        let stream = &mut self.streams[0];
        let moved = line as i64 - stream.line as i64;
        if moved == 0 {
            return;
        }
        stream.line = line;
        if moved.signum() != stream.direction {
            (stream.direction, stream.ahead) = (moved.signum(), 0);
        }
        stream.ahead = (stream.ahead - moved.abs()).max(0);
        for _ in 0..degree {
            if stream.ahead == self.distance {
                return;
            }
            let next = stream.direction * (stream.ahead + 1);
            let Some(next) = within_page(line, next) else { return };
            stream.ahead += 1;
            wanted.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [u64; 0] = [];

    fn sees(streamer: &mut Streamer, line: u64) -> Vec<u64> {
        let mut wanted = Vec::new();
        streamer.sees(line, 2, &mut wanted);
        wanted
    }

    #[test]
    fn the_second_read_of_a_page_gives_the_direction() {
        let mut streamer = Streamer::new(4, 3);
        let at = |n: u64| (50 << 6) + n;
        assert_eq!(sees(&mut streamer, at(10)), NOTHING);
        assert_eq!(sees(&mut streamer, at(11)), [at(12), at(13)]);
        assert_eq!(sees(&mut streamer, at(12)), [at(14), at(15)]);
        assert_eq!(sees(&mut streamer, at(14)), [at(16), at(17)], "two on: two less ahead");
        assert_eq!(sees(&mut streamer, at(13)), [at(12), at(11)], "it turns");
    }

    #[test]
    fn streams_end_with_their_page_and_the_oldest_is_forgotten() {
        let mut streamer = Streamer::new(2, 8);
        let at = |page: u64, n: u64| (page << 6) + n;
        assert_eq!(sees(&mut streamer, at(1, 61)), NOTHING);
        assert_eq!(sees(&mut streamer, at(1, 62)), [at(1, 63)]);
        assert_eq!(sees(&mut streamer, at(2, 0)), NOTHING);
        assert_eq!(sees(&mut streamer, at(3, 0)), NOTHING);
        assert_eq!(sees(&mut streamer, at(1, 63)), NOTHING, "page 1 begins again");
        assert_eq!(sees(&mut streamer, at(3, 1)), [at(3, 2), at(3, 3)]);
    }
}
