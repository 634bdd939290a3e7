//! Many hybrid servers behind one door.

use std::panic::resume_unwind;
use std::thread;

use halfwink_engine::{stream, Stream};
use halfwink_policy::steering::SteeringPolicy;
use halfwink_techniques::server::{Model, Service};
use halfwink_units::Time;
use rand::RngExt;

use crate::run::{in_time, machine_use, Accounts, MachineUse, Options, RunError, Slot};
use crate::server::{Misled, Server, Tally};
use halfwink_arrivals::Arrivals;

/// Which server of a fleet a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Chooses a random server.
    Random,
    /// One after the other.
    RoundRobin,
    /// Chooses, among servers picked at random, the one with the fewest unfinished requests.
    Least {
        /// Number of servers that are picked, 1 at least.
        of: u32,
    },
    /// The first one with fewer unfinished requests than this; if there is none, the emptiest.
    Pack {
        /// The limit, 1 at least.
        below: u32,
    },
}

/// A finished run of a fleet.
#[derive(Clone, Debug)]
pub struct FleetRun {
    /// Length of the run without its warm-up.
    pub duration: Time,
    /// Counters of requests.
    pub tally: Tally,
    /// Use of all machines of a place, in the order of the set.
    pub machines: Vec<MachineUse>,
    /// Energy of each server, in joules.
    pub energy_j: Vec<f64>,
    /// Parts of the run, if they were requested.
    pub slots: Vec<Slot>,
}

/// Makes the policy of a server, by its number.
pub type MakePolicy<'a> = &'a (dyn Fn(u32) -> SteeringPolicy + Sync);

/// Plays arrivals against `servers` sets of machines, each with a policy of its own.
///
/// Where the choice does not depend on what servers do, they are played on all host cores. The
/// result does not depend on how many there are.
///
/// # Errors
/// See [`RunError`]; books are closed for each server.
pub fn simulate_fleet(
    model: &Model,
    service: &Service,
    arrivals: &Arrivals,
    policy: MakePolicy,
    (servers, dispatch): (u32, Dispatch),
    options: Options,
) -> Result<FleetRun, RunError> {
    arrivals.check().map_err(RunError::Arrivals)?;
    if servers == 0 || matches!(dispatch, Dispatch::Least { of: 0 } | Dispatch::Pack { below: 0 }) {
        return Err(RunError::Arrivals("a fleet of no servers".to_owned()));
    }
    let blind = matches!(dispatch, Dispatch::Random | Dispatch::RoundRobin);
    let cores = if blind { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let shares = cores.min(servers as usize) as u32;
    // Every thread draws all arrivals and keeps its own servers': each server sees the same ones
    // however many threads there are.
    let play = |share: u32| {
        let mine = (share..servers).step_by(shares as usize);
        let mut fleet = Fleet::new(model, service, policy, mine, options.seed);
        let door = Door::new(arrivals, servers, dispatch, options.seed);
        fleet.play(door, (share, shares), &options).map(|()| fleet)
    };
    let play = &play;
    let fleets: Result<Vec<Fleet>, RunError> = thread::scope(|scope| {
        let threads: Vec<_> = (0..shares).map(|n| scope.spawn(move || play(n))).collect();
        // A thread that panicked has said so; the panic goes on here.
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| resume_unwind(p)));
        joined.collect()
    });
    let mut fleets = fleets?;
    // Each share has drained by itself; all end together.
    let end = fleets.iter().map(|fleet| fleet.now).max().unwrap_or_default();
    let mut parts = Vec::new();
    for fleet in &mut fleets {
        parts.push(fleet.close(end, options.slot.is_some())?);
    }
    // Servers in their order, whatever they were played on.
    let each = |n: u32| parts[(n % shares) as usize].energy_j[(n / shares) as usize];
    let energy_j = (0..servers).map(each).collect();
    let mut whole = parts.remove(0);
    parts.iter().for_each(|part| whole.add(part));
    whole.energy_j = energy_j;
    Ok(whole)
}

impl FleetRun {
    /// Energy of all servers, in joules.
    #[must_use]
    pub fn total_j(&self) -> f64 {
        self.machines.iter().map(|m| m.energy_j).sum()
    }

    fn add(&mut self, other: &FleetRun) {
        self.tally.add(&other.tally);
        add(&mut self.machines, &other.machines);
        for (slot, more) in self.slots.iter_mut().zip(&other.slots) {
            slot.tally.add(&more.tally);
            add(&mut slot.machines, &more.machines);
        }
    }
}

fn add(to: &mut [MachineUse], more: &[MachineUse]) {
    for (sum, more) in to.iter_mut().zip(more) {
        for (state, span) in sum.state_s.iter_mut().zip(more.state_s) {
            *state += span;
        }
        sum.served_s += more.served_s;
        sum.energy_j += more.energy_j;
        sum.wakes += more.wakes;
    }
}

/// Arrivals, and where each goes.
struct Door {
    draw: halfwink_arrivals::Draw,
    choice: Stream,
    servers: u32,
    dispatch: Dispatch,
    turn: u32,
}

impl Door {
    fn new(arrivals: &Arrivals, servers: u32, dispatch: Dispatch, seed: u64) -> Door {
        let draw = arrivals.draw(seed, "");
        Door { draw, choice: stream(seed, "dispatch"), servers, dispatch, turn: 0 }
    }

    /// Any server, or the next one.
    #[inline]
    fn blind(&mut self) -> u32 {
        if self.dispatch == Dispatch::RoundRobin {
            let turn = self.turn;
            self.turn = (turn + 1) % self.servers;
            return turn;
        }
        self.choice.random_range(0..self.servers)
    }
}

