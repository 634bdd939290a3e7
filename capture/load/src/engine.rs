// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends requests, closed-loop or open-loop, and marks them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Pending};
use crate::marker;
use crate::poll::Poll;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::summary::Summary;

/// Arrival process of requests.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Every connection sends the next request when it has the response to the last.
    Closed,
    /// Arrivals by the clock.
    Open(Schedule),
}

/// State of the whole load.
pub struct Engine {
    connections: Vec<Connection>,
    /// Connections without a request, the longest idle first.
    free: VecDeque<usize>,
    poll: Poll,
    arrivals: Arrivals,
    random: Random,
    start: Instant,
    next_id: u64,
    /// Responses before the recording starts.
    warmup: u64,
    /// Responses after which the recording stops.
    requests: u64,
    summary: Summary,
}

impl Engine {
    /// An engine over these connections.
    ///
    /// # Errors
    /// If the kernel refuses to watch them.
    pub fn new(
        connections: Vec<Connection>,
        arrivals: Arrivals,
        random: Random,
        warmup: u64,
        requests: u64,
    ) -> io::Result<Engine> {
        let poll = Poll::new()?;
        for (i, connection) in connections.iter().enumerate() {
            poll.add(connection.stream().as_raw_fd(), i)?;
        }
        Ok(Engine {
            free: (0..connections.len()).collect(),
            connections,
            poll,
            arrivals,
            random,
            start: Instant::now(),
            next_id: 0,
            warmup,
            requests,
            summary: Summary::default(),
        })
    }

    /// Runs the load to its end.
    ///
    /// # Errors
    /// If a connection breaks or a response is wrong.
    pub fn run(mut self) -> io::Result<Summary> {
        let mut ready = Vec::new();
        let mut done = 0;
        if self.warmup == 0 {
            marker::start();
        }
        while done < self.warmup + self.requests {
            self.send_due()?;
            let timeout = self.timeout();
            self.poll.wait(timeout, &mut ready)?;
            for &i in &ready {
                if !self.connections[i].receive()? {
                    continue;
                }
                self.complete(i)?;
                done += 1;
                if done == self.warmup {
                    self.summary = Summary::default();
                    marker::start();
                }
            }
        }
        marker::stop();
        Ok(self.summary)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Sends every request that is due and has a connection.
    fn send_due(&mut self) -> io::Result<()> {
        while let Some(&i) = self.free.front() {
            let now_ns = self.now_ns();
            let due_ns = match &mut self.arrivals {
                Arrivals::Closed => now_ns,
                Arrivals::Open(schedule) if schedule.peek() <= now_ns => schedule.take(),
                Arrivals::Open(_) => break,
            };
            self.free.pop_front();
            let pending = Pending { id: self.next_id, due_ns };
            self.next_id += 1;
            self.connections[i].prepare(pending, &mut self.random);
            marker::request_begins(pending.id, self.now_ns() - due_ns);
            self.connections[i].flush()?;
            if matches!(self.arrivals, Arrivals::Open(_)) {
                // The server is another machine as it were: it need not wait until we sleep.
                marker::yield_turn();
            }
        }
        Ok(())
    }

    /// Returns the time until the next request is due; none if a response must come first.
    fn timeout(&self) -> Option<Duration> {
        match &self.arrivals {
            Arrivals::Open(schedule) if !self.free.is_empty() => {
                Some(Duration::from_nanos(schedule.peek().saturating_sub(self.now_ns())))
            }
            _ => None,
        }
    }

    fn complete(&mut self, i: usize) -> io::Result<()> {
        let connection = &mut self.connections[i];
        if let Some(pending) = connection.pending.take() {
            marker::request_ends(pending.id);
            let latency_ns = self.start.elapsed().as_nanos() as u64 - pending.due_ns;
            self.summary.add(latency_ns);
        }
        if connection.renew()? {
            self.poll.add(connection.stream().as_raw_fd(), i)?;
        }
        self.free.push_back(i);
        Ok(())
    }
}
