//! The buffer of an access log, and the thread that writes it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halfwink_live::program::config::plain;
use serde::Serialize;

use super::{AccessLog, Format};

/// Bytes of lines that wait to be written, at most.
const ROOM: usize = 4 << 20;
/// Lines are gathered for this time, so that a write carries many: up to this many bytes.
const GATHER: Duration = Duration::from_millis(20);
const ENOUGH: usize = 256 << 10;
/// Between two attempts to write to a file that fails.
const RETRY: Duration = Duration::from_millis(50);
/// Between two lines that say that the file fails: a FIFO with a slow reader does so often.
const BETWEEN: Duration = Duration::from_secs(10);
/// Time that the end of the log may take: a pipe without a reader must not hold the program.
const LAST: Duration = Duration::from_secs(2);

/// An access log that is being written.
#[derive(Debug)]
pub struct Access {
    state: Mutex<State>,
    /// Rung for the writer: lines, another file, or the end.
    work: Condvar,
    /// Rung by the writer when it has ended.
    over: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct State {
    log: AccessLog,
    pending: Vec<u8>,
    /// Another file, to which later lines go.
    next: Option<File>,
    /// Error of the last attempt to write.
    error: Option<String>,
    ending: bool,
    over: bool,
}

/// Counts of an access log's lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Lines that are in the file.
    pub written: u64,
    /// Lines dropped because the file could not be written, or not as fast.
    pub dropped: u64,
    /// Error of the last attempt to write; null if it went well.
    pub error: Option<String>,
}

impl AccessLog {
    /// Checks that its file can be written, without making it.
    ///
    /// # Errors
    /// The file, and what the system says.
    pub fn check(&self) -> Result<(), String> {
        if self.is_stdout() {
            return Ok(());
        }
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let found = match options().open(&self.file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // `begin` makes the file, so that only its folder has to be there.
                let folder = folder.unwrap_or(Path::new("."));
                File::open(folder).and_then(|f| f.metadata()).and_then(|found| {
                    let kind = io::ErrorKind::NotADirectory;
                    found.is_dir().then_some(()).ok_or_else(|| kind.into())
                })
            }
            // A FIFO without a reader.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(()),
            other => other.map(drop),
        };
        found.map_err(|e| format!("{}: {e}", self.file.display()))
    }

    fn is_stdout(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    fn open(&self) -> Result<File, String> {
        let opened = if self.is_stdout() {
            // A descriptor of its own: another log that takes over must not close the program's.
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            options().create(true).open(&self.file)
        };
        opened.map_err(|e| format!("access log {}: {e}", self.file.display()))
    }
}

/// Lines are appended, so that a file that logrotate truncates goes on at its start. No FIFO
/// blocks.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o640).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

