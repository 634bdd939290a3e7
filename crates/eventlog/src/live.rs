//! Logs of live programs, whose hot path waits for nothing: it leaves lines in a queue that is
//! bounded, and a thread of its own writes them. When the queue is full a line is dropped whole,
//! counted, and the next one that is kept says so. So it is with lines that come while the file
//! cannot be written; the thread tries again until it can.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_policy::{Input, Line, Log};
use halfwink_units::Time;
use serde::Serialize;

use crate::format::{is_zero, Footer, Header, LogError};
use crate::parts::Parts;
use crate::write::{text, Writer};

/// Interval between checks of an empty queue. The policy's thread does not wake the writer, which
/// would cost the hot path a system call. A program that is killed loses the lines of at most this
/// time.
const LOOK: Duration = Duration::from_millis(20);

/// Between two messages that the file fails: a FIFO with a slow reader does so often.
const BETWEEN: Duration = Duration::from_secs(60);

/// Time that a slow reader of a FIFO has for the last lines.
const LAST: Duration = Duration::from_secs(2);

/// Takes messages on the state of a log's file, from the log's thread.
pub type Tell = fn(&str);

/// State of the log that the tap and the writing thread share.
#[derive(Default)]
struct Counts {
    /// Lines that the queue had no room for.
    dropped: AtomicU64,
    /// Lines that the file did not take.
    lost: AtomicU64,
    last_ps: AtomicU64,
    ending: AtomicBool,
    /// Error of the last attempt to write; none if it went well.
    error: Mutex<Option<LogError>>,
}

/// The writing side of a live log.
pub struct Live {
    counts: Arc<Counts>,
    thread: JoinHandle<Result<Footer, LogError>>,
}

/// The policy's side: for [`halfwink_policy::Host::logged`].
pub struct Tap<E, A> {
    queue: SyncSender<Message<E, A>>,
    counts: Arc<Counts>,
    open: Option<Line<E, A>>,
    /// Goes with the next line that is kept.
    header: Option<Box<Header>>,
    /// Lines dropped since the last that was kept.
    dropping: u64,
    begun: bool,
}

/// A line, with the header that stands before it if its policy has just taken over. They are one
/// message so that a full queue never parts them: a line under another policy's header would lie.
struct Message<E, A> {
    header: Option<Box<Header>>,
    line: Line<E, A>,
}

impl Live {
    /// Begins a log of one policy, with room for so many lines that are not written yet. It is kept
    /// in parts ([`Parts::live`]), since a program may run for ever. `tell` hears when the file
    /// begins to fail, and when it goes on.
    ///
    /// # Errors
    /// If the file cannot be made, or the thread cannot be started.
    pub fn create<E, A>(
        path: &Path,
        header: &Header,
        room: usize,
        tell: Tell,
    ) -> Result<(Live, Tap<E, A>), LogError>
    where
        E: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        Live::in_parts(Parts::live(path), header, room, tell)
    }

    /// Creates a log that is kept in parts.
    ///
    /// # Errors
    /// As [`Live::create`].
    pub fn in_parts<E, A>(
        parts: Parts,
        header: &Header,
        room: usize,
        tell: Tell,
    ) -> Result<(Live, Tap<E, A>), LogError>
    where
        E: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let file = parts.path().display().to_string();
        let writer = Writer::in_parts(parts, header)?;
        Live::start(writer, room, tell).map_err(|message| LogError { file, line: 0, message })
    }

    /// Creates a log that is written to `out`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn to<E, A>(
        out: Box<dyn Write + Send>,
        header: &Header,
        room: usize,
    ) -> Result<(Live, Tap<E, A>), String>
    where
        E: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        Live::start(Writer::to("log", out, header), room, |_| {})
    }

    fn start<E, A>(writer: Writer, room: usize, tell: Tell) -> Result<(Live, Tap<E, A>), String>
    where
        E: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        // Bounded, so that a disk that stalls costs lines and not memory.
        let (queue, lines) = sync_channel(room);
        let counts = Arc::new(Counts::default());
        let seen = counts.clone();
        let thread = std::thread::Builder::new()
            .name("event-log".to_owned())
            .spawn(move || Pen::new(writer, seen, tell).write(&lines))
            .map_err(|error| format!("thread of the log: {error}"))?;
        let tap = Tap {
            queue,
            counts: counts.clone(),
            open: None,
            header: None,
            dropping: 0,
            begun: false,
        };
        Ok((Live { counts, thread }, tap))
    }

    /// Lines dropped so far: the queue was full, or the file could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let Counts { dropped, lost, .. } = &*self.counts;
        dropped.load(Ordering::Relaxed) + lost.load(Ordering::Relaxed)
    }

    /// Error of the last attempt to write; none if it went well.
    #[must_use]
    pub fn error(&self) -> Option<LogError> {
        self.counts.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the log; queued lines are written first. The footer counts the lines that it lacks.
    ///
    /// # Errors
    /// The file cannot be written to its end.
    pub fn end(self) -> Result<Footer, LogError> {
        // Release pairs with the writer's Acquire: a writer that sees the end also sees all lines
        // that were queued before it.
        self.counts.ending.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| {
            let message = "the thread of the log has died".to_owned();
            Err(LogError { file: "log".to_owned(), line: 0, message })
        })
    }
}

