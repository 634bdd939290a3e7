//! Writing logs of runs that can wait for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halfwink_policy::{Input, Log};
use halfwink_units::Time;
use serde::Serialize;

use crate::format::{Footer, Header, LogError, Place};
use crate::parts::Parts;

/// A log that is being written. Clones write to the same file, each from its own thread.
#[derive(Clone)]
pub struct Writer(Arc<Mutex<Inner>>);

struct Inner {
    file: String,
    out: Box<dyn Write + Send>,
    /// Bytes that the file has not taken yet. A file that fails in the middle of a line gets the
    /// rest of it later, so that no line is torn.
    pending: Vec<u8>,
    /// Header of the policies that run at present.
    header: Header,
    /// The header found no room: it stands before the next line that does.
    is_header_due: bool,
    /// Parts of the log, if it is kept in parts, and the bytes of the present one.
    parts: Option<(Parts, u64)>,
    lines: u64,
    last: Time,
    /// Lines that found no room while the file failed.
    lost: u64,
    /// Error of the last attempt to write, if it failed.
    error: Option<io::Error>,
    /// Error of the first attempt that failed.
    first_error: Option<String>,
}

/// Bytes that are gathered for one system call: some hundred lines. Also what is kept of a file
/// that fails.
const ROOM: usize = 1 << 16;

