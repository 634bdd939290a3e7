//! A load of HTTP requests: sent when they are due, whatever became of those before.
//!
//! In an open loop each request has a time at which it is due, and its latency counts from there: a
//! server that stalls is charged for all that were due meanwhile (no coordinated omission). In a
//! closed loop so many clients ask again as soon as they are answered.

mod client;
mod pool;
pub mod record;
mod timer;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halfwink_engine::{stream, Stream};
use rand::RngExt;

use self::client::Target;
use self::pool::{Job, Pool};
pub use self::record::{Found, Outcome, Record};
use self::timer::Timer;
use super::dataset::read_index;
use super::handlers::Workload;
use super::Error;
use crate::traffic::running::Running;
use crate::traffic::schedule::Schedule;
use crate::traffic::{monotonic_ns, no_timer_slack, thread_cpu_s};

/// Time from the start until the first request can be due.
const LEAD_NS: u64 = 5_000_000;
/// Requests that are sent before answers are looked at.
const BATCH: u64 = 16;
/// Interval of checks for a request to stop.
const NAP: Duration = Duration::from_millis(50);

/// Content of the requests.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A workload on files picked evenly, of so many; of as many as the server has, if it is not
    /// said.
    Workload(Workload, Option<usize>),
    /// One path, of any server.
    Path(String),
}

/// Times at which requests are sent.
#[derive(Clone, Debug)]
pub enum Pace {
    /// Follows a schedule of rates.
    Schedule(Schedule),
    /// At these times, in nanoseconds from the start, ascending.
    Times(Vec<u64>),
    /// Runs this number of clients, each of which sends one request after the other, for this
    /// number of seconds.
    Closed(usize, f64),
}

/// All that a load needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the server, `http://HOST:PORT` or `unix:PATH`.
    pub url: String,
    /// Content of the requests.
    pub what: What,
    /// Times at which they are sent.
    pub pace: Pace,
    /// Ends after so many requests.
    pub requests: Option<u64>,
    /// Connections at once, at most; requests that find none free wait, in order. With HTTP/2:
    /// requests under way at once.
    pub connections: usize,
    /// Uses HTTP/2 without negotiation.
    pub http2: bool,
    /// A request that takes longer, in seconds, is given up.
    pub timeout_s: f64,
    /// Requests due in the first seconds are sent but not counted.
    pub warm_up_s: f64,
    /// Header of answers that names who answered.
    pub backend_header: String,
    /// Seed of the files that are picked.
    pub seed: u64,
    /// Every request is recorded.
    pub keep: bool,
    /// Before a request is due, the generator waits awake for so long, and sleeps before that. The
    /// longer, the more exact: sleeping ends tens of microseconds late.
    pub spin_ns: u64,
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::input(what));
        if !(1..=65_536).contains(&self.connections) {
            return wrong(format!("{} connections: expected 1 to 65536", self.connections));
        }
        if let Pace::Closed(clients, seconds) = self.pace {
            if !(1..=65_536).contains(&clients) || !(0.0..=1e6).contains(&seconds) {
                return wrong(format!(
                    "{clients} clients for {seconds} s: expected 1 to 65536 for up to 1e6 s"
                ));
            }
        }
        if !(0.001..=3600.0).contains(&self.timeout_s) {
            return wrong(format!("timeout {} s: expected 0.001 to 3600", self.timeout_s));
        }
        if matches!(&self.what, What::Workload(_, Some(0))) {
            return wrong("0 files: expected 1 or more".into());
        }
        Ok(())
    }
}

/// Begins a load in a thread of its own.
#[must_use]
pub fn begin(options: Options) -> Running<Outcome, Error> {
    Running::begin(move |stop| run(options, stop))
}

/// Sends until the end of the schedule, the count, or a wish to stop.
///
/// # Errors
/// The options cannot be, or the server cannot be reached or has no such files.
pub fn run(options: Options, stop: &AtomicBool) -> Result<Outcome, Error> {
    options.check()?;
    no_timer_slack();
    let cpu_before = thread_cpu_s();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::os("a runtime", e))?;
    let mut outcome = tokio::task::LocalSet::new().block_on(&runtime, work(options, stop))?;
    outcome.found.cpu_s = thread_cpu_s() - cpu_before;
    Ok(outcome)
}

