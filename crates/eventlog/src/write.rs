//! Writing logs of runs that can wait for the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
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
    out: BufWriter<Box<dyn Write + Send>>,
    /// Header of the policies that run at present.
    header: Header,
    /// Parts of the log, if it is kept in parts, and the bytes of the present one.
    parts: Option<(Parts, u64)>,
    lines: u64,
    last: Time,
    /// Error that stopped the writing.
    failed: Option<io::Error>,
}

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
        match parts.next() {
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
            // 64 KiB are some hundred lines for each system call.
            out: BufWriter::with_capacity(1 << 16, out),
            header: header.clone(),
            parts,
            lines: 0,
            last: Time::ZERO,
            failed: None,
        })));
        writer.header(header);
        writer
    }

    /// Other policies take over.
    pub fn header(&self, header: &Header) {
        let mut inner = self.lock();
        inner.header = header.clone();
        inner.write(&text(header));
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
        }
    }

    /// Ends the log well; never before its last line, if the run is counted from a later time on.
    ///
    /// # Errors
    /// The first thing that went wrong with the file. A log that fails never ends its run.
    pub fn end(&self, end: Time, dropped: u64) -> Result<Footer, LogError> {
        let mut inner = self.lock();
        let footer = Footer { end_ps: end.max(inner.last).0, lines: inner.lines, dropped };
        inner.write(&text(&footer));
        inner.flush();
        match &inner.failed {
            None => Ok(footer),
            Some(error) => {
                let message = format!("{error}; the log is not complete");
                Err(LogError { file: inner.file.clone(), line: 0, message })
            }
        }
    }

    pub(crate) fn line(&self, now: Time, line: &str) {
        let mut inner = self.lock();
        inner.make_room();
        debug_assert!(!line.contains('\n'), "a line of the log is one line of text");
        inner.lines += 1;
        inner.last = inner.last.max(now);
        inner.write(line);
    }

    pub(crate) fn flush(&self) {
        self.lock().flush();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked leaves at worst a cut line at the end, which readers accept; the
        // other threads' lines are still worth keeping.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, line: &str) {
        if let Some((_, bytes)) = &mut self.parts {
            *bytes += line.len() as u64 + 1;
        }
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    /// Begins the next part if the present one is as long as it may be.
    fn make_room(&mut self) {
        if self.parts.as_ref().is_none_or(|(parts, bytes)| *bytes < parts.bytes()) {
            return;
        }
        self.flush();
        let Some((parts, bytes)) = &mut self.parts else { return };
        // Set before the part's header is written, which is counted with its bytes.
        *bytes = 0;
        match parts.next() {
            Ok(out) => self.out = BufWriter::with_capacity(1 << 16, Box::new(out)),
            Err(error) => {
                // The run goes on without its log: the first error is kept and reported at the
                // end, since a policy's host has no way to return it.
                self.failed.get_or_insert(error);
            }
        }
        // Each part can be read alone: its header makes the same policies, and `continues` says
        // how many lines came before.
        let header = Header { continues: self.lines, ..self.header.clone() };
        self.write(&text(&header));
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
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
}

impl Stream {
    fn open<E: Serialize>(&mut self, now: Time, input: Input<&E>) {
        self.begun = true;
        self.now = now;
        self.actions = 0;
        self.line.clone_from(&self.tags);
        self.line += &format!("\"now_ps\":{},\"event\":{}", now.0, text(&input));
    }

    fn close(&mut self) {
        // Lines are built here and written whole under the lock, so that threads of one run cannot
        // mix their lines.
        if self.line.is_empty() {
            return;
        }
        self.line += if self.actions > 0 { "]}" } else { "}" };
        self.writer.line(self.now, &self.line);
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
