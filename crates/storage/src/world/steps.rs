//! What follows a stage.

use halfwink_policy::completion::{Action, Done, Event, Hears};
use halfwink_policy::scaling::Rest;
use halfwink_units::Time;

use super::cpu::{Cpu, Stage, FROM_ELSEWHERE};
use super::{Parts, Path, World, WorldError, MAP, RING, TIMEOUTS};

impl Cpu {
    /// Sets the stage that follows once it holds the lock.
    pub(super) fn await_lock(&mut self, stage: Stage) {
        self.awaited = stage;
    }
}

impl World<'_, '_> {
    /// A CPU's stage is over.
    pub(super) fn step(&mut self, cpu: usize, now: u64) {
        match self.cpus[cpu].stage {
            Stage::Idle | Stage::Polling => self.next(cpu, now),
            Stage::Submit if self.setting.path == Path::Driver => self.submit_to_device(cpu, now),
            Stage::Submit => self.lock(cpu, now, self.queue_of(cpu), Stage::Insert, 1),
            Stage::Insert => {
                self.unlock(now, self.queue_of(cpu));
                self.lock(cpu, now, self.queue_of(cpu), Stage::Dispatch, 1);
            }
            Stage::Dispatch => {
                self.unlock(now, self.queue_of(cpu));
                self.submit_to_device(cpu, now);
            }
            Stage::Interrupt => self.heard(cpu, now),
            Stage::Enqueue => {
                self.unlock(now, RING);
                self.enter(cpu, now, Stage::Send, self.costs.send);
            }
            Stage::Send => self.give(cpu, now),
            Stage::Receive => self.take(cpu, now),
            Stage::Peek => self.upgrade(cpu, now),
            Stage::Dequeue => {
                self.unlock(now, RING);
                let ios = self.cpus[cpu].completing.len() as u64;
                self.enter(cpu, now, Stage::Structures, ios * self.costs.structures[1]);
            }
            Stage::Structures => {
                let ios = self.cpus[cpu].completing.len() as u32;
                self.lock(cpu, now, MAP, Stage::Map, ios);
            }
            Stage::Map => {
                self.unlock(now, MAP);
                if self.setting.parts == Parts::NoCompletion {
                    self.complete(cpu, now);
                } else {
                    self.begin_completion(cpu, now);
                }
            }
            Stage::Complete if self.setting.path == Path::Driver => self.complete(cpu, now),
            Stage::Complete => {
                let ios = self.cpus[cpu].completing.len() as u32;
                self.lock(cpu, now, self.queue_of(cpu), Stage::Retire, ios);
            }
            Stage::Retire => {
                self.unlock(now, self.queue_of(cpu));
                self.complete(cpu, now);
            }
            Stage::SpinToIssue | Stage::SpinToComplete => {}
        }
    }

    /// Chooses the next work of a CPU: interrupts, assigned I/Os, then issuing.
    pub(super) fn next(&mut self, cpu: usize, now: u64) {
        let it = &mut self.cpus[cpu];
        // A policy's rest is a promise to see nothing until its end: interrupts of the time stay
        // pending, and the lane rings when it is over.
        if now < it.deaf_until {
            self.enter(cpu, now, Stage::Idle, 0);
            self.lanes.set(cpu, self.cpus[cpu].deaf_until);
            return;
        }
        if !it.heard.is_empty() {
            let costs = &self.costs;
            // The device raises one interrupt for up to `coalesce` completions that wait: the
            // first pays for the entry and the acknowledgement, the others only for reading which
            // I/O it is.
            let is_first = it.coalesced == 0 || it.coalesced >= costs.coalesce;
            it.coalesced = if is_first { 1 } else { it.coalesced + 1 };
            let polled = self.hears == Hears::Polled || !is_first;
            let takes = if polled { costs.poll } else { costs.interrupt };
            self.interrupts[0] += u64::from(!polled);
            return self.enter(cpu, now, Stage::Interrupt, takes);
        }
        it.coalesced = 0;
        if !it.given.is_empty() {
            // A handler that found work looks once more before it leaves, so that I/Os which came
            // during its last batch need no further interrupt.
            if it.drains {
                return self.take(cpu, now);
            }
            let takes = if it.polls { self.costs.poll } else { self.costs.receive };
            self.interrupts[1] += u64::from(!it.polls);
            return self.enter(cpu, now, Stage::Receive, takes);
        }
        it.drains = false;
        // Interrupts come first and the submission goes on where it was: its time left was saved
        // when the interrupt came, so that no work of the issuer is lost or done twice.
        if let Some(left) = it.left.take() {
            return self.enter(cpu, now, Stage::Submit, left);
        }
        self.issue(cpu, now);
    }

