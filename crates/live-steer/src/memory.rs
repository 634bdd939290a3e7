//! Memory that waits for clients: bodies of requests before a machine serves them, and answers that
//! clients have not taken yet. It has one budget in all and one for each client, so that no client
//! exhausts it. A client is an IPv4 address, or the /64 network of an IPv6 address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::config::ms;
use super::limits::Limits;

/// A client that holds nothing yet may hold this much even if the budget is exhausted: others that
/// take nothing delay it, but do not stop it.
const ALWAYS: usize = 64 << 10;
/// Number of idle clients whose accounts are kept.
const IDLE: usize = 1024;
/// Memory that has to be freed before the allocator is asked to return it.
const WORTH: usize = 8 << 20;
/// Number of looks at which memory is returned once much was freed: what is given back to the
/// budget is freed a moment later, as the buffers of its connections are.
const LOOKS: usize = 3;
/// Rate in bytes/s at which a client earns back the time for which it held a machine.
pub const KEEPING_UP: u64 = 1 << 20;
/// Between two looks whether others wait for a machine that a client holds. A client that has less
/// time left holds none.
pub const LOOK: Duration = Duration::from_millis(20);
/// A client earns back one part in so many of the time that passes.
const IDLE_SHARE: u32 = 100;

/// The budget of all clients.
#[derive(Debug, Default)]
pub struct Memory {
    used: AtomicUsize,
    peak: AtomicUsize,
    /// The largest use since memory was last returned to the system.
    high: AtomicUsize,
    /// Refused requests at the last look but one, and at the last: what h2 had received of them is
    /// freed, too.
    seen: [AtomicU64; 2],
    /// Looks at which freed memory is still to be returned.
    looks: AtomicUsize,
    most: AtomicUsize,
    of_client: AtomicUsize,
    of_answer: AtomicUsize,
    refused: AtomicU64,
    slow: AtomicU64,
    holding: AtomicU64,
    floods: AtomicU64,
    accounts: Mutex<HashMap<IpAddr, Arc<Account>>>,
}

/// Memory that waits for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Waiting {
    /// Bytes that wait for clients now.
    pub bytes: usize,
    /// Largest number of bytes that waited at once.
    pub peak_bytes: usize,
    /// Budget of all clients, in bytes.
    pub limit_bytes: usize,
    /// Requests refused because the budget, or the client's part of it, was exhausted.
    pub refused: u64,
    /// Clients cut off because they were below the rate floor.
    pub cut_slow: u64,
    /// Clients cut off because they held a machine that others waited for.
    pub cut_holding: u64,
    /// Connections of HTTP/2 cut off for frames that carry neither requests nor data.
    pub cut_flood: u64,
}

/// Reason for which a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The client is below the rate floor.
    Slow,
    /// The client holds a machine that others wait for.
    Holding,
    /// The client floods a connection of HTTP/2 with frames.
    Flood,
}

impl Memory {
    /// Takes the limits of a description.
    pub fn limit(&self, limits: &Limits) {
        self.most.store(limits.memory_bytes, Ordering::Relaxed);
        self.of_client.store(limits.client_memory_bytes, Ordering::Relaxed);
        self.of_answer.store(limits.answer_bytes, Ordering::Relaxed);
    }

    /// Returns the account of a client.
    pub fn account(self: &Arc<Memory>, client: IpAddr) -> Arc<Account> {
        let key = match client.to_canonical() {
            // A client has a network of 64 bits: with an account for each address it could have any
            // number.
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            v4 => v4,
        };
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Only accounts that are not in use may go: a client whose account went would begin with a
        // full budget beside its old one.
        if accounts.len() >= IDLE && !accounts.contains_key(&key) {
            accounts.retain(|_, account| Arc::strong_count(account) > 1);
        }
        let new = || Arc::new(Account::new(self.clone()));
        accounts.entry(key).or_insert_with(new).clone()
    }

