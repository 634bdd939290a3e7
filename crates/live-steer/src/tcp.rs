//! Plain TCP: a connection is a request.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::access::Entry;
use super::body::{Encoder, Framing};
use super::config::ms;
use super::exchange::{Failure, Lane, Unmade};
use super::memory::Account;
use super::pace::{self, Debt, Pace};
use super::pipe::{Broken, Pipe};
use super::shared::Outcome;
use super::stream::Conn;
use super::watch::Watch;

/// Between two looks whether others wait for the machine that a connection has. A silent connection
/// must not keep this machine awake.
const LOOK: Duration = Duration::from_millis(200);

/// Serves a connection to its end.
pub async fn serve(lane: &Lane, client: Conn, address: &str, account: &Arc<Account>) {
    lane.shared.count(Outcome::Received);
    let mut entry = Entry::of_connection(lane.shared.access().as_ref(), address);
    let (status, outcome, bytes) = match passed(lane, client, account, &mut entry).await {
        Ok((outcome, bytes)) => (200, outcome, bytes),
        Err(Failure { status, outcome }) => (status, outcome, 0),
    };
    lane.shared.count(outcome);
    entry.status(status);
    entry.end(outcome.name(), bytes);
}

/// Passes bytes on, once a machine has taken the connection. Returns the outcome, and the bytes
/// that the machine sent.
async fn passed(
    lane: &Lane,
    mut client: Conn,
    account: &Arc<Account>,
    entry: &mut Entry,
) -> Result<(Outcome, u64), Failure> {
    let config = lane.shared.config();
    let mut ticket = lane.admit(&config).await?;
    let mut attempts = 0;
    let mut machine = loop {
        match lane.connect(ticket.side, &config).await {
            Ok(conn) => break conn,
            Err(Unmade::Short) => return Err(Failure::new(503, Outcome::Overloaded)),
            Err(unmade) => {
                attempts += 1;
                let again = attempts <= config.limits.retries;
                lane.shared.dispatch.failed(ticket.side, again);
                if !again {
                    return Err(Failure::new(503, Outcome::Unreachable));
                }
                if unmade == Unmade::Lost {
                    ticket = lane.again(ticket, &config).await?;
                }
            }
        }
    };
    entry.served_by(config.name(ticket.side));
    let patience = ms(config.limits.idle_timeout_ms);
    let mut watch = Watch::new(patience);
    let mut pipes = [(); 2].map(|()| Pipe::new(Framing::Close, Encoder::Plain, u64::MAX));
    let mut closed = [false; 2];
    let (mut moved, mut heard) = (0, 0);
    let mut pace = Pace::new(account);
    let mut slack = None;
    let mut look = Watch::new(LOOK);
    let mut others_wait = lane.shared.dispatch.has_waiting(ticket.side);
    // Nothing tells a question from half of one: the machine works on what it was sent last until
    // it says something.
    let mut has_answered = true;
    let outcome = poll_fn(|cx| loop {
        let before = closed;
        for (n, pipe) in pipes.iter_mut().enumerate() {
            if closed[n] {
                continue;
            }
            let (from, to) =
                if n == 0 { (&mut client, &mut machine) } else { (&mut machine, &mut client) };
            match pipe.poll(cx, from, to, None) {
                Poll::Ready(Ok(())) => closed[n] = to.poll_close(cx).is_ready(),
                Poll::Ready(Err(Broken::Read | Broken::Write)) if n == 0 => {
                    return Poll::Ready(Outcome::ClientGone);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Outcome::Truncated),
                Poll::Pending => {}
            }
        }
        // Once the machine has said all, nothing that the client says matters.
        if closed[1] {
            return Poll::Ready(Outcome::Answered);
        }
        let now = client.moved() + machine.moved();
        if now != moved {
            moved = now;
            watch.set(patience);
            has_answered = client.read == heard;
            heard = client.read;
        }
        let is_behind = !client.output.is_empty() || !machine.input.is_empty();
        let waits = match is_behind {
            true => Some(pace::slack(&config.limits)),
            false => (has_answered && !closed[0]).then_some(patience),
        };
        if waits != slack {
            pace.rest();
            slack = waits;
        }
        while look.poll(cx).is_ready() {
            look.set(LOOK);
            others_wait = lane.shared.dispatch.has_waiting(ticket.side);
        }
        if let Some(slack) = waits {
            let holds = others_wait.then_some(ticket.side);
            let debt = Debt { slack, holds, moved: client.moved() };
            if pace.poll(cx, &lane.shared, &config.limits, debt).is_ready() {
                return Poll::Ready(Outcome::Slow);
            }
        }
        if closed == before {
            return lane.wait(cx, ticket.side, &mut watch, patience).map(|()| Outcome::Slow);
        }
    })
    .await;
    ticket.finish(outcome == Outcome::Answered);
    Ok((outcome, pipes[1].total()))
}
