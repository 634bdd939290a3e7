//! One request and its answer: a machine is found for it, it is sent, sent again where that is
//! safe, and the head of the answer is read.

use std::future::{poll_fn, Future};
use std::net::IpAddr;
use std::pin::{pin, Pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use halfwink_policy::steering::Side;
use tokio::sync::futures::Notified;

use super::access::Entry;
use super::budget;
use super::config::{ms, Config};
use super::dispatch::{Place, Ticket};
use super::head::{self, Given};
use super::limits::Limits;
use super::machine::Refusal;
use super::memory::Account;
use super::pace::{Debt, Pace};
use super::pipe::{Broken, READ};
use super::shared::{Outcome, Shared};
use super::stream::{Conn, Stream};
use super::watch::Watch;

/// State of one thread.
pub struct Lane {
    /// State that all threads share.
    pub shared: Arc<Shared>,
    pool: Mutex<Box<[Vec<Idle>]>>,
}

struct Idle {
    conn: Conn,
    generation: u64,
    since: Instant,
}

/// Source of the rest of a request's body.
pub trait Source {
    /// Moves on what there is.
    fn poll_upload(&mut self, cx: &mut Context<'_>, to: &mut Conn) -> Poll<Result<(), Broken>>;
    /// All of it is with the machine's connection.
    fn is_done(&self) -> bool;
    /// A part of an interim answer's head, which is the client's at once.
    fn interim(&mut self, given: Given<'_>);
    /// The end of that head.
    fn interim_end(&mut self);
    /// Moves interim answers on to the client, if it reads.
    fn poll_interim(&mut self, cx: &mut Context<'_>);
}

/// A request as a machine gets it.
pub struct Sending<'a> {
    /// Head, and as much of the body as has been read.
    pub bytes: &'a [u8],
    /// Whether it may be sent twice.
    pub idempotent: bool,
    /// The answer has no body.
    pub is_head: bool,
}

/// An answer whose head has been read.
pub struct Answer {
    /// The connection that it comes by.
    pub conn: Conn,
    /// Ticket of the machine that serves it.
    pub ticket: Ticket,
    /// Head of the answer.
    pub head: head::Response,
    /// Which description it was made under.
    pub generation: u64,
}

/// Reason why there is no answer, with a status for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Status for the client.
    pub status: u16,
    /// Outcome that is counted.
    pub outcome: Outcome,
}

impl Failure {
    pub(super) const fn new(status: u16, outcome: Outcome) -> Failure {
        Failure { status, outcome }
    }

    /// Converts an error in a client's body.
    fn of_upload(broken: &Broken) -> Failure {
        match broken {
            Broken::Body => Failure::new(400, Outcome::Refused),
            Broken::TooLong => Failure::new(413, Outcome::Refused),
            Broken::Read => Failure::new(0, Outcome::ClientGone),
            Broken::Write => Failure::new(502, Outcome::BadGateway),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::new(
            503,
            match refusal {
                Refusal::Full => Outcome::Overloaded,
                Refusal::Nowhere => Outcome::Unreachable,
            },
        )
    }
}

/// Reason why there is no connection to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmade {
    /// This attempt has failed.
    Failed,
    /// Neither now nor before: it is lost.
    Lost,
    /// This process may have no more descriptors, which says nothing of the machine.
    Short,
}

/// Between two attempts at a descriptor.
const WAIT: Duration = Duration::from_millis(5);

/// Reason why an attempt ended without an answer.
enum Miss {
    /// The connection closed before an answer; with `unsent`, also before any byte was sent.
    Closed { unsent: bool },
    /// The client gets this failure.
    Over(Failure),
}

impl Lane {
    /// Creates a lane without connections.
    pub fn new(shared: Arc<Shared>) -> Arc<Lane> {
        let pool = shared.config().machines().map(|_| Vec::new()).collect();
        Arc::new(Lane { shared, pool: Mutex::new(pool) })
    }

    /// Waits for a worker of a machine.
    pub async fn admit(&self, config: &Config) -> Result<Ticket, Failure> {
        self.seat(self.shared.dispatch.arrive(), config).await
    }

    /// The machine of a request is lost: it goes where the policy says now.
    pub async fn again(&self, ticket: Ticket, config: &Config) -> Result<Ticket, Failure> {
        self.seat(ticket.resteer(), config).await
    }

    async fn seat(&self, place: Place, config: &Config) -> Result<Ticket, Failure> {
        let ticket = match place {
            Place::Now(ticket) => ticket,
            Place::Refused(why) => return Err(why.into()),
            Place::Later(waiting) => {
                let patience = ms(config.limits.queue_timeout_ms);
                match tokio::time::timeout(patience, waiting.verdict()).await {
                    Ok(verdict) => verdict?,
                    Err(_) => return Err(Failure::new(503, Outcome::Overloaded)),
                }
            }
        };
        // Here, and not while it waits: a machine that sleeps, or whose workers are all busy, has
        // nothing to load for yet.
        if let Some(announcer) = &config.announcers[ticket.side.index()] {
            announcer.tell();
        }
        Ok(ticket)
    }

    /// Work on a request, up to the moment at which a drain gives it up.
    ///
    /// # Errors
    /// As the work's; that it was given up.
    pub async fn unless_given_up<T>(
        &self,
        mut stop: Pin<&mut Notified<'_>>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        let (mut listens, mut end) = (false, None);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            let Some(until) = self.shared.until() else {
                // So that this is looked at again when a drain begins. Once is enough: a task has
                // one waker, and this takes a lock.
                if !listens {
                    listens = true;
                    let _ = stop.as_mut().poll(cx);
                }
                return Poll::Pending;
            };
            let end = end.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until.into())));
            end.as_mut().poll(cx).map(|()| Err(Failure::new(503, Outcome::Aborted)))
        })
        .await
    }

    /// An idle connection that is still good.
    fn idle(&self, side: Side, config: &Config, generation: u64) -> Option<Conn> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let most = ms(config.limits.idle_timeout_ms);
        // The last one first: if that is too old, so are all below, which then are closed here.
        while let Some(idle) = pool[side.index()].pop() {
            let fresh = idle.generation == generation && idle.since.elapsed() < most;
            // A machine that has closed it, or says what was not asked for, would fail the request.
            if fresh && idle.conn.io.is_quiet() {
                return Some(idle.conn);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub fn keep(&self, side: Side, conn: Conn, generation: u64, config: &Config) {
        // Bytes behind the answer would be read as the head of the next one.
        if !conn.input.is_empty() || !conn.output.is_empty() || conn.ended {
            return;
        }
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool[side.index()].len() < config.limits.pool {
            pool[side.index()].push(Idle { conn, generation, since: Instant::now() });
        }
    }

    /// Closes all idle connections, whose descriptors others need.
    pub fn let_idle_go(&self) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.iter_mut().for_each(Vec::clear);
    }

    /// A new connection to a machine. Where this process has no descriptor for it, it waits for one
    /// as long as for a connection.
    pub async fn connect(&self, side: Side, config: &Config) -> Result<Conn, Unmade> {
        let address = &config.machine(side).address;
        let patience = ms(config.limits.connect_timeout_ms);
        let until = Instant::now() + patience;
        loop {
            let begun = Instant::now();
            let made = tokio::time::timeout(patience, Stream::connect(address)).await;
            if let Ok(Ok(stream)) = made {
                self.shared.dispatch.connected(side, true);
                return Ok(Conn::new(stream));
            }
            if let Ok(Err(error)) = &made {
                if budget::is_ours(error) {
                    self.shared.short(error);
                    if begun >= until {
                        return Err(Unmade::Short);
                    }
                    self.let_idle_go();
                    tokio::time::sleep(WAIT).await;
                    continue;
                }
            }
            // One that went to sleep meanwhile cannot answer, and is asked again.
            let asleep = self.shared.dispatch.on_since(side).is_none_or(|since| since > begun);
            if made.is_err() && asleep && !self.shared.dispatch.is_lost(side) {
                continue;
            }
            let was_lost = self.shared.dispatch.is_lost(side);
            let lost = self.shared.dispatch.connected(side, false);
            if lost && !was_lost {
                self.shared.say(side, "lost: connections to it fail");
            }
            return Err(if lost { Unmade::Lost } else { Unmade::Failed });
        }
    }

    /// Sends a request to where the policy says, and reads the head of the answer, whose fields go
    /// to `give`.
    ///
    /// # Errors
    /// What the client gets.
    pub async fn exchange(
        &self,
        config: &Config,
        sending: &Sending<'_>,
        source: &mut impl Source,
        (watch, pace): (&mut Watch, &mut Pace),
        entry: &mut Entry,
        mut give: impl FnMut(Given<'_>),
    ) -> Result<Answer, Failure> {
        let shared = &self.shared;
        let mut ticket = self.admit(config).await?;
        let mut attempts = 0;
        loop {
            let generation = shared.generation();
            let side = ticket.side;
            entry.served_by(config.name(side));
            let idle = self.idle(side, config, generation);
            let reused = idle.is_some();
            let mut conn = match idle {
                Some(conn) => conn,
                None => match self.connect(side, config).await {
                    Ok(conn) => conn,
                    Err(Unmade::Short) => {
                        return Err(Failure::new(503, Outcome::Overloaded));
                    }
                    Err(unmade) => {
                        attempts += 1;
                        let again = attempts <= config.limits.retries;
                        shared.dispatch.failed(side, again);
                        if !again {
                            return Err(Failure::new(503, Outcome::Unreachable));
                        }
                        if unmade == Unmade::Lost {
                            ticket = self.again(ticket, config).await?;
                        }
                        continue;
                    }
                },
            };
            // Asked before the attempt: a body that was not whole by then is used up as it is sent.
            let whole = source.is_done();
            let patience = (&mut *watch, &mut *pace);
            match self.attempt(config, side, &mut conn, sending, source, patience, &mut give).await
            {
                Ok(head) => return Ok(Answer { conn, ticket, head, generation }),
                Err(Miss::Over(failure)) => {
                    shared.dispatch.failed(side, false);
                    return Err(failure);
                }
                Err(Miss::Closed { unsent }) => {
                    attempts += 1;
                    // A connection that had been idle may have been closed for that alone; any
                    // number of such are tried, since each is taken from the pool.
                    let allowed = reused || attempts <= config.limits.retries;
                    let again = whole && allowed && (sending.idempotent || (unsent && reused));
                    shared.dispatch.failed(side, again);
                    if !again {
                        return Err(Failure::new(502, Outcome::BadGateway));
                    }
                    if shared.dispatch.is_lost(side) {
                        ticket = self.again(ticket, config).await?;
                    }
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn attempt(
        &self,
        config: &Config,
        side: Side,
        conn: &mut Conn,
        sending: &Sending<'_>,
        source: &mut impl Source,
        (watch, pace): (&mut Watch, &mut Pace),
        give: &mut impl FnMut(Given<'_>),
    ) -> Result<head::Response, Miss> {
        conn.output.end().extend_from_slice(sending.bytes);
        let patience = ms(config.limits.response_timeout_ms);
        watch.set(patience);
        let mut broken = None;
        let mut unsent = true;
        let mut interim = 0;
        poll_fn(|cx| loop {
            let mut moved = false;
            source.poll_interim(cx);
            if broken.is_none() {
                let before = conn.output.len();
                match push(cx, conn, source) {
                    Poll::Ready(Err(why)) if !matches!(why, Broken::Write) => {
                        return Poll::Ready(Err(Miss::Over(Failure::of_upload(&why))));
                    }
                    // It may have answered before it closed.
                    Poll::Ready(Err(why)) => broken = Some(why),
                    Poll::Ready(Ok(())) | Poll::Pending => moved |= conn.output.len() != before,
                }
                // As long as no byte has left, a second attempt cannot do the work twice.
                unsent &= conn.output.len() == sending.bytes.len();
            }
            match conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    moved = true;
                    match answer(conn, sending.is_head, source, &mut interim, give) {
                        Ok(None) => {}
                        Ok(Some(head)) => return Poll::Ready(Ok(head)),
                        Err(failure) => return Poll::Ready(Err(Miss::Over(failure))),
                    }
                }
                // Closed, or reset: with nothing of an answer, or in the middle of one.
                Poll::Ready(_) if conn.input.is_empty() => {
                    return Poll::Ready(Err(Miss::Closed { unsent }));
                }
                Poll::Ready(_) => return Poll::Ready(Err(Miss::Over(BAD))),
                Poll::Pending if !moved => {
                    // The machine has all that the client has sent, and waits for the rest.
                    if source.is_done() || broken.is_some() || !conn.output.is_empty() {
                        pace.rest();
                    } else {
                        let slack = ms(config.limits.body_timeout_ms);
                        let debt = Debt { slack, holds: Some(side), moved: conn.written };
                        if pace.poll(cx, &self.shared, &config.limits, debt).is_ready() {
                            return Poll::Ready(Err(Miss::Over(SLOW)));
                        }
                    }
                    return self.wait(cx, side, watch, patience).map(|()| {
                        let outcome = Outcome::GatewayTimeout;
                        Err(Miss::Over(Failure::new(504, outcome)))
                    });
                }
                Poll::Pending => {}
            }
            if moved {
                watch.set(patience);
            }
        })
        .await
    }

    /// Waits until the patience with a machine is over, not counting time in which it was not
    /// awake.
    pub fn wait(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        watch: &mut Watch,
        patience: Duration,
    ) -> Poll<()> {
        while watch.poll(cx).is_ready() {
            if self.shared.dispatch.is_lost(side) {
                return Poll::Ready(());
            }
            match self.shared.dispatch.on_since(side).map(|since| since.elapsed()) {
                None => watch.set(patience),
                Some(on) if on < patience => watch.set(patience - on),
                Some(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

const BAD: Failure = Failure::new(502, Outcome::BadGateway);
const SLOW: Failure = Failure::new(408, Outcome::Slow);

fn push(
    cx: &mut Context<'_>,
    conn: &mut Conn,
    source: &mut impl Source,
) -> Poll<Result<(), Broken>> {
    if !conn.output.is_empty() {
        if let Poll::Ready(Err(_)) = conn.poll_drain(cx) {
            return Poll::Ready(Err(Broken::Write));
        }
    }
    if source.is_done() {
        return Poll::Ready(Ok(()));
    }
    source.poll_upload(cx, conn)
}

/// Interim answers to one request, at most.
const MOST_INTERIM: u32 = 64;

/// A head, if it is all there; interim ones go to where the request came from.
fn answer(
    conn: &mut Conn,
    is_head: bool,
    source: &mut impl Source,
    interim: &mut u32,
    give: &mut impl FnMut(Given<'_>),
) -> Result<Option<head::Response>, Failure> {
    loop {
        if conn.input.is_empty() {
            return Ok(None);
        }
        let mut early = false;
        let each = |given: Given<'_>| {
            if let Given::Status(code, _) = given {
                early = code < 200 && code != 101;
            }
            match early {
                true if *interim < MOST_INTERIM => source.interim(given),
                true => {}
                false => give(given),
            }
        };
        let Ok(read) = head::response(conn.input.get(), is_head, each) else {
            return Err(BAD);
        };
        let Some(read) = read else { return Ok(None) };
        conn.input.take(read.taken);
        match read.status {
            // Nobody asked for another protocol.
            101 => return Err(BAD),
            100..200 => {
                if *interim == MOST_INTERIM {
                    return Err(BAD);
                }
                *interim += 1;
                source.interim_end();
            }
            _ => return Ok(Some(read)),
        }
    }
}

/// A connection of a client, counted while it lasts.
pub struct Guest {
    shared: Arc<Shared>,
    /// Account of the client.
    pub account: Arc<Account>,
}

impl Guest {
    /// Counts one more; none if there are too many, in all or of this client.
    pub fn welcome(shared: &Arc<Shared>, limits: &Limits, client: IpAddr) -> Option<Guest> {
        let account = shared.memory.account(client);
        let before = shared.connections.fetch_add(1, Ordering::AcqRel);
        let own = account.connections.fetch_add(1, Ordering::AcqRel);
        // Made before the check: where there are too many, its drop takes both counts back.
        let guest = Guest { shared: shared.clone(), account };
        (before < limits.connections && own < limits.client_connections).then_some(guest)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.account.connections.fetch_sub(1, Ordering::AcqRel);
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
