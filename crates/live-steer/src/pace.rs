//! Whether a client keeps up: with a rate floor for what waits for it, and with its machine while
//! others wait for that machine.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use halfwink_policy::steering::Side;

use super::config::ms;
use super::limits::Limits;
use super::memory::{Account, Cut, LOOK};
use super::shared::Shared;
use super::watch::Watch;

/// Watches a client during a request.
pub struct Pace {
    account: Arc<Account>,
    /// Armed by the first debt; most requests never have one.
    floor: Option<Watch>,
    look: Option<Watch>,
    owes: bool,
    held_since: Option<Instant>,
    /// Bytes that the client had moved at the last look.
    moved: u64,
    /// Bytes that it has moved since its time was last counted.
    taken: u64,
}

/// Debt of a client: bytes that it has to take or send.
#[derive(Clone, Copy, Debug)]
pub struct Debt {
    /// Time for which it may move nothing.
    pub slack: Duration,
    /// The machine that waits for it alone.
    pub holds: Option<Side>,
    /// Bytes that it has moved on this connection or stream.
    pub moved: u64,
}

impl Pace {
    /// Creates a pace without debt.
    #[must_use]
    pub fn new(account: &Arc<Account>) -> Pace {
        let account = account.clone();
        let (floor, look, held_since) = (None, None, None);
        Pace { account, floor, look, owes: false, held_since, moved: 0, taken: 0 }
    }

    /// Returns the account of the client.
    #[must_use]
    pub const fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Forgets a debt that is paid.
    #[inline]
    pub fn rest(&mut self) {
        self.owes = false;
        self.held_since = None;
        self.taken = 0;
    }

    /// Returns ready once the client has to be cut off, which is counted.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        limits: &Limits,
        debt: Debt,
    ) -> Poll<Cut> {
        let taken = if self.owes { debt.moved - self.moved } else { 0 };
        self.moved = debt.moved;
        self.taken += taken;
        let floor = self.floor.get_or_insert_with(|| Watch::new(debt.slack));
        if !std::mem::replace(&mut self.owes, true) {
            floor.set(debt.slack);
        } else if taken > 0 {
            let worth = taken as f64 / limits.client_bytes_per_s.max(1) as f64;
            floor.extend(Duration::from_secs_f64(worth), debt.slack);
        }
        let late = floor.poll(cx).is_ready();
        let cut = match debt.holds {
            _ if late => Cut::Slow,
            Some(side) if !self.may_hold(cx, shared, side, limits) => Cut::Holding,
            Some(_) => return Poll::Pending,
            None => {
                self.held_since = None;
                return Poll::Pending;
            }
        };
        self.account.memory().cut(cut);
        Poll::Ready(cut)
    }

    /// Returns whether the client may hold a machine further. The look registers the next wake-up.
    fn may_hold(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        side: Side,
        limits: &Limits,
    ) -> bool {
        let look = self.look.get_or_insert_with(|| Watch::new(LOOK));
        let now = Instant::now();
        let first = self.held_since.is_none();
        if first {
            look.set(LOOK);
        }
        let mut due = first;
        while look.poll(cx).is_ready() {
            due = true;
            look.set(LOOK);
        }
        if !due {
            return true;
        }
        let held = now - self.held_since.replace(now).unwrap_or(now);
        // A machine that nobody else waits for costs nothing.
        let held = if shared.dispatch.has_waiting(side) { held } else { Duration::ZERO };
        let goes_on = self.account.spend(held, std::mem::take(&mut self.taken), limits);
        goes_on || !shared.dispatch.has_waiting(side)
    }
}

/// Returns the time for which a client may take nothing of an answer.
#[must_use]
pub const fn slack(limits: &Limits) -> Duration {
    ms(limits.response_timeout_ms)
}
