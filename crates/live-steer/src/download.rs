//! An answer on its way to a client of HTTP/2.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::Response;
use tokio::sync::Notify;

use super::access::Entry;
use super::body::Encoder;
use super::config::{ms, Config};
use super::dispatch::Ticket;
use super::exchange::{Answer, Lane, Source};
use super::memory::{Cut, Hold, Piece};
use super::pace::{self, Debt, Pace};
use super::pipe::{Pipe, READ};
use super::shared::Outcome;
use super::stream::Conn;
use super::upload::{lock, Respond, Up};
use super::watch::Watch;

/// An answer on its way.
pub struct Live {
    lane: Arc<Lane>,
    config: Arc<Config>,
    /// The machine and its connection, until it has said all.
    machine: Option<(Conn, Ticket)>,
    keep_alive: bool,
    generation: u64,
    source: Up,
    pipe: Pipe,
    watch: Watch,
    pace: Pace,
    cut: Arc<Notify>,
    /// Pieces that wait for room in the client's window, and their bytes.
    waiting: VecDeque<Bytes>,
    waits: usize,
    /// Bytes that found room.
    given: u64,
}

impl Live {
    /// Begins an answer whose head has been read.
    pub fn new(
        (lane, config): (&Arc<Lane>, &Arc<Config>),
        answer: Answer,
        source: Up,
        (watch, pace): (Watch, Pace),
        cut: Arc<Notify>,
    ) -> Live {
        let Answer { conn, ticket, head, generation } = answer;
        Live {
            lane: lane.clone(),
            config: config.clone(),
            machine: Some((conn, ticket)),
            keep_alive: head.keep_alive,
            generation,
            source,
            // HTTP/2 frames the body itself: chunks of the machine are taken off, and none are put
            // on.
            pipe: Pipe::new(head.framing, Encoder::Plain, u64::MAX),
            watch,
            pace,
            cut,
            waiting: VecDeque::new(),
            waits: 0,
            given: 0,
        }
    }

    /// Sends the answer: what became of it.
    pub async fn send(
        &mut self,
        response: Response<()>,
        respond: &Respond,
        entry: &mut Entry,
    ) -> Outcome {
        let bodiless = self.pipe.is_done();
        let sent = lock(respond).send_response(response, bodiless);
        let Ok(mut to) = sent else { return Outcome::ClientGone };
        if bodiless {
            return Outcome::Answered;
        }
        let sent = poll_fn(|cx| {
            let sent = self.poll_send(cx, &mut to);
            if self.machine.is_none() {
                entry.machine_done();
            }
            sent
        });
        match sent.await {
            Ok(()) => Outcome::Answered,
            Err(Outcome::ClientGone) => Outcome::ClientGone,
            Err(outcome) => {
                // The head has been sent, so that only a reset tells the client that the body is
                // not whole.
                to.send_reset(Reason::INTERNAL_ERROR);
                outcome
            }
        }
    }