impl Access {
    /// Opens the file, and starts the thread that writes it.
    ///
    /// # Errors
    /// The file, and what the system says.
    pub fn begin(log: &AccessLog) -> Result<Arc<Access>, String> {
        let file = log.open()?;
        let access = Arc::new(Access {
            state: Mutex::new(State {
                log: log.clone(),
                pending: Vec::new(),
                next: None,
                error: None,
                ending: false,
                over: false,
            }),
            work: Condvar::new(),
            over: Condvar::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let chunk = Vec::new();
        let writer = Writer { access: access.clone(), file, chunk, at: 0, said: None, told: false };
        let thread = std::thread::Builder::new().name("steer-access".to_owned());
        thread.spawn(move || writer.run()).map_err(|e| format!("thread: {e}"))?;
        Ok(access)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line, or drops it if there is no room. Never waits for the file.
    pub(super) fn push(&self, write: impl FnOnce(Format, &mut Vec<u8>)) {
        let mut line = Vec::with_capacity(512);
        // The line is made without the lock, so that threads wait for its copy alone.
        let format = self.lock().log.format;
        write(format, &mut line);
        let mut state = self.lock();
        let before = state.pending.len();
        if state.ending || before + line.len() > ROOM {
            drop(state);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.pending.extend_from_slice(&line);
        drop(state);
        // Only these two lines can end a wait of the writer; any other ring would be a call in
        // vain.
        if before == 0 || (before < ENOUGH && before + line.len() >= ENOUGH) {
            self.work.notify_one();
        }
    }

    /// Takes another file or format.
    ///
    /// # Errors
    /// The file cannot be opened; then nothing changes.
    pub fn change(&self, log: &AccessLog) -> Result<(), String> {
        if self.lock().log.file == log.file {
            self.lock().log.format = log.format;
            return Ok(());
        }
        self.switch(log)
    }

    /// Opens the file by its name again, which logrotate has given to another one.
    ///
    /// # Errors
    /// The file cannot be opened; then lines go to the old one.
    pub fn reopen(&self) -> Result<(), String> {
        let log = self.lock().log.clone();
        self.switch(&log)
    }

    fn switch(&self, log: &AccessLog) -> Result<(), String> {
        let file = log.open()?;
        let mut state = self.lock();
        state.log = log.clone();
        state.next = Some(file);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Returns the counts of its lines.
    pub fn told(&self) -> Told {
        Told {
            written: self.written.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            error: self.lock().error.clone(),
        }
    }

    /// Ends the log, once no more requests come: what waits is written.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ending = true;
        self.work.notify_one();
        let until = Instant::now() + LAST;
        while !state.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.over.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The thread that writes.
struct Writer {
    access: Arc<Access>,
    file: File,
    /// Lines that are being written, and how many bytes of them are in the file.
    chunk: Vec<u8>,
    at: usize,
    /// Time at which it was last said that the file fails.
    said: Option<Instant>,
    /// This failure was said.
    told: bool,
}

impl Writer {
    fn run(mut self) {
        loop {
            let (next, ending) = self.wait();
            self.write();
            if let Some(file) = next {
                // Lines that came before the change have gone to the old file, as far as it took
                // them.
                self.begin_file(file);
                self.write();
            }
            if ending {
                break;
            }
        }
        let lost = lines(&self.chunk[self.at..]);
        self.access.dropped.fetch_add(lost, Ordering::Relaxed);
        self.access.lock().over = true;
        self.access.over.notify_all();
    }

    /// Waits for work, and takes it: another file, and whether this is the end.
    fn wait(&mut self) -> (Option<File>, bool) {
        let access = self.access.clone();
        let woken = |state: &State| state.ending || state.next.is_some();
        let mut state = access.lock();
        let failing = state.error.is_some();
        // A file that fails is tried again after the pause, with new lines or without.
        if !failing {
            let idle = access.work.wait_while(state, |s| s.pending.is_empty() && !woken(s));
            state = idle.unwrap_or_else(PoisonError::into_inner);
        }
        let pause = if failing { RETRY } else { GATHER };
        let more = |s: &mut State| !woken(s) && (failing || s.pending.len() < ENOUGH);
        let gathered = access.work.wait_timeout_while(state, pause, more);
        state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        // A swap copies nothing. While a chunk is not written, lines stay in `pending`, which has
        // the bound.
        if self.at == self.chunk.len() {
            self.chunk.clear();
            self.at = 0;
            std::mem::swap(&mut self.chunk, &mut state.pending);
        } else if state.ending {
            let pending = std::mem::take(&mut state.pending);
            self.chunk.extend_from_slice(&pending);
        }
        (state.next.take(), state.ending)
    }

    /// Writes what there is. An error is told once, and what is left is tried again later.
    fn write(&mut self) {
        let access = self.access.clone();
        while self.at < self.chunk.len() {
            let wrote = match self.file.write(&self.chunk[self.at..]) {
                // A file that takes nothing without an error would keep this loop busy.
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                other => other,
            };
            match wrote {
                Ok(count) => {
                    let done = lines(&self.chunk[self.at..self.at + count]);
                    access.written.fetch_add(done, Ordering::Relaxed);
                    self.at += count;
                    self.tell(None);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.tell(Some(&e)),
            }
        }
    }

    /// Keeps the error for the report; says when the file begins to fail, and when it goes on.
    fn tell(&mut self, error: Option<&io::Error>) {
        let mut state = self.access.lock();
        let was = state.error.is_some();
        state.error = error.map(ToString::to_string);
        let file = state.log.file.display().to_string();
        drop(state);
        let dropped = self.access.dropped.load(Ordering::Relaxed);
        let said = match error {
            Some(error) if !was && self.said.is_none_or(|said| said.elapsed() > BETWEEN) => {
                (self.said, self.told) = (Some(Instant::now()), true);
                format!("access log {file}: {error}; requests are served on")
            }
            None if was && self.told => {
                self.told = false;
                format!("access log {file}: goes on; {dropped} lines dropped so far")
            }
            _ => return,
        };
        halfwink_live::say!("halfwink: {}", plain(&said));
    }

    /// Takes another file. The rest of a line whose start is in the old one is dropped.
    fn begin_file(&mut self, file: File) {
        self.file = file;
        let rest = &self.chunk[self.at..];
        let torn = self.at > 0 && !rest.is_empty() && self.chunk[self.at - 1] != b'\n';
        if torn {
            self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            self.access.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    fn log(file: PathBuf) -> AccessLog {
        AccessLog { file, format: Format::Combined }
    }

    fn push(access: &Access, text: &str) {
        access.push(|_, out| out.extend_from_slice(format!("{text}\n").as_bytes()));
    }

    fn until(access: &Access, reached: impl Fn(&Told) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !reached(&access.told()) {
            assert!(Instant::now() < end, "{:?}", access.told());
            std::thread::yield_now();
        }
    }

    #[test]
    fn lines_are_appended_in_order_and_the_last_ones_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.log");
        std::fs::write(&file, "old\n").unwrap();
        let access = Access::begin(&log(file.clone())).unwrap();
        (0..1000).for_each(|n| push(&access, &n.to_string()));
        access.end();
        let text = std::fs::read_to_string(&file).unwrap();
        let numbers: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(text, format!("old\n{}\n", numbers.join("\n")));
        assert_eq!(access.told(), Told { written: 1000, dropped: 0, error: None });
        push(&access, "late");
        assert_eq!(access.told().dropped, 1);
    }

    #[test]
    fn a_renamed_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let access = Access::begin(&log(file.clone())).unwrap();
        push(&access, "one");
        until(&access, |told| told.written == 1);
        std::fs::rename(&file, &old).unwrap();
        push(&access, "two");
        until(&access, |told| told.written == 2);
        access.reopen().unwrap();
        push(&access, "three");
        access.end();
        let read = |path| std::fs::read_to_string(path).unwrap();
        // A line that came while the file changed may be in either.
        assert_eq!(read(&old) + &read(&file), "one\ntwo\nthree\n");
        assert!(read(&old).starts_with("one\ntwo\n"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let access = Access::begin(&log(place.join("access.log"))).unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(&place, &moved).unwrap();
        assert!(access.reopen().unwrap_err().ends_with("No such file or directory (os error 2)"));
        push(&access, "one");
        access.end();
        assert_eq!(std::fs::read_to_string(moved.join("access.log")).unwrap(), "one\n");
    }

    #[test]
    fn a_full_file_drops_whole_lines_and_goes_on_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is a string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        // No reader yet: no file to open, and none that blocks.
        assert!(Access::begin(&log(fifo.clone())).is_err());
        let mut reader = options().read(true).open(&fifo).unwrap();
        let access = Access::begin(&log(fifo)).unwrap();
        let line = "x".repeat(4000);
        // More than the pipe and the buffer hold, while nobody reads.
        let mut pushed = 0;
        while access.told().dropped < 10 || access.told().error.is_none() {
            push(&access, &line);
            pushed += 1;
            assert!(pushed < 1_000_000);
        }
        let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while access.told().written + access.told().dropped < pushed {
            if let Ok(count) = reader.read(&mut piece) {
                text.extend_from_slice(&piece[..count]);
            }
        }
        push(&access, "last");
        access.end();
        while let Ok(count) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..count]);
        }
        let text = String::from_utf8(text).unwrap();
        let told = access.told();
        assert_eq!((told.written + told.dropped, told.error), (pushed + 1, None));
        assert_eq!(text.lines().count() as u64, told.written);
        assert!(text.lines().all(|found| found == line || found == "last"));
        assert!(text.ends_with("last\n"));
    }

    #[test]
    fn a_disk_without_room_holds_nothing_up() {
        let access = Access::begin(&log("/dev/full".into())).unwrap();
        push(&access, "one");
        until(&access, |told| told.error.is_some());
        access.end();
        let told = access.told();
        assert_eq!((told.written, told.dropped), (0, 1));
        assert_eq!(told.error.as_deref(), Some("No space left on device (os error 28)"));
    }

    #[test]
    fn a_check_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.log");
        assert_eq!(log(file.clone()).check(), Ok(()));
        assert!(!file.exists());
        assert!(log(folder.path().join("none/access.log")).check().is_err());
        assert!(log(folder.path().to_owned()).check().unwrap_err().contains("Is a directory"));
        assert_eq!(log("-".into()).check(), Ok(()));
    }
}
