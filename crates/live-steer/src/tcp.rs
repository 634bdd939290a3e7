//! Plain TCP: a connection is a request.

use std::future::poll_fn;
use std::task::Poll;

use super::access::Entry;
use super::body::{Encoder, Framing};
use super::config::ms;
use super::exchange::{Failure, Lane, Unmade};
use super::pipe::{Broken, Pipe};
use super::shared::Outcome;
use super::stream::Conn;
use super::watch::Watch;

/// Serves a connection to its end.
pub async fn serve(lane: &Lane, client: Conn, address: &str) {
    lane.shared.count(Outcome::Received);
    let mut entry = Entry::of_connection(lane.shared.access().as_ref(), address);
    let (status, outcome, bytes) = match passed(lane, client, &mut entry).await {
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
    let mut moved = 0;
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
        }
        if closed == before {
            return lane.wait(cx, ticket.side, &mut watch, patience).map(|()| Outcome::Slow);
        }
    })
    .await;
    ticket.finish(outcome == Outcome::Answered);
    Ok((outcome, pipes[1].total()))
}