    /// Moves the body on, up to its end. Machine and client do not wait for each other, as far as
    /// there is memory for what lies between.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut SendStream<Bytes>,
    ) -> Poll<Result<(), Outcome>> {
        if to.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Outcome::ClientGone));
        }
        if let (Some((conn, _)), false) = (&mut self.machine, self.source.done) {
            // A machine that has answered may not want the rest.
            let _ = self.source.poll_upload(cx, conn);
        }
        let mut blocked;
        loop {
            blocked = self.take(cx)?;
            let before = self.waits;
            match self.give(cx, to) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(outcome)) => return Poll::Ready(Err(outcome)),
                // Pieces have left, so that there may be memory again, for which no waker is
                // registered.
                Poll::Pending if blocked && self.waits < before => {}
                Poll::Pending => break,
            }
        }
        let limits = &self.config.limits;
        let machine = self.machine.as_ref();
        let asks = !self.source.done && machine.is_some_and(|(conn, _)| conn.output.is_empty());
        let holds = machine.filter(|_| blocked || asks).map(|(_, ticket)| ticket.side);
        if blocked || asks || self.waits > 0 {
            let moved = self.given + self.source.total;
            let debt = Debt { slack: pace::slack(limits), holds, moved };
            if let Poll::Ready(cut) = self.pace.poll(cx, &self.lane.shared, limits, debt) {
                if cut == Cut::Holding {
                    self.cut.notify_one();
                }
                return Poll::Ready(Err(Outcome::Slow));
            }
        } else {
            self.pace.rest();
        }
        let Some((_, ticket)) = &self.machine else { return Poll::Pending };
        // The proxy does not read now: it cannot tell whether the machine is late.
        if blocked {
            return Poll::Pending;
        }
        let (side, patience) = (ticket.side, ms(limits.response_timeout_ms));
        let late = self.lane.wait(cx, side, &mut self.watch, patience);
        late.map(|()| Err(Outcome::GatewayTimeout))
    }

    /// Takes from the machine what there is, and lets it go at the end: whether memory is short.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<bool, Outcome> {
        while self.machine.is_some() {
            let mut hold = Hold::new(self.pace.account());
            let most = self.config.limits.answer_bytes;
            // Before the read: what has been read cannot be refused any more.
            if self.waits + READ > most || !hold.ask(READ) {
                return Ok(true);
            }
            let mut out = Vec::new();
            match self.step(cx, &mut out) {
                Poll::Pending => break,
                Poll::Ready(done) => done?,
            }
            hold.keep(out.len());
            if !out.is_empty() {
                self.waits += out.len();
                self.waiting.push_back(Bytes::from_owner(Piece::new(out, hold)));
            }
            if self.pipe.is_done() {
                self.let_go(true);
            }
        }
        Ok(false)
    }

    /// Gives what waits to h2, as far as the client's window has room; ready at the end of all.
    fn give(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut SendStream<Bytes>,
    ) -> Poll<Result<(), Outcome>> {
        let gone = Outcome::ClientGone;
        loop {
            // The last piece ends the stream, which saves an empty frame.
            let last = self.pipe.is_done() && self.waiting.len() <= 1;
            let Some(piece) = self.waiting.pop_front() else {
                if !last {
                    return Poll::Pending;
                }
                let sent = to.send_data(Bytes::new(), true);
                return Poll::Ready(sent.map_err(|_| gone));
            };
            // Any room is enough: h2 keeps what does not fit into the window.
            to.reserve_capacity(1);
            if to.capacity() == 0 {
                match to.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => self.waiting.push_front(piece),
                    Poll::Ready(_) => return Poll::Ready(Err(gone)),
                    Poll::Pending => {
                        self.waiting.push_front(piece);
                        return Poll::Pending;
                    }
                }
                continue;
            }
            self.waits -= piece.len();
            self.given += piece.len() as u64;
            if to.send_data(piece, last).is_err() {
                return Poll::Ready(Err(gone));
            }
            if last {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Frees the machine for others.
    fn let_go(&mut self, well: bool) {
        let Some((conn, ticket)) = self.machine.take() else { return };
        let side = ticket.side;
        ticket.finish(well);
        // Behind a part of a body the machine would take the next request for the rest of it.
        if well && self.keep_alive && self.source.done {
            self.lane.keep(side, conn, self.generation, &self.config);
        }
    }

    /// Counts what has become of it; returns the bytes that found room in the client's window.
    pub fn end(mut self, outcome: Outcome) -> u64 {
        self.let_go(outcome == Outcome::Answered);
        self.lane.shared.count(outcome);
        self.given
    }

    /// Some of the body, or its end.
    fn step(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Outcome>> {
        let patience = ms(self.config.limits.response_timeout_ms);
        let Some((conn, _)) = &mut self.machine else { return Poll::Ready(Ok(())) };
        loop {
            if self.pipe.step(&mut conn.input, out).is_err() {
                return Poll::Ready(Err(Outcome::Truncated));
            }
            if self.pipe.is_done() || !out.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 => self.watch.set(patience),
                // The end of the connection ends a body without length, and cuts off any other one.
                Poll::Ready(_) if self.pipe.close(out).is_ok() => return Poll::Ready(Ok(())),
                Poll::Ready(_) => return Poll::Ready(Err(Outcome::Truncated)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
