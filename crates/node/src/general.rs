//! Cores that share queues, a package, cores of the kernel, clients that wait or a held-back
//! interrupt: all goes through one event queue.

use std::collections::VecDeque;
use std::ops::Range;

use halfwink_engine::{Class, EventQueue, RunControl};
use halfwink_units::Time;

use crate::core::{Cores, Rang};
use crate::intake::{Intake, Queue};
use crate::load::Asking;
use crate::moved::{Job, Offload};
use crate::package::Sockets;
use crate::run::RunError;
use crate::source::{Item, Kind, Source};
use halfwink_techniques::node::Dispatch;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Work reaches the machine.
    Arrive(Item),
    /// A client sends its next request.
    Send(Item),
    /// The network card interrupts with this.
    Deliver(Item),
    /// The network card interrupts a core.
    Interrupt(u32),
    /// The core is done with what it works on.
    Done(u32),
    /// The timer of the core's governor is due, if its rest is still that one.
    Timer(u32, u64),
    /// The socket sleeps, if no core has woken since.
    Enter(usize, u64),
}

// Work that comes when a core is just done does not find it idle: as in the recurrence.
const ARRIVE: Class = Class(0);
const DONE: Class = Class(1);
const TIMER: Class = Class(2);
const ENTER: Class = Class(3);

struct Station {
    queue: VecDeque<Item>,
    is_busy: bool,
    /// The kind of work that it does, if it is busy.
    kind: Kind,
    /// Requests that it has begun and not finished, if their kernel code moves.
    jobs: Vec<Option<Job>>,
    /// The number of these requests.
    open: u32,
    /// The one that it works on; on a core of the kernel, whose code it runs: its core, its place.
    of: (u32, u16),
    /// Number of its present rest.
    epoch: u64,
    /// Receive queue of the network card.
    input: Queue,
}

impl Station {
    /// Begins a request; its place among those that are begun.
    fn opens(&mut self, job: Job) -> u16 {
        self.open += 1;
        let free = self.jobs.iter().position(Option::is_none);
        let place = free.unwrap_or(self.jobs.len());
        if place == self.jobs.len() {
            self.jobs.push(None);
        }
        self.jobs[place] = Some(job);
        place as u16
    }
}

/// The policies of the other slots, and what they decide about.
pub(crate) struct Floor<'c, 'm, 's> {
    pub(crate) cores: &'c mut Cores<'m>,
    pub(crate) sockets: &'c mut Sockets,
    pub(crate) dispatch: Dispatch,
    pub(crate) input: Intake,
    /// Cores of the kernel, if its code moves there.
    pub(crate) offload: Option<Offload>,
    /// Clients whose requests these are, if they wait for answers.
    pub(crate) asking: Option<Asking<'s>>,
}

struct Play<'c, 'm, 's> {
    floor: Floor<'c, 'm, 's>,
    stations: Vec<Station>,
    /// Number of the cores that serve requests: the first ones.
    serving: usize,
    /// One queue for all of those, if dispatch has one.
    shared: VecDeque<Item>,
    /// Idle cores in the order in which they became idle; kept if dispatch asks for it.
    idle: VecDeque<u32>,
    keeps_idle: bool,
    events: EventQueue<Event>,
    busy: usize,
    idle_since: Time,
}