impl Writer {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, header: &Header) -> Result<Writer, LogError> {
        let file = path.display().to_string();
        match File::create(path) {
            Ok(out) => Ok(Writer::to(&file, Box::new(out), header)),
            Err(error) => Err(LogError { file, line: 0, message: error.to_string() }),
        }
    }

    /// Begins a log wherever it goes; `name` stands for it in errors.
    #[must_use]
    pub fn to(name: &str, out: Box<dyn Write + Send>, header: &Header) -> Writer {
        Writer::begin(name, out, None, header)
    }

    /// Begins a log in parts. What stands in the file is the part before.
    ///
    /// # Errors
    /// If a file cannot be made or renamed.
    pub fn in_parts(parts: Parts, header: &Header) -> Result<Writer, LogError> {
        let file = parts.path().display().to_string();
        match parts.is_ours().and_then(|()| parts.next()) {
            Ok(out) => Ok(Writer::begin(&file, Box::new(out), Some((parts, 0)), header)),
            Err(error) => Err(LogError { file, line: 0, message: error.to_string() }),
        }
    }

    fn begin(
        name: &str,
        out: Box<dyn Write + Send>,
        parts: Option<(Parts, u64)>,
        header: &Header,
    ) -> Writer {
        let writer = Writer(Arc::new(Mutex::new(Inner {
            file: name.to_owned(),
            out,
            pending: Vec::with_capacity(ROOM),
            header: header.clone(),
            is_header_due: false,
            parts,
            lines: 0,
            last: Time::ZERO,
            lost: 0,
            error: None,
            first_error: None,
        })));
        writer.header(header);
        writer
    }

    /// Other policies take over.
    pub fn header(&self, header: &Header) {
        let mut inner = self.lock();
        inner.header = header.clone();
        inner.is_header_due = !inner.append(&text(header));
    }

    /// The log of one of the run's policies.
    #[must_use]
    pub fn stream(&self, place: Place) -> Stream {
        let family = self.lock().header.family;
        let mut tags = String::from("{");
        if place.stream != 0 {
            tags += &format!("\"stream\":{},", place.stream);
        }
        if place.family != family {
            tags += &format!("\"family\":\"{}\",", place.family);
        }
        Stream {
            writer: self.clone(),
            tags,
            now: Time::ZERO,
            line: String::new(),
            actions: 0,
            begun: false,
            lost: 0,
        }
    }

    /// Ends the log well; never before its last line, if the run is counted from a later time on.
    ///
    /// # Errors
    /// The first thing that went wrong with the file. A log that fails never ends its run.
    pub fn end(&self, end: Time, dropped: u64) -> Result<Footer, LogError> {
        let footer = self.close(end, dropped)?;
        let inner = self.lock();
        match &inner.first_error {
            Some(error) if footer.dropped > dropped => Err(inner.incomplete(error)),
            _ => Ok(footer),
        }
    }

    /// Ends a log that may lack lines: its footer counts them.
    ///
    /// # Errors
    /// The last lines, or the footer, could not be written.
    pub(crate) fn close(&self, end: Time, dropped: u64) -> Result<Footer, LogError> {
        let mut inner = self.lock();
        let (end_ps, lines) = (end.max(inner.last).0, inner.lines);
        let footer = Footer { end_ps, lines, dropped: dropped + inner.lost };
        inner.pending.extend_from_slice(text(&footer).as_bytes());
        inner.pending.push(b'\n');
        inner.drain().map(|()| footer).map_err(|error| inner.incomplete(&error.to_string()))
    }

    /// Appends a line, and returns whether there was room for it.
    pub(crate) fn line(&self, now: Time, line: &str) -> bool {
        debug_assert!(!line.contains('\n'), "a line of the log is one line of text");
        let mut inner = self.lock();
        if inner.is_part_full() && inner.error.is_none() {
            inner.flush();
        }
        if inner.is_header_due {
            let header = text(&inner.header);
            inner.is_header_due = !inner.append(&header);
        }
        let is_kept = !inner.is_header_due && inner.append(line);
        if is_kept {
            inner.lines += 1;
            inner.last = inner.last.max(now);
        } else {
            inner.lost += 1;
        }
        is_kept
    }

    /// Writes what is pending, and tries again what has failed. Returns the error, if it fails
    /// still.
    pub(crate) fn flush(&self) -> Option<LogError> {
        let mut inner = self.lock();
        inner.flush();
        let error = inner.error.as_ref()?;
        Some(LogError { file: inner.file.clone(), line: 0, message: error.to_string() })
    }

    /// Writes what is pending. Returns whether some is left because a FIFO is full.
    pub(crate) fn waits_for_reader(&self) -> bool {
        let mut inner = self.lock();
        inner.flush();
        inner.error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked leaves at worst a cut line at the end, which readers accept; the
        // other threads' lines are still worth keeping.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Appends a line, if there is room for it or room can be made.
    fn append(&mut self, line: &str) -> bool {
        let has_room = |pending: &[u8]| pending.is_empty() || pending.len() + line.len() < ROOM;
        if !has_room(&self.pending) {
            let drained = self.drain();
            self.note(drained);
        }
        if !has_room(&self.pending) {
            return false;
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
        if let Some((_, bytes)) = &mut self.parts {
            *bytes += line.len() as u64 + 1;
        }
        true
    }

    fn is_part_full(&self) -> bool {
        self.parts.as_ref().is_some_and(|(parts, bytes)| *bytes >= parts.bytes())
    }

    /// Writes what is pending, then begins the next part if the present one is as long as it may
    /// be.
    fn flush(&mut self) {
        let written = self.drain().and_then(|()| self.begin_part());
        self.note(written);
    }

    fn incomplete(&self, error: &str) -> LogError {
        let message = format!("{error}; the log is not complete");
        LogError { file: self.file.clone(), line: 0, message }
    }

    /// Keeps the error of an attempt; one that goes well ends it.
    fn note(&mut self, attempt: io::Result<()>) {
        self.error = attempt.err();
        if let (None, Some(error)) = (&self.first_error, &self.error) {
            self.first_error = Some(error.to_string());
        }
    }

    /// Writes what is pending. On an error the rest stays.
    fn drain(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            if written == self.pending.len() {
                break Ok(());
            }
            match self.out.write(&self.pending[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.pending.drain(..written);
        result
    }

    /// Begins the next part if the present one is full. Where that fails the present one grows.
    fn begin_part(&mut self) -> io::Result<()> {
        if !self.is_part_full() {
            return Ok(());
        }
        debug_assert!(self.pending.is_empty(), "a line belongs to one part");
        let Some((parts, bytes)) = &mut self.parts else { return Ok(()) };
        self.out = Box::new(parts.next()?);
        // Set before the part's header is appended, which is counted with its bytes.
        *bytes = 0;
        // Each part can be read alone: its header makes the same policies, and `continues` says
        // how many lines came before.
        let header = Header { continues: self.lines, ..self.header.clone() };
        let has_room = self.append(&text(&header));
        debug_assert!(has_room, "nothing is pending");
        // A header that is due stays so: one that continues does not say that its policies are new.
        Ok(())
    }
}

/// A run that ends early leaves what it has logged.
impl Drop for Inner {
    fn drop(&mut self) {
        // There is no one left to tell of an error.
        let _ = self.drain();
    }
}

/// One policy's part of a log, for [`halfwink_policy::Host::logged`].
pub struct Stream {
    writer: Writer,
    /// Text that each line begins with.
    tags: String,
    now: Time,
    line: String,
    actions: u32,
    begun: bool,
    /// Lines of this policy that were lost since the last that was kept.
    lost: u64,
}

impl Stream {
    fn open<E: Serialize>(&mut self, now: Time, input: Input<&E>) {
        self.begun = true;
        self.now = now;
        self.actions = 0;
        self.line.clone_from(&self.tags);
        if self.lost > 0 {
            self.line += &format!("\"dropped\":{},", self.lost);
        }
        self.line += &format!("\"now_ps\":{},\"event\":{}", now.0, text(&input));
    }

    fn close(&mut self) {
        // Lines are built here and written whole under the lock, so that threads of one run cannot
        // mix their lines.
        if self.line.is_empty() {
            return;
        }
        self.line += if self.actions > 0 { "]}" } else { "}" };
        let is_kept = self.writer.line(self.now, &self.line);
        self.lost = if is_kept { 0 } else { self.lost + 1 };
        self.line.clear();
    }
}

impl<E: Serialize, A: Serialize> Log<E, A> for Stream {
    fn begin(&mut self, now: Time, input: Input<&E>) {
        self.close();
        self.open(now, input);
    }

    fn action(&mut self, now: Time, action: &A) {
        if !self.begun {
            self.open::<E>(now, Input::Start);
        }
        self.line += if self.actions == 0 { ",\"actions\":[" } else { "," };
        self.line += &text(action);
        self.actions += 1;
    }

    fn end(&mut self) {
        self.close();
    }
}

/// Returns the value as JSON. Events, actions and headers are plain data with names for keys: that
/// cannot fail.
pub(crate) fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("\"{error}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Family;
    use crate::read::{Reader, Record};

    /// A disk that is full until it has room.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(bool, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (has_room, taken) = &mut *self.0.lock().unwrap();
            if !*has_room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn policy_that_takes_over_before_a_part_begins_has_its_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let header = |technique| Header::new("server", Family::Steering, technique);
        let (disk, parts) = (Disk::default(), Some((Parts::new(&path, 1_000, 2), 0)));
        let writer = Writer::begin("log", Box::new(disk.clone()), parts, &header("one"));
        let line = |at: u64| format!("{{\"now_ps\":{at},\"event\":\"Start\"}}");
        let kept = (0..100_000).take_while(|&at| writer.line(Time(at), &line(at))).count() as u64;
        writer.header(&header("other"));
        disk.0.lock().unwrap().0 = true;
        assert_eq!(writer.flush(), None);
        assert!(writer.line(Time(kept), &line(kept)));
        writer.close(Time(kept), 0).unwrap();
        let before = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        for (log, names) in [(before + &after, vec!["one", "other"]), (after, vec!["other"; 2])] {
            let mut reader = Reader::new("log", log.as_bytes());
            let mut found = Vec::new();
            while let Some(record) = reader.next().unwrap() {
                if let Record::Header(header) = record {
                    found.push(header.technique);
                }
            }
            assert_eq!(found, names);
        }
    }
}