    /// Returns what waits now.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            bytes: self.used.load(Ordering::Relaxed),
            peak_bytes: self.peak.load(Ordering::Relaxed),
            limit_bytes: self.most.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            cut_slow: self.slow.load(Ordering::Relaxed),
            cut_holding: self.holding.load(Ordering::Relaxed),
            cut_flood: self.floods.load(Ordering::Relaxed),
        }
    }

    /// Counts a request that was refused for want of memory.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that was cut off.
    pub fn cut(&self, why: Cut) {
        let count = match why {
            Cut::Slow => &self.slow,
            Cut::Holding => &self.holding,
            Cut::Flood => &self.floods,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that so many bytes are used now.
    fn grow_to(&self, used: usize) {
        self.peak.fetch_max(used, Ordering::Relaxed);
        self.high.fetch_max(used, Ordering::Relaxed);
    }

    /// Returns freed memory to the system, if it is much. The allocator keeps it otherwise: pieces
    /// that are still in use lie between.
    pub fn trim(&self) {
        let (used, high) = (self.used.load(Ordering::Relaxed), self.high.load(Ordering::Relaxed));
        let refused = self.refused.load(Ordering::Relaxed);
        let last = self.seen[1].swap(refused, Ordering::Relaxed);
        let before = self.seen[0].swap(last, Ordering::Relaxed);
        // As much was freed as is still held, or more: `malloc_trim` walks the heap under locks.
        if high.saturating_sub(used) >= WORTH.max(used) || refused != before {
            self.high.store(used, Ordering::Relaxed);
            self.looks.store(LOOKS, Ordering::Relaxed);
        }
        let left = self.looks.load(Ordering::Relaxed);
        if left == 0 {
            return;
        }
        self.looks.store(left - 1, Ordering::Relaxed);
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes a number, and locks what it walks.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// The account of a client.
#[derive(Debug)]
pub struct Account {
    memory: Arc<Memory>,
    /// Number of its connections.
    pub connections: AtomicUsize,
    used: AtomicUsize,
    credit: Mutex<Credit>,
}

/// Time for which a client may still hold machines that others wait for.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// Time that has been spent and not earned back.
    spent: Duration,
    since: Instant,
}

impl Account {
    fn new(memory: Arc<Memory>) -> Account {
        let credit = Mutex::new(Credit { spent: Duration::ZERO, since: Instant::now() });
        Account { memory, connections: AtomicUsize::new(0), used: AtomicUsize::new(0), credit }
    }

    /// Returns the budget of all clients.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Spends time and earns some back by bytes taken. Returns whether the client may go on.
    pub fn spend(&self, held: Duration, taken: u64, limits: &Limits) -> bool {
        let most = ms(limits.hold_ms);
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let idle = now.duration_since(credit.since) / IDLE_SHARE;
        let earned = idle + Duration::from_secs_f64(taken as f64 / KEEPING_UP as f64);
        credit.since = now;
        // The bound keeps the way back short: what lies beyond it would have to be earned as well.
        credit.spent = (credit.spent + held).saturating_sub(earned).min(most);
        credit.spent + LOOK <= most
    }
}

/// Memory that is held for a client. Dropping it gives it back.
#[derive(Debug)]
pub struct Hold {
    account: Arc<Account>,
    bytes: usize,
}

impl Hold {
    /// Creates a hold of no bytes.
    #[must_use]
    pub fn new(account: &Arc<Account>) -> Hold {
        Hold { account: account.clone(), bytes: 0 }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes. Returns false, and changes nothing, if the budget of the client
    /// or of all has no room.
    pub fn ask(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.keep(bytes);
            return true;
        };
        let memory = &*self.account.memory;
        // It adds first and compares then: two threads that compared first could both take the last
        // bytes.
        let own = self.account.used.fetch_add(more, Ordering::Relaxed) + more;
        let all = memory.used.fetch_add(more, Ordering::Relaxed) + more;
        let fits = own <= memory.of_client.load(Ordering::Relaxed)
            && all <= memory.most.load(Ordering::Relaxed);
        if !fits && own > ALWAYS {
            self.account.used.fetch_sub(more, Ordering::Relaxed);
            memory.used.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        memory.grow_to(all);
        self.bytes = bytes;
        true
    }

    /// Asks as [`Hold::ask`] does, for a part of an answer, which has a limit of its own.
    pub fn ask_for_answer(&mut self, bytes: usize) -> bool {
        bytes <= self.account.memory.of_answer.load(Ordering::Relaxed) && self.ask(bytes)
    }

    /// Sets the number of bytes, whether or not there is room: they are there already.
    pub fn keep(&mut self, bytes: usize) {
        let memory = &*self.account.memory;
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            self.account.used.fetch_add(more, Ordering::Relaxed);
            let all = memory.used.fetch_add(more, Ordering::Relaxed) + more;
            memory.grow_to(all);
        } else if bytes < self.bytes {
            self.account.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            memory.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// Bytes with the memory that is held for them. They are freed with the last reference to them.
pub struct Piece {
    bytes: Vec<u8>,
    /// Given back on drop.
    _hold: Hold,
}

impl Piece {
    /// Joins bytes with the memory held for them.
    #[must_use]
    pub const fn new(bytes: Vec<u8>, hold: Hold) -> Piece {
        Piece { bytes, _hold: hold }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(most: usize, of_client: usize) -> Arc<Memory> {
        let memory = Arc::new(Memory::default());
        memory.limit(&Limits {
            memory_bytes: most,
            client_memory_bytes: of_client,
            ..Limits::default()
        });
        memory
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_gets_its_part_and_all_get_the_budget() {
        let mb = 1 << 20;
        let memory = memory(5 * mb, 3 * mb);
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|a| memory.account(address(a)));
        let (mut a, mut b) = (Hold::new(&one), Hold::new(&one));
        assert!(a.ask(2 * mb) && !b.ask(2 * mb) && b.ask(mb));
        let mut c = Hold::new(&two);
        assert!(!c.ask(3 * mb) && c.ask(2 * mb));
        // The budget is exhausted: a client with nothing goes on, with little.
        let mut d = Hold::new(&memory.account(address("192.0.2.3")));
        assert!(!d.ask(ALWAYS + 1) && d.ask(ALWAYS));
        assert_eq!(memory.waiting().bytes, 5 * mb + ALWAYS);
        drop((a, b, c, d));
        assert_eq!((memory.waiting().bytes, memory.waiting().peak_bytes), (0, 5 * mb + ALWAYS));
    }

    #[test]
    fn memory_that_was_there_already_is_returned_as_well() {
        let memory = memory(4 * WORTH, 4 * WORTH);
        let mut hold = Hold::new(&memory.account(address("192.0.2.1")));
        hold.keep(WORTH);
        hold.keep(0);
        memory.trim();
        assert!(memory.looks.load(Ordering::Relaxed) > 0, "the system gets it back");
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let memory = memory(1, 1);
        let same = |a: &str, b: &str| {
            Arc::ptr_eq(&memory.account(address(a)), &memory.account(address(b)))
        };
        assert!(same("192.0.2.1", "::ffff:192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
        assert!(same("2001:db8::1", "2001:db8::2:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
        for n in 0..4 * IDLE as u32 {
            memory.account(IpAddr::V4(n.into()));
        }
        assert!(memory.accounts.lock().unwrap().len() <= IDLE + 1);
    }

    #[test]
    fn time_on_machines_is_spent_by_all_requests_of_a_client_and_earned_by_taking() {
        let memory = memory(1, 1);
        let account = memory.account(address("192.0.2.1"));
        let limits = Limits { hold_ms: 1000, ..Limits::default() };
        let half = Duration::from_millis(600);
        assert!(account.spend(half, 0, &limits));
        assert!(!account.spend(half, 0, &limits));
        assert!(!account.spend(Duration::ZERO, 0, &limits));
        assert!(account.spend(Duration::ZERO, KEEPING_UP, &limits));
    }
}