/// Some servers of a fleet.
struct Fleet<'a> {
    servers: Vec<Server<'a>>,
    books: Vec<Accounts<'a>>,
    /// Machines of each server.
    machines: usize,
    /// Present simulated time.
    now: Time,
    /// Time at which the accounts were opened.
    begun: Time,
    /// Begin of the present part, and the counters since then.
    start: Time,
    tally: Tally,
    whole: Tally,
    slots: Vec<Slot>,
}

impl<'a> Fleet<'a> {
    fn new(
        model: &'a Model,
        service: &'a Service,
        policy: MakePolicy,
        numbers: impl Iterator<Item = u32>,
        seed: u64,
    ) -> Fleet<'a> {
        let server = |n: u32| Server::new(model, service, policy(n), seed, &format!("server{n}."));
        let servers: Vec<Server> = numbers.map(server).collect();
        let books = vec![Accounts::new(model); servers.len()];
        let machines = model.set().machines().len();
        Fleet {
            servers,
            books,
            machines,
            now: Time::ZERO,
            begun: Time::ZERO,
            start: Time::ZERO,
            tally: Tally::of(machines),
            whole: Tally::of(machines),
            slots: Vec::new(),
        }
    }

    /// The server that a request goes to, brought up to its time if that was needed to choose.
    #[inline]
    fn choose(&mut self, door: &mut Door, now: Time) -> Result<u32, Misled> {
        Ok(match door.dispatch {
            Dispatch::Random | Dispatch::RoundRobin => door.blind(),
            Dispatch::Least { of } => {
                let mut least: Option<(usize, u32)> = None;
                for _ in 0..of {
                    let n = door.choice.random_range(0..door.servers);
                    let load = self.load(n, now)?;
                    // Of equals the first that was drawn.
                    if least.is_none_or(|(lowest, _)| load < lowest) {
                        least = Some((load, n));
                    }
                }
                least.map_or(0, |(_, n)| n)
            }
            Dispatch::Pack { below } => {
                let mut least = (usize::MAX, 0);
                for n in 0..door.servers {
                    let load = self.load(n, now)?;
                    if load < below as usize {
                        return Ok(n);
                    }
                    least = least.min((load, n));
                }
                least.1
            }
        })
    }

    fn load(&mut self, n: u32, now: Time) -> Result<usize, Misled> {
        let server = &mut self.servers[n as usize];
        server.advance(now, &mut self.tally)?;
        Ok(server.load())
    }

    /// Plays until the last arrival, or until all requests are done.
    fn play(
        &mut self,
        mut door: Door,
        (share, shares): (u32, u32),
        options: &Options,
    ) -> Result<(), RunError> {
        let last = options.warm_up.saturating_add(options.requests);
        let mut count = 0;
        while count < last {
            let Some((at, size)) = door.draw.next().filter(|(at, _)| *at <= options.until) else {
                break;
            };
            in_time(at, count)?;
            if let Some(slot) = options.slot {
                // Before the choice: a request at a slot's end belongs to the next slot on every
                // thread.
                while count >= options.warm_up && self.start + slot <= at {
                    self.part(self.start + slot, true)?;
                }
            }
            let n = self.choose(&mut door, at)?;
            if n % shares == share {
                self.servers[(n / shares) as usize].arrive(at, size, &mut self.tally)?;
            }
            self.now = at;
            count += 1;
            if count == options.warm_up {
                self.open()?;
            }
        }
        if options.until != Time::NEVER {
            self.now = self.now.max(options.until);
        }
        if options.drain {
            for server in &mut self.servers {
                self.now = self.now.max(server.drain(&mut self.tally)?);
            }
        }
        Ok(())
    }

    /// Opens the books: what was until now was to warm up.
    fn open(&mut self) -> Result<(), Misled> {
        for server in &mut self.servers {
            // Taken and dropped: what the warm-up spent is in no account.
            server.take(self.now, &mut self.tally)?;
        }
        self.tally.take();
        (self.begun, self.start) = (self.now, self.now);
        Ok(())
    }

    /// Closes a part of the run.
    fn part(&mut self, end: Time, keep: bool) -> Result<(), Misled> {
        let mut machines = vec![MachineUse::default(); self.machines];
        for (server, books) in self.servers.iter_mut().zip(&mut self.books) {
            let spent = server.take(end, &mut self.tally)?;
            books.add(&spent);
            add(&mut machines, &spent.iter().map(machine_use).collect::<Vec<_>>());
        }
        let (start, span) = (self.start, end - self.start);
        let tally = self.tally.take();
        self.whole.add(&tally);
        self.start = end;
        if keep && span > Time::ZERO {
            self.slots.push(Slot { start, span, tally, machines });
        }
        Ok(())
    }

    /// Closes the books of each server.
    fn close(&mut self, end: Time, slots: bool) -> Result<FleetRun, RunError> {
        self.part(end, slots)?;
        // After the part is closed: verifying may drain a faulty server, whose time and energy are
        // not of the run.
        self.servers.iter_mut().try_for_each(Server::verify)?;
        let duration = end - self.begun;
        let mut machines = vec![MachineUse::default(); self.machines];
        let mut energy_j = Vec::with_capacity(self.books.len());
        for books in &self.books {
            books.close(duration)?;
            let each = books.machines();
            energy_j.push(each.iter().map(|machine| machine.energy_j).sum());
            add(&mut machines, &each);
        }
        let tally = self.whole.take();
        Ok(FleetRun { duration, tally, machines, energy_j, slots: std::mem::take(&mut self.slots) })
    }
}
