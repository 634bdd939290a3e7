//! Plain TCP: a connection is a request.

use std::future::poll_fn;
use std::task::Poll;

use super::body::{Encoder, Framing};
use super::config::ms;
use super::exchange::{Lane, Unmade};
use super::pipe::{Broken, Pipe};
use super::shared::Outcome;
use super::stream::Conn;
use super::watch::Watch;

/// Serves a connection to its end.
pub async fn serve(lane: &Lane, mut client: Conn) {
    let config = lane.shared.config();
    lane.shared.count(Outcome::Received);
    let mut ticket = match lane.admit(&config).await {
        Ok(ticket) => ticket,
        Err(failure) => return lane.shared.count(failure.outcome),
    };
    let mut attempts = 0;
    let mut machine = loop {
        match lane.connect(ticket.side, &config).await {
            Ok(conn) => break conn,
            Err(Unmade::Short) => return lane.shared.count(Outcome::Overloaded),
            Err(unmade) => {
                attempts += 1;
                let again = attempts <= config.limits.retries;
                lane.shared.dispatch.failed(ticket.side, again);
                if !again {
                    return lane.shared.count(Outcome::Unreachable);
                }
                if unmade == Unmade::Lost {
                    ticket = match lane.again(ticket, &config).await {
                        Ok(ticket) => ticket,
                        Err(failure) => return lane.shared.count(failure.outcome),
                    };
                }
            }
        }
    };
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
    lane.shared.count(outcome);
    ticket.finish(outcome == Outcome::Answered);
}