    /// Issues the next I/O, if there is one; else rests.
    fn issue(&mut self, cpu: usize, now: u64) {
        let it = &mut self.cpus[cpu];
        while let Some(&(due, io)) = it.thinking.front() {
            if due > now {
                break;
            }
            it.thinking.pop_front();
            it.ready.push(io);
        }
        if it.ready.is_empty() && it.thinking.is_empty() {
            return self.rest(cpu, now);
        }
        // With an I/O ready only the rate limits the next issue; without, the end of the earliest
        // thinking does as well.
        let thought = if it.ready.is_empty() { it.thinking.front() } else { None };
        let due = thought.map_or(it.may_issue, |&(due, _)| due.max(it.may_issue));
        if now < due {
            self.rest(cpu, now);
            // Resting may have set a wake-up of its own; the earlier of both counts.
            let lane = self.lanes.due(cpu).min(due);
            return self.lanes.set(cpu, lane);
        }
        let Some(io) = it.ready.pop() else { return };
        it.submitting = io & !FROM_ELSEWHERE;
        let wake = if io & FROM_ELSEWHERE == 0 { 0 } else { self.costs.wake };
        self.begun[it.submitting as usize] = it.source.asked(it.may_issue, now);
        it.device_ps = it.source.device_ps(&self.setting.machine.spec().device);
        it.may_issue = it.source.next(it.may_issue, now, &mut self.random);
        self.issued += 1;
        let last = std::mem::replace(&mut self.last, cpu as u16);
        // Lines that every issue writes (accounting) follow from CPU to CPU: issuers on several
        // sockets slow each other even where each has a queue of its own.
        let shared = self.costs.shared_lines * self.distances.line(last, cpu as u16) / 1000;
        let takes = self.jittered_submit() + wake + shared;
        self.enter(cpu, now, Stage::Submit, takes);
    }

    fn submit_to_device(&mut self, cpu: usize, now: u64) {
        let it = &self.cpus[cpu];
        let (io, gap) = (it.submitting, it.device_ps);
        if let Some(fate) = &mut self.fate {
            self.device.take_late(now, io, gap, fate.take(now, io));
            self.lanes.set(self.cpus.len() + TIMEOUTS, fate.due());
        } else {
            self.device.take(now, io, gap);
        }
        self.lanes.set(self.device_lane(), self.device.due());
        self.next(cpu, now);
    }

    /// Lets the policy choose how a CPU without work rests.
    pub(super) fn rest(&mut self, cpu: usize, now: u64) {
        let event = Event::Empty { cpu: cpu as u16 };
        let rest = match self.policy.decide(Time(now), &event) {
            Some(Action::Rest { rest, .. }) => Some(rest),
            _ => None,
        };
        let it = &mut self.cpus[cpu];
        (it.polls, it.deaf_until) = (false, 0);
        let (stage, until) = match rest {
            Some(Rest::Sleep { span, .. } | Rest::Pause { span }) if span > Time::ZERO => {
                it.deaf_until = now + span.0;
                (Stage::Idle, it.deaf_until)
            }
            Some(Rest::Spin | Rest::Again { .. }) => {
                it.polls = true;
                (Stage::Polling, u64::MAX)
            }
            _ => (Stage::Idle, u64::MAX),
        };
        it.enter(now, stage);
        self.lanes.set(cpu, until);
    }