async fn work(options: Options, stop: &AtomicBool) -> Result<Outcome, Error> {
    let mut target = Target::new(&options)?;
    let (files, sizes) = match &options.what {
        What::Path(_) => (1, Vec::new()),
        What::Workload(_, files) => {
            let sizes = sizes(&target, options.timeout_s, *files).await?;
            (files.unwrap_or(sizes.len()), sizes)
        }
    };
    target.sizes = sizes;
    // Clients of a closed loop begin at once.
    let lead_ns = if matches!(options.pace, Pace::Closed(..)) { 0 } else { LEAD_NS };
    let start_ns = monotonic_ns() + lead_ns;
    let warm_ns = (options.warm_up_s.max(0.0) * 1e9) as u64;
    let (limit, spin_ns) = (options.requests.unwrap_or(u64::MAX), options.spin_ns);
    let files = Files { random: RefCell::new(stream(options.seed, "files")), files };
    let mut pace = options.pace;
    let closed_end = match pace {
        Pace::Closed(_, seconds) => Some(start_ns + (seconds * 1e9) as u64),
        _ => None,
    };
    let tally = record::Tally::new(start_ns, warm_ns, options.keep);
    let pool = Rc::new(Pool::new(target, options.connections, options.timeout_s, tally));
    let length_ns = match &mut pace {
        Pace::Schedule(schedule) => {
            let length_ns = schedule.length_ns();
            let whole = send(&pool, (start_ns, spin_ns), schedule, limit, &files, stop).await?;
            whole.then_some(length_ns)
        }
        Pace::Times(times) => {
            send(&pool, (start_ns, spin_ns), times.iter().copied(), limit, &files, stop).await?;
            None
        }
        Pace::Closed(clients, _) => {
            pool.close(files, closed_end.unwrap_or(start_ns), limit);
            for _ in 0..*clients {
                pool.begin_client();
            }
            None
        }
    };
    let waits_until = closed_end.unwrap_or_else(monotonic_ns) + (options.timeout_s * 1e9) as u64;
    while pool.is_busy() {
        if stop.load(Ordering::Relaxed) || monotonic_ns() > waits_until {
            pool.give_up();
        }
        // The last answer ends the wait.
        let _ = tokio::time::timeout(NAP, pool.rest()).await;
    }
    Ok(pool.outcome(length_ns, stop.load(Ordering::Relaxed)))
}

/// Files that are picked evenly.
struct Files {
    random: RefCell<Stream>,
    files: usize,
}

impl Files {
    fn pick(&self) -> usize {
        self.random.borrow_mut().random_range(0..self.files)
    }
}

/// Hands requests over when they are due, so many at most; whether that was all.
async fn send(
    pool: &Rc<Pool>,
    (start_ns, spin_ns): (u64, u64),
    due: impl Iterator<Item = u64>,
    limit: u64,
    files: &Files,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    let mut timer = Timer::new().map_err(|e| Error::os("timerfd", e))?;
    let mut sent = 0;
    for due in due {
        if sent == limit {
            return Ok(false);
        }
        let due_ns = start_ns + due;
        loop {
            let now = monotonic_ns();
            if now >= due_ns {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if now + spin_ns >= due_ns {
                // Answers are heard meanwhile.
                tokio::task::yield_now().await;
                continue;
            }
            let until = (due_ns - spin_ns).min(now + NAP.as_nanos() as u64);
            timer.sleep_until(until).await.map_err(|e| Error::os("timerfd", e))?;
        }
        pool.offer(Job { due_ns, file: files.pick() });
        sent += 1;
        if sent.is_multiple_of(BATCH) {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            // The schedule is behind: answers must be heard all the same.
            tokio::task::yield_now().await;
        }
    }
    Ok(true)
}

/// Bytes of the server's files, from its index.
async fn sizes(target: &Target, timeout_s: f64, files: Option<usize>) -> Result<Vec<u64>, Error> {
    let asked = tokio::time::timeout(Duration::from_secs_f64(timeout_s), target.get("/index"));
    let url = &target.url;
    let (status, body) = match asked.await {
        Ok(answer) => answer.map_err(|e| Error::os(url.clone(), e))?,
        Err(_) => return Err(Error::input(format!("{url}: no answer within {timeout_s} s"))),
    };
    if status != 200 {
        return match files {
            // Then nothing is known of the sizes but what the answers say.
            Some(_) => Ok(Vec::new()),
            None => Err(Error::input(format!(
                "{url}/index: status {status}: expected a server of `halfwink live serve`, or \
                 the number of files"
            ))),
        };
    }
    let text = String::from_utf8_lossy(&body);
    let read = read_index(&text).map_err(|e| Error::input(format!("{url}/index: {e}")))?;
    let sizes: Vec<u64> = read.into_iter().map(|(_, bytes)| bytes).collect();
    match files {
        _ if sizes.is_empty() => Err(Error::input(format!("{url}: it has no files"))),
        Some(files) if files > sizes.len() => {
            let there = sizes.len();
            Err(Error::input(format!("{files} files: {url} has {there}")))
        }
        _ => Ok(sizes),
    }
}
