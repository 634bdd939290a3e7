//! How a node sleeps and wakes.

use halfwink_engine::{Class, State};
use halfwink_policy::preheat::Event;
use halfwink_units::{Power, Time};

use crate::books::idle;
use crate::node::Flush;
use crate::run::{llc, memory, us, Happening, Machine, Sim, ASLEEP, IDLE};

impl Sim<'_> {
    pub(crate) fn begin_to_wake(&mut self) {
        self.machine = Machine::Waking;
        self.tally.wakes += 1;
        let power = Power::from_w(self.spec.power.core_idle_w);
        self.books.turn(0, self.now, power, (State("waking"), idle("wake-up")));
        let at = self.now + us(self.spec.sleep.wake_us);
        self.queue.push(at, Class(0), Happening::Awake);
    }

    pub(crate) fn turn_on(&mut self) {
        let power = &self.spec.power;
        self.books.turn(0, self.now, Power::from_w(power.core_idle_w), IDLE);
        for core in 1..llc(self.spec) {
            // Others sleep, each by itself, until they are called.
            self.books.turn(core, self.now, Power::from_w(power.core_asleep_w), ASLEEP);
        }
        let on = (State("on"), idle("powered"));
        self.books.turn(llc(self.spec), self.now, Power::from_w(power.llc_on_w), on);
        self.books.turn(memory(self.spec), self.now, Power::from_w(power.memory_w), on);
    }

    pub(crate) fn wake(&mut self) {
        self.machine = Machine::On;
        self.turn_on();
        self.hear_announcements();
        self.catch_up();
        // A false alarm: nothing may come of it.
        self.rest();
    }

    /// After a while without work the machine sleeps.
    pub(crate) fn rest(&mut self) {
        if self.machine == Machine::On && self.busy.is_none() && self.waiting.is_empty() {
            self.numbers[0] += 1;
            let at = self.now.max(self.expected) + us(self.spec.sleep.after_us);
            self.queue.push(at, Class(3), Happening::Sleeps(self.numbers[0]));
        }
    }

    pub(crate) fn sleep(&mut self, number: u64) {
        let is_idle = self.busy.is_none() && self.waiting.is_empty() && self.load.is_none();
        if number != self.numbers[0] || self.machine != Machine::On || !is_idle {
            return;
        }
        if self.window.is_some() {
            // What it is open for is about to come, or it is closed.
            return self.rest();
        }
        self.machine = Machine::GoingDown;
        let lines = self.node.flush(Flush::CACHES);
        self.charge_lines((State("writing"), idle("flush")), lines, true);
        let takes = Time::from_ns(self.spec.sleep.write_back_ns * lines as f64);
        let power = Power::from_w(self.spec.power.core_stalled_w);
        self.books.turn(0, self.now, power, (State("stalled"), idle("flush")));
        self.queue.push(self.now + takes, Class(0), Happening::Asleep);
    }

    pub(crate) fn asleep(&mut self) {
        self.machine = Machine::Asleep;
        self.is_cold = true;
        let power = &self.spec.power;
        self.books.turn(0, self.now, Power::from_w(power.core_asleep_w), ASLEEP);
        self.books.turn(llc(self.spec), self.now, Power::from_w(power.llc_asleep_w), ASLEEP);
        self.ask_policy(Some(Event::Lost));
        if !(self.waiting.is_empty() && self.deferred.is_empty()) {
            self.begin_to_wake();
        }
    }
}
