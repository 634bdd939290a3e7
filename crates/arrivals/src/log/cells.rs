//! Cells of a line of a table.

use super::super::lines::LONGEST_LINE;

/// Cells of one line of CSV. Lines are taken one by one, so a quote that is never closed spoils no
/// other line; a cell of several lines does not exist in a log.
pub(super) struct Cells {
    reader: csv_core::Reader,
    text: Vec<u8>,
    ends: [usize; Cells::MOST],
    count: usize,
    /// Several blanks are one delimiter.
    squeezes: bool,
}

impl Cells {
    const MOST: usize = 256;

    /// Creates a splitter for lines with this delimiter.
    pub(super) fn new(delimiter: u8) -> Cells {
        let text = vec![0; LONGEST_LINE as usize];
        // Lines come without what ends them; a carriage return within is a character.
        let end = csv_core::Terminator::Any(b'\n');
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).terminator(end).build();
        Cells { reader, text, ends: [0; Cells::MOST], count: 0, squeezes: delimiter == b' ' }
    }

    /// Splits a line, if it is no longer than lines are, and has no more cells.
    pub(super) fn split(&mut self, line: &[u8]) -> Option<()> {
        self.reader.reset();
        let squeezed: Vec<u8>;
        let line = if self.squeezes {
            let words = line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty());
            squeezed = words.collect::<Vec<_>>().join(&b' ');
            &squeezed
        } else {
            line
        };
        let (mut text, mut count) = (0, 0);
        // All of it, and then its end.
        for part in [line, b""] {
            let (out, ends) = (&mut self.text[text..], &mut self.ends[count..]);
            let (result, _, written, ended) = self.reader.read_record(part, out, ends);
            if matches!(
                result,
                csv_core::ReadRecordResult::OutputFull | csv_core::ReadRecordResult::OutputEndsFull
            ) {
                return None;
            }
            (text, count) = (text + written, count + ended);
        }
        self.count = count;
        Some(())
    }

    pub(super) fn get(&self, cell: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.count].get(cell)?;
        let start = if cell == 0 { 0 } else { self.ends[cell - 1] };
        Some(self.text[start..end].trim_ascii())
    }

    /// Returns whether several blanks are one delimiter.
    pub(super) fn squeezes(&self) -> bool {
        self.squeezes
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn text(&self, cell: usize) -> Option<&str> {
        std::str::from_utf8(self.get(cell)?).ok()
    }
}
