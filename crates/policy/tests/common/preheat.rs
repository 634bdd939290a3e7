//! A machine in small, for tests of preheaters.

use halfwink_policy::preheat::{Action, Event, Preheat, SetId};
use halfwink_units::Time;

/// Microseconds.
pub fn us(us: u64) -> Time {
    Time::ns(1_000 * us)
}

/// A policy that is told at microseconds; all that it asks for, by microseconds.
pub struct Told<P> {
    /// Who is told.
    pub policy: P,
    now: u64,
    text: String,
}

impl<P: Preheat> Told<P> {
    /// Nothing was told.
    pub fn new(policy: P) -> Told<P> {
        Told { policy, now: 0, text: String::new() }
    }

    fn take(&mut self, at: Time) {
        while let Some(action) = self.policy.poll_action() {
            self.text += &format!("{:>6} {}\n", at.as_ns() / 1e3, short(&action));
        }
    }

    /// Timers ring on the way there.
    pub fn at(&mut self, now: u64) -> &mut Told<P> {
        while let Some(due) = self.policy.next_timer().filter(|&due| due <= us(now)) {
            self.policy.on_timer(due);
            self.take(due);
            assert_ne!(self.policy.next_timer(), Some(due), "a timer rings for ever");
        }
        self.now = now;
        self
    }

    /// Tells an event.
    pub fn tell(&mut self, event: Event) -> &mut Told<P> {
        self.policy.on_event(us(self.now), &event);
        self.take(us(self.now));
        self
    }

    /// Announces a request that is due later by so much.
    pub fn announce(&mut self, service: u16, lead: u64) -> &mut Told<P> {
        let due = us(self.now + lead);
        self.tell(Event::Announced { service, due })
    }

    /// A packet to this port.
    pub fn arrive(&mut self, port: u16) -> &mut Told<P> {
        self.tell(Event::Arrived { port })
    }

    /// Nothing runs.
    pub fn idle(&mut self) -> &mut Told<P> {
        self.tell(Event::Idle)
    }

    /// Caches are cold.
    pub fn lost(&mut self) -> &mut Told<P> {
        self.tell(Event::Lost)
    }

    /// Gives a dump of 100 lines.
    pub fn dumped(&mut self, service: u16, set: u32) -> &mut Told<P> {
        self.tell(Event::Dumped { service, set: SetId(set), lines: 100 })
    }

    /// A set of 90 lines is there.
    pub fn built(&mut self, service: u16) -> &mut Told<P> {
        self.tell(Event::Built { service, lines: 90 })
    }

    /// It is loaded.
    pub fn loaded(&mut self, service: u16) -> &mut Told<P> {
        self.tell(Event::Loaded { service })
    }

    /// A socket is gone.
    pub fn closed(&mut self, port: u16) -> &mut Told<P> {
        self.tell(Event::Closed { port })
    }

    /// What was asked for since it was last said.
    pub fn said(&mut self) -> String {
        core::mem::take(&mut self.text)
    }

    /// Of its snapshot.
    pub fn value(&self, name: &str) -> i64 {
        let snapshot = self.policy.snapshot();
        snapshot.iter().find(|(known, _)| *known == name).expect("a value").1
    }
}

fn short(action: &Action) -> String {
    match action {
        Action::Load { service, until, cores, order } => {
            let cut = until.map_or_else(String::new, |at| format!(" until {}", at.as_ns() / 1e3));
            format!("Load {service} on {cores} by {order:?}{cut}")
        }
        Action::Intersect { service, set: SetId(set) } => format!("Intersect {service} with {set}"),
        Action::Unite { service, set: SetId(set) } => format!("Unite {service} with {set}"),
        Action::Discard { set: SetId(set) } => format!("Discard {set}"),
        Action::Fetch { first, lines } => format!("Fetch {lines} from {}", first.0),
        Action::Place { first, lines } => format!("Place {lines} from {}", first.0),
        Action::Record { service, what } => format!("Record {what:?} of {service}"),
        Action::Wake => "Wake".to_owned(),
        Action::Estimate { service } => format!("Estimate {service}"),
        Action::Dump { service } => format!("Dump {service}"),
        Action::Abandon { service } => format!("Abandon {service}"),
        Action::Subtract { service } => format!("Subtract {service}"),
        Action::Build { service } => format!("Build {service}"),
        Action::Stop { service } => format!("Stop {service}"),
        Action::Hold { service } => format!("Hold {service}"),
        Action::Forget { service } => format!("Forget {service}"),
        Action::Sham { service } => format!("Sham {service}"),
    }
}