/// The thread that writes.
struct Pen {
    writer: Writer,
    counts: Arc<Counts>,
    /// Lines that the file did not take since the last that it took.
    lost: u64,
    tell: Tell,
    /// Time at which it was last told that the file fails.
    told: Option<Instant>,
    /// This failure was told, so that its end will be.
    is_told: bool,
}

impl Pen {
    fn new(writer: Writer, counts: Arc<Counts>, tell: Tell) -> Pen {
        Pen { writer, counts, lost: 0, tell, told: None, is_told: false }
    }

    fn write<E: Serialize, A: Serialize>(
        mut self,
        lines: &Receiver<Message<E, A>>,
    ) -> Result<Footer, LogError> {
        loop {
            // Looked at before the queue: what came before the end is written.
            let ending = self.counts.ending.load(Ordering::Acquire);
            let gone = loop {
                match lines.try_recv() {
                    Ok(Message { header, line }) => {
                        header.iter().for_each(|header| self.writer.header(header));
                        self.line(&line);
                    }
                    // Without a tap no further line can come: the log ends as if it had been told
                    // to.
                    Err(error) => break error == TryRecvError::Disconnected,
                }
            };
            if ending || gone {
                let end = Instant::now() + LAST;
                while self.writer.waits_for_reader() && Instant::now() < end {
                    std::thread::sleep(LOOK);
                }
                let end = Time(self.counts.last_ps.load(Ordering::Relaxed));
                return self.writer.close(end, self.counts.dropped.load(Ordering::Relaxed));
            }
            // Flushed whenever the queue is empty, so that a reader of the growing file lags by one
            // interval at most.
            let error = self.writer.flush();
            self.note(error);
            std::thread::park_timeout(LOOK);
        }
    }

    fn line<E: Serialize, A: Serialize>(&mut self, line: &Line<E, A>) {
        let mut written = Written::of(line);
        written.dropped += self.lost;
        let dropped = written.dropped;
        if self.writer.line(line.now, &text(&written)) {
            self.lost = 0;
        } else {
            self.lost = dropped + 1;
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps the state of the file for [`Live::error`], and tells of a change.
    fn note(&mut self, now: Option<LogError>) {
        let mut error = self.counts.error.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *error, now.clone());
        drop(error);
        match (before, now) {
            (None, Some(error)) if self.told.is_none_or(|at| at.elapsed() > BETWEEN) => {
                (self.told, self.is_told) = (Some(Instant::now()), true);
                (self.tell)(&format!(
                    "event log {error}; lines are dropped until it can be written"
                ));
            }
            (Some(LogError { file, .. }), None) if self.is_told => {
                self.is_told = false;
                let dropped = self.counts.lost.load(Ordering::Relaxed);
                (self.tell)(&format!("event log {file}: goes on; {dropped} lines dropped so far"));
            }
            _ => {}
        }
    }
}

/// A line as it stands in the file.
#[derive(Serialize)]
struct Written<'a, E, A> {
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
    now_ps: u64,
    event: &'a Input<E>,
    #[serde(skip_serializing_if = "<[A]>::is_empty")]
    actions: &'a [A],
}

impl<E, A> Written<'_, E, A> {
    fn of(line: &Line<E, A>) -> Written<'_, E, A> {
        let Line { now, input, actions, dropped } = line;
        Written { dropped: *dropped, now_ps: now.0, event: input, actions }
    }
}

impl<E, A> Tap<E, A> {
    /// Returns a tap of the same log for a policy that takes over from here on. Its header is
    /// written before its first line; like all calls here, it does not block.
    #[must_use]
    pub fn again(&self, header: Header) -> Tap<E, A> {
        Tap {
            queue: self.queue.clone(),
            counts: self.counts.clone(),
            open: None,
            header: Some(Box::new(header)),
            dropping: 0,
            begun: false,
        }
    }
}

/// Never inlined: where no log is requested (`None` instead of a tap), the hot path should hold no
/// more of it than a test.
impl<E: Clone, A: Clone> Log<E, A> for Tap<E, A> {
    #[inline(never)]
    fn begin(&mut self, now: Time, input: Input<&E>) {
        // A world that takes only some of the actions never ends the line: it is complete when the
        // next one begins.
        Log::<E, A>::end(self);
        self.begun = true;
        // Counted even if the line is dropped later: the footer's end is when the program ran
        // last, not when the queue had room last.
        self.counts.last_ps.store(now.0, Ordering::Relaxed);
        let (input, dropped) = (input.cloned(), self.dropping);
        self.open = Some(Line { now, input, actions: Vec::new(), dropped });
    }

    #[inline(never)]
    fn action(&mut self, now: Time, action: &A) {
        // A policy may act before its first event; its log then begins with a line for the start.
        if !self.begun {
            self.begin(now, Input::Start);
        }
        if let Some(line) = &mut self.open {
            line.actions.push(action.clone());
        }
    }

    #[inline(never)]
    fn end(&mut self) {
        let Some(line) = self.open.take() else { return };
        match self.queue.try_send(Message { header: self.header.take(), line }) {
            Ok(()) => self.dropping = 0,
            Err(TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) => {
                // The header comes back with the line that found no room, and goes with the next
                // one that does.
                self.header = unsent.header;
                self.dropping += 1;
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