    /// Phase 1 is done: here, or elsewhere?
    fn heard(&mut self, cpu: usize, now: u64) {
        let Some(io) = self.cpus[cpu].heard.pop_front() else { return self.next(cpu, now) };
        // The period is checked here and nowhere else, since the published driver has no timer: it
        // looks at its clock in the interrupt handler (Sec 6.3.3).
        self.look(now);
        let waiting = self.cpus[cpu].heard.len() as u32;
        if self.hears_polls {
            let event = Event::Poll { cpu: cpu as u16, taken: 1, waiting };
            self.policy.deliver(Time(now), &event, |_, _| ());
        }
        let took = Time(now - self.begun[io as usize]);
        let heard = cpu as u16;
        let done = Done { io, issuer: self.issuer(io), heard, waiting, took };
        let answer = self.policy.decide(Time(now), &Event::Done(done));
        if self.setting.parts == Parts::InterruptOnly {
            self.signal(cpu, now, io);
            return self.next(cpu, now);
        }
        match answer {
            Some(Action::Give { cpu: to, .. }) if usize::from(to) < self.cpus.len() => {
                self.cpus[cpu].to = to;
                self.cpus[cpu].completing.push(io);
                if self.setting.path == Path::Queue {
                    // Forwarded by a list of the other CPU's own.
                    return self.enter(cpu, now, Stage::Send, self.costs.send);
                }
                self.lock(cpu, now, RING, Stage::Enqueue, 1);
            }
            _ => {
                self.cpus[cpu].completing.push(io);
                if self.setting.path == Path::Queue {
                    return self.begin_completion(cpu, now);
                }
                self.enter(cpu, now, Stage::Structures, self.costs.structures[0]);
            }
        }
    }

    fn give(&mut self, cpu: usize, now: u64) {
        let to = usize::from(self.cpus[cpu].to);
        if let Some(io) = self.cpus[cpu].completing.pop() {
            self.cpus[to].given.push_back(io);
        }
        // An I/O for the CPU itself needs no signal: the next choice of work finds it.
        if to != cpu {
            self.attract(to, now, true);
        }
        self.next(cpu, now);
    }

    /// Phase 2 begins: I/Os are taken from the ring.
    fn take(&mut self, cpu: usize, now: u64) {
        let it = &mut self.cpus[cpu];
        let ios = it.given.len().min(self.costs.batch);
        it.drains = true;
        it.completing.extend(it.given.drain(..ios));
        if self.hears_polls {
            let (taken, waiting) = (ios as u32, it.given.len() as u32);
            let event = Event::Poll { cpu: cpu as u16, taken, waiting };
            self.policy.deliver(Time(now), &event, |_, _| ());
        }
        if self.setting.path == Path::Queue {
            return self.begin_completion(cpu, now);
        }
        debug_assert!(ios > 0, "a CPU takes I/Os from its ring only when there are some");
        let stage = if self.locks[RING].upgrades() { Stage::Peek } else { Stage::Dequeue };
        self.lock(cpu, now, RING, stage, ios as u32);
    }

    fn upgrade(&mut self, cpu: usize, now: u64) {
        let ios = self.cpus[cpu].completing.len() as u32;
        let wanted = crate::lock::Wanted { cpu: cpu as u16, ios, reads: false };
        match self.locks[RING].upgrade(wanted, &self.distances) {
            Ok(Some(hold_ps)) => self.enter(cpu, now, Stage::Dequeue, hold_ps),
            Ok(None) => {
                self.cpus[cpu].await_lock(Stage::Dequeue);
                self.cpus[cpu].enter(now, Stage::SpinToComplete);
                // The reader that leaves would wake it, and readers here leave only by upgrading:
                // the next upgrade reports the deadlock.
                self.lanes.set(cpu, u64::MAX);
            }
            Err(deadlock) => {
                self.failed = Some(WorldError::Deadlock { at: Time(now), deadlock });
            }
        }
    }

    fn begin_completion(&mut self, cpu: usize, now: u64) {
        let ios = self.cpus[cpu].completing.len();
        let mut takes = ios as u64 * self.costs.complete;
        for n in 0..ios {
            let issuer = self.issuer(self.cpus[cpu].completing[n]);
            takes += self.afar_ps(issuer, cpu as u16);
        }
        self.enter(cpu, now, Stage::Complete, takes);
    }

    /// Returns the extra time of a completion for an issuer of another socket: the descriptor comes
    /// from there, and its CPU has to be interrupted to continue (Sec 6.2.1).
    fn afar_ps(&self, issuer: u16, cpu: u16) -> u64 {
        if self.distances.socket(issuer) == self.distances.socket(cpu) {
            return 0;
        }
        let lines = self.costs.descriptor_lines * self.distances.beyond_socket(issuer, cpu) / 1000;
        lines + self.costs.send
    }

    fn complete(&mut self, cpu: usize, now: u64) {
        let mut ios = std::mem::take(&mut self.cpus[cpu].completing);
        for io in ios.drain(..) {
            self.signal(cpu, now, io);
        }
        self.cpus[cpu].completing = ios;
        self.next(cpu, now);
    }
}