pub(crate) fn play(
    floor: Floor,
    source: &mut Source,
    control: &RunControl,
) -> Result<(), RunError> {
    let end = floor.cores.books.window.end;
    let station = |_| Station {
        queue: VecDeque::new(),
        // Until `rest` below has counted each of them down.
        is_busy: true,
        kind: Kind::Background,
        jobs: Vec::new(),
        open: 0,
        of: (0, 0),
        epoch: 0,
        input: Queue::new(&floor.input),
    };
    let count = floor.cores.cores.len();
    let keeps_idle = matches!(floor.dispatch, Dispatch::Lifo | Dispatch::Fifo);
    let mut play = Play {
        stations: (0..count).map(station).collect(),
        serving: floor.offload.map_or(count, |offload| offload.first),
        shared: VecDeque::new(),
        idle: VecDeque::new(),
        keeps_idle,
        events: EventQueue::new(),
        busy: count,
        idle_since: Time::ZERO,
        floor,
    };
    for n in 0..count {
        play.rest(n, Time::ZERO)?;
    }
    let mut next = source.next().filter(|item| item.at < end);
    if let Some(item) = next {
        play.events.push(item.at, ARRIVE, Event::Arrive(item));
    }
    for item in play.floor.asking.as_mut().map_or(Vec::new(), Asking::first) {
        play.sends(item);
    }
    let mut steps = 0_u64;
    while let Some((now, event)) = play.events.pop() {
        if steps.is_multiple_of(65_536) {
            control.report(play.floor.cores.tally.arrived)?;
        }
        steps += 1;
        if let Event::Arrive(_) = event {
            next = source.next().filter(|item| item.at < end);
            if let Some(item) = next {
                play.events.push(item.at, ARRIVE, Event::Arrive(item));
            }
        }
        play.step(now, event, end)?;
    }
    play.settle(end);
    Ok(())
}

