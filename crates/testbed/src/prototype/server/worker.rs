//! A worker: takes a request up, does it, answers.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::sync::Mutex;

use halfwink_engine::Histogram;
use halfwink_units::Time;

use super::super::handlers::Workload;
use super::connection::{Connection, Said};
use super::request::{reason, Ask, Parsed, Request};
use super::{locked, Shared, SlowBy, LISTEN, STOP};
use crate::traffic::{clock_ns, monotonic_ns, no_timer_slack, sleep_until, thread_cpu_s};

/// Counters of a worker.
#[derive(Default)]
pub(super) struct Counts {
    pub service: Histogram,
    pub refused: u64,
    pub bytes: u64,
    pub connections: u64,
    pub cpu_s: f64,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared,
    counts: &'a Mutex<Counts>,
    content: Vec<u8>,
    out: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, counts: &'a Mutex<Counts>) -> Worker<'a> {
        no_timer_slack();
        Worker { shared, counts, content: Vec::new(), out: Vec::new() }
    }

    /// Runs until the pool ends.
    pub fn run(mut self) {
        while !self.shared.stop.load(Ordering::SeqCst) {
            match self.shared.epoll.wait() {
                // A signal came, or another worker heard the bell.
                None | Some(STOP) => {}
                Some(LISTEN) => {
                    let taken = self.shared.accept();
                    locked(self.counts).connections += taken;
                }
                Some(number) => self.attend(number),
            }
        }
        locked(self.counts).cpu_s = thread_cpu_s();
    }

    /// Serves a connection that has data; it is removed from the table meanwhile, so that no other
    /// worker reads it.
    fn attend(&mut self, number: u64) {
        let Some(mut connection) = locked(&self.shared.connections).remove(&number) else { return };
        if !self.serve(&mut connection) {
            return;
        }
        let raw = connection.raw();
        let mut connections = locked(&self.shared.connections);
        connections.insert(number, connection);
        if self.shared.epoll.again(raw, number).is_err() {
            connections.remove(&number);
        }
    }

    /// Answers what has come; whether the connection stays.
    fn serve(&mut self, connection: &mut Connection) -> bool {
        loop {
            match connection.listen() {
                Said::Gone => return false,
                Said::Heard(Parsed::Partial) => return true,
                Said::Heard(Parsed::Bad(status)) => {
                    locked(self.counts).refused += 1;
                    connection.refuse(status);
                    return false;
                }
                Said::Heard(Parsed::Request(request)) => {
                    connection.consume(request.bytes);
                    if !self.answer(connection, &request) || !request.keep {
                        return false;
                    }
                    // Without another one there is nothing to hear before the kernel says so.
                    if self.shared.stop.load(Ordering::SeqCst) || !connection.has_more() {
                        return true;
                    }
                }
            }
        }
    }

    /// Answers a request, and returns whether the client took the answer.
    fn answer(&mut self, connection: &Connection, request: &Request) -> bool {
        let start_ns = monotonic_ns();
        let mut more = String::new();
        let (status, kind) = match request.ask {
            Err(status) => (status, None),
            Ok(Ask::Health) => (204, None),
            Ok(Ask::Index) => (200, Some(self.say(|shared| shared.index_text.clone(), "text/csv"))),
            Ok(Ask::Info) => (200, Some(self.say(Shared::info, "application/json"))),
            Ok(Ask::Work(workload, file)) => match self.work(workload, file) {
                Ok(Some(bytes)) => {
                    more = format!("X-File-Bytes: {bytes}\r\n");
                    (200, Some(workload.content_type()))
                }
                Ok(None) => (404, None),
                Err(_) => (500, None),
            },
        };
        let body: &[u8] = if kind.is_some() { &self.out } else { b"" };
        if let Some(kind) = kind {
            more += &format!("Content-Type: {kind}\r\n");
        }
        match status {
            204 => {}
            405 => more += "Allow: GET, HEAD\r\nContent-Length: 0\r\n",
            _ => more += &format!("Content-Length: {}\r\n", body.len()),
        }
        if !request.keep {
            more += "Connection: close\r\n";
        }
        let name = &self.shared.options.name;
        let head =
            format!("HTTP/1.1 {status} {}\r\nX-Backend: {name}\r\n{more}\r\n", reason(status));
        let body = if request.head { b"" } else { body };
        let taken = connection.write(head.as_bytes(), body);
        let mut counts = locked(self.counts);
        counts.bytes += (head.len() + body.len()) as u64;
        match request.ask {
            Ok(Ask::Work(..)) if status == 200 => {
                counts.service.record(Time::ns(monotonic_ns() - start_ns));
            }
            _ if status >= 400 => counts.refused += 1,
            _ => {}
        }
        // So that a report on the way is as true as the last one.
        counts.cpu_s = thread_cpu_s();
        taken
    }

    fn say(&mut self, text: impl Fn(&Shared) -> String, kind: &'static str) -> &'static str {
        self.out.clear();
        self.out.extend_from_slice(text(self.shared).as_bytes());
        kind
    }

    /// Does a workload as often and as slowly as the pool is set; bytes of the file, if it is one.
    fn work(&mut self, workload: Workload, file: usize) -> io::Result<Option<usize>> {
        let options = &self.shared.options;
        let Some(path) = self.shared.index.path(file) else { return Ok(None) };
        let cpu_ns = || clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let start = cpu_ns();
        let mut times = |count: u32| -> io::Result<()> {
            for _ in 0..count {
                self.content.clear();
                File::open(&path)?.read_to_end(&mut self.content)?;
                workload.run(&self.content, &mut self.out);
                std::hint::black_box(&self.out);
            }
            Ok(())
        };
        times(options.repeat)?;
        let extra = options.slow - 1.0;
        if extra > 0.0 {
            let took = cpu_ns() - start;
            match options.slow_by {
                SlowBy::Wait => sleep_until(monotonic_ns() + (took as f64 * extra) as u64),
                SlowBy::Spin => {
                    times(options.repeat * extra.trunc() as u32)?;
                    let end = cpu_ns() + (took as f64 * extra.fract()) as u64;
                    while cpu_ns() < end {
                        std::hint::spin_loop();
                    }
                }
            }
        }
        Ok(Some(self.content.len()))
    }
}
