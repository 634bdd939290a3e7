//! Deadlines that move with every request and hardly ever come: moving one later is free.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A deadline that can be moved.
pub struct Watch {
    sleep: Pin<Box<Sleep>>,
    armed: Instant,
    due: Instant,
}

impl Watch {
    /// Comes after so long.
    #[must_use]
    pub fn new(after: Duration) -> Watch {
        let due = Instant::now() + after;
        Watch { sleep: Box::pin(tokio::time::sleep_until(due)), armed: due, due }
    }

    /// Comes after so long from now, instead.
    #[inline]
    pub fn set(&mut self, after: Duration) {
        self.due = Instant::now() + after;
        if self.due < self.armed {
            self.armed = self.due;
            self.sleep.as_mut().reset(self.due);
        }
    }

    /// Moves the deadline later by `by`, up to `most` from now.
    pub fn extend(&mut self, by: Duration, most: Duration) {
        self.due = (self.due + by).min(Instant::now() + most);
    }

    /// Returns ready once the deadline has passed.
    #[inline]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.due {
                return Poll::Ready(());
            }
            self.armed = self.due;
            self.sleep.as_mut().reset(self.due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moves_both_ways() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let begun = Instant::now();
            let mut watch = Watch::new(Duration::from_secs(9));
            watch.set(Duration::from_millis(3));
            watch.set(Duration::from_millis(12));
            std::future::poll_fn(|cx| watch.poll(cx)).await;
            let took = begun.elapsed();
            assert!(took >= Duration::from_millis(12) && took < Duration::from_secs(8), "{took:?}");
        });
    }
}