impl Play<'_, '_, '_> {
    fn step(&mut self, now: Time, event: Event, end: Time) -> Result<(), RunError> {
        match event {
            Event::Arrive(item) if item.kind == Kind::Request => self.receive(item, now),
            Event::Arrive(item) => self.assign(item.core as usize, item, now),
            Event::Send(item) => self.receive(item, now),
            Event::Deliver(item) => self.dispatch(item, now),
            Event::Interrupt(n) => {
                self.stations[n as usize].input.interrupts(now);
                Ok(())
            }
            Event::Done(n) => self.done(n as usize, now),
            Event::Timer(n, epoch) if now < end => self.timer(n as usize, epoch, now),
            Event::Enter(socket, epoch) if now < end => {
                let books = &mut self.floor.cores.books;
                self.floor.sockets.enter(socket, epoch, now, (&books.window, &mut books.slices));
                Ok(())
            }
            // From the end on nobody sets a timer again: cores whose timers follow one another
            // would keep the queue full for ever.
            Event::Timer(..) | Event::Enter(..) => Ok(()),
        }
    }

    /// The network card has a request.
    fn receive(&mut self, item: Item, now: Time) -> Result<(), RunError> {
        let input = &mut self.stations[item.core as usize].input;
        let Some((due, is_new)) = input.receive(&self.floor.input, now) else {
            return self.dispatch(item, now);
        };
        if is_new && matches!(self.floor.input, Intake::Moderated) {
            self.events.push(due, ARRIVE, Event::Interrupt(item.core));
        }
        self.events.push(due, ARRIVE, Event::Deliver(item));
        Ok(())
    }

    fn dispatch(&mut self, item: Item, now: Time) -> Result<(), RunError> {
        let hashed = item.core as usize;
        let n = match self.floor.dispatch {
            Dispatch::Hash => hashed,
            Dispatch::LeastLoaded => self.least_loaded(0..self.serving, hashed),
            Dispatch::Packing(limit) => {
                let has_room = |n: &usize| self.load(*n) < limit as usize;
                let first = (0..self.serving).find(has_room);
                first.unwrap_or_else(|| self.least_loaded(0..self.serving, 0))
            }
            Dispatch::Lifo | Dispatch::Fifo => {
                let idle = match self.floor.dispatch {
                    Dispatch::Lifo => self.idle.back(),
                    _ => self.idle.front(),
                };
                let Some(&n) = idle else {
                    self.shared.push_back(item);
                    return Ok(());
                };
                n as usize
            }
        };
        self.assign(n, item, now)
    }

    fn load(&self, n: usize) -> usize {
        let station = &self.stations[n];
        // A request that the core works on is both open, where code moves, and what makes it busy.
        station.queue.len() + (station.open as usize).max(usize::from(station.is_busy))
    }

    /// The least loaded of these cores, of equals the next from the one with this place among them.
    fn least_loaded(&self, of: Range<usize>, first: usize) -> usize {
        let mut best = of.start + first;
        for offset in 0..of.len() {
            let n = of.start + (first + offset) % of.len();
            if self.load(n) < self.load(best) {
                best = n;
            }
            if self.load(best) == 0 {
                break;
            }
        }
        best
    }

    fn assign(&mut self, n: usize, item: Item, now: Time) -> Result<(), RunError> {
        let is_request = item.kind == Kind::Request;
        let is_full = is_request && self.is_full(n);
        let station = &mut self.stations[n];
        let is_masked = is_request && station.input.is_masked(&self.floor.input, now);
        if station.is_busy || is_full || is_masked {
            station.queue.push_back(item);
            return Ok(());
        }
        self.begin(n, item, now)
    }

    /// True if a core begins no further request before one of its own comes back.
    fn is_full(&self, n: usize) -> bool {
        self.floor.offload.is_some_and(|offload| self.stations[n].open >= offload.workers)
    }

    /// A core that rests wakes and works on this.
    fn begin(&mut self, n: usize, item: Item, now: Time) -> Result<(), RunError> {
        let polls = self.stations[n].input.polls(&self.floor.input, now);
        let item = if polls { self.polled(item) } else { item };
        let least = self.rises(n, now);
        let ready = self.floor.cores.wake(n, now, item.id, least)?;
        self.serve(n, item, ready);
        Ok(())
    }

    /// A request that no interrupt brings.
    fn polled(&self, item: Item) -> Item {
        if item.kind != Kind::Request {
            return item;
        }
        Item { work: self.floor.input.polled(item.work), ..item }
    }

    /// A core that runs works on this.
    fn serve(&mut self, n: usize, item: Item, now: Time) {
        let station = &mut self.stations[n];
        station.kind = item.kind;
        station.of = (item.core, item.place);
        let done = match (self.floor.offload, item.kind) {
            (Some(offload), Kind::Request) => {
                let (job, work) = offload.cut(item, now);
                station.of.1 = station.opens(job);
                self.floor.cores.part(n, now, &Item { work, ..item })
            }
            (None, Kind::Request) => {
                let done = self.floor.cores.work(n, now, &item);
                self.answers(item.id, done);
                done
            }
            _ => self.floor.cores.work(n, now, &item),
        };
        self.events.push(done, DONE, Event::Done(n as u32));
    }

    /// A request is done then: its client gets the answer, and sends its next one later.
    fn answers(&mut self, id: u64, done: Time) {
        if let Some(asking) = &mut self.floor.asking {
            let next = asking.next(id, done);
            self.sends(next);
        }
    }

    fn sends(&mut self, item: Item) {
        if item.at < self.floor.cores.books.window.end {
            self.events.push(item.at, ARRIVE, Event::Send(item));
        }
    }

    /// A part of a request is done: it visits a core of the kernel, or was the last one.
    fn part_done(&mut self, n: usize, offload: Offload, now: Time) -> Result<(), RunError> {
        let station = &mut self.stations[n];
        let (_, place) = station.of;
        let Some(job) = &mut station.jobs[usize::from(place)] else { return Ok(()) };
        let Some(visit) = job.leave(n, place, now) else {
            let (id, arrived, start) = (job.item.id, job.item.at, job.start);
            station.jobs[usize::from(place)] = None;
            station.open -= 1;
            let cores = &mut *self.floor.cores;
            cores.tally.request(&cores.books.window, arrived, start, now);
            self.answers(id, now);
            return Ok(());
        };
        let kernel = offload.first..self.stations.len();
        // Each core looks from another one on: of equals the first would get the visits of all.
        let to = self.least_loaded(kernel.clone(), n % kernel.len());
        self.assign(to, visit, now)
    }

    /// A visit is done: its request goes on, before all else that its core has to do.
    fn come_back(&mut self, (home, place): (u32, u16), now: Time) -> Result<(), RunError> {
        let home = home as usize;
        let station = &mut self.stations[home];
        let job = station.jobs[usize::from(place)];
        debug_assert!(job.is_some(), "a request came back that was not begun");
        let Some(part) = job.map(|job| job.come_back(place, now)) else { return Ok(()) };
        if station.is_busy {
            station.queue.push_front(part);
            return Ok(());
        }
        self.begin(home, part, now)
    }

    /// Takes what a core does next.
    fn take(&mut self, n: usize, now: Time) -> Option<Item> {
        let is_full = self.is_full(n);
        let station = &mut self.stations[n];
        if !station.kind.is_of_request() && station.input.is_masked(&self.floor.input, now) {
            return None;
        }
        if is_full && station.queue.front()?.kind == Kind::Request {
            return None;
        }
        let takes = n < self.serving && !is_full;
        let own = station.queue.pop_front();
        own.or_else(|| if takes { self.shared.pop_front() } else { None })
    }

    /// A core ends its rest; how long its package takes to wake.
    fn rises(&mut self, n: usize, now: Time) -> Time {
        self.stations[n].is_busy = true;
        self.stations[n].epoch += 1;
        if self.keeps_idle {
            self.idle.retain(|&idle| idle as usize != n);
        }
        if self.busy == 0 {
            let books = &self.floor.cores.books;
            let from = self.idle_since.max(books.window.start);
            let idle = now.min(books.window.end).saturating_sub(from);
            self.floor.cores.tally.all_idle += idle;
        }
        self.busy += 1;
        let books = &mut self.floor.cores.books;
        self.floor.sockets.woke(n, now, (&books.window, &mut books.slices))
    }

    fn done(&mut self, n: usize, now: Time) -> Result<(), RunError> {
        if let Some(offload) = self.floor.offload {
            match self.stations[n].kind {
                Kind::Request | Kind::Return => self.part_done(n, offload, now)?,
                Kind::Visit => self.come_back(self.stations[n].of, now)?,
                _ => {}
            }
        }
        match self.take(n, now) {
            Some(item) => {
                // A core that has work finds more by looking.
                self.serve(n, self.polled(item), now);
                Ok(())
            }
            None => self.rest(n, now),
        }
    }

    fn rest(&mut self, n: usize, now: Time) -> Result<(), RunError> {
        let station = &mut self.stations[n];
        station.is_busy = false;
        let is_behind_requests = station.kind.is_of_request();
        match station.input.rests(&self.floor.input, is_behind_requests, now) {
            Some(held) => self.floor.cores.hold(n, now, held),
            None => self.floor.cores.begin_rest(n, now)?,
        }
        self.busy -= 1;
        if self.busy == 0 {
            self.idle_since = now;
        }
        if self.keeps_idle && n < self.serving && !self.is_full(n) {
            self.idle.push_back(n as u32);
        }
        self.rests(n, now);
        Ok(())
    }

    /// Notes what the state that the core rests in leads to.
    fn rests(&mut self, n: usize, now: Time) {
        let rest = self.floor.cores.cores[n].rest;
        if rest.due < Time::NEVER {
            let epoch = self.stations[n].epoch;
            self.events.push(rest.due, TIMER, Event::Timer(n as u32, epoch));
        }
        let books = &mut self.floor.cores.books;
        self.floor.sockets.rises(n, rest.state, now, (&books.window, &mut books.slices));
        if let Some((at, socket, epoch)) = self.floor.sockets.rested(n, rest.state, now) {
            self.events.push(at, ENTER, Event::Enter(socket, epoch));
        }
    }

    fn timer(&mut self, n: usize, epoch: u64, now: Time) -> Result<(), RunError> {
        // The queue gives back no event: one that was set for an earlier rest comes all the same.
        if self.stations[n].epoch != epoch {
            return Ok(());
        }
        let least =
            if self.floor.cores.cores[n].rest.wakes { self.rises(n, now) } else { Time::ZERO };
        match self.floor.cores.ring(n, now, least)? {
            Rang::Tick(resumed) => {
                // Else the end of the tick would end a part of the request that the core worked on
                // before its rest.
                self.stations[n].kind = Kind::Background;
                self.events.push(resumed, DONE, Event::Done(n as u32));
            }
            Rang::Resting => self.rests(n, now),
        }
        Ok(())
    }

    fn settle(&mut self, end: Time) {
        let cores = &mut *self.floor.cores;
        if self.busy == 0 {
            let from = self.idle_since.max(cores.books.window.start);
            cores.tally.all_idle += end.saturating_sub(from);
        }
        for n in 0..self.stations.len() {
            cores.settle(n);
        }
    }
}
