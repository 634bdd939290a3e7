//! Logs of all that goes in and out of a policy: replayed, they give the same actions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use halfwink_units::Time;

/// Input after which a policy could act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<E> {
    /// No input yet: actions of the start.
    Start,
    /// The policy's timer rang.
    Timer,
    /// An event was delivered.
    Event(E),
}

impl<E: Clone> Input<&E> {
    /// Returns the input with its event copied.
    #[must_use]
    pub fn cloned(self) -> Input<E> {
        match self {
            Input::Start => Input::Start,
            Input::Timer => Input::Timer,
            Input::Event(event) => Input::Event(event.clone()),
        }
    }
}

/// Log of a [`Host`](crate::Host): for every call its time and input, then the actions, then an
/// end. Actions before the first call are those of the start, and come without a beginning.
pub trait Log<E, A> {
    /// A call at `now`.
    fn begin(&mut self, now: Time, input: Input<&E>);
    /// Adds an action of the last call.
    fn action(&mut self, now: Time, action: &A);
    /// All actions are taken. Said again where a world looks twice.
    fn end(&mut self);
}

/// Log that keeps nothing: no size, no code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoLog;

/// A log, if there is one.
impl<E, A, L: Log<E, A>> Log<E, A> for Option<L> {
    #[inline]
    fn begin(&mut self, now: Time, input: Input<&E>) {
        if let Some(log) = self {
            log.begin(now, input);
        }
    }

    #[inline]
    fn action(&mut self, now: Time, action: &A) {
        if let Some(log) = self {
            log.action(now, action);
        }
    }

    #[inline]
    fn end(&mut self) {
        if let Some(log) = self {
            log.end();
        }
    }
}

impl<E, A> Log<E, A> for NoLog {
    #[inline(always)]
    fn begin(&mut self, _now: Time, _input: Input<&E>) {}
    #[inline(always)]
    fn action(&mut self, _now: Time, _action: &A) {}
    #[inline(always)]
    fn end(&mut self) {}
}

/// One call of a policy and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<E, A> {
    /// Time on the world's clock.
    pub now: Time,
    /// Input of the call.
    pub input: Input<E>,
    /// Actions of the call, in order.
    pub actions: Vec<A>,
    /// Lines that are missing just before this one, because the log was full.
    pub dropped: u64,
}

/// A log in memory, with room for a limited number of lines that were not yet taken. A full log
/// drops whole lines and counts them, so that a slow disk never holds up a live program.
#[derive(Clone, Debug)]
pub struct Lines<E, A> {
    ready: VecDeque<Line<E, A>>,
    /// Line of the present call, as far as it is complete.
    open: Option<Line<E, A>>,
    room: usize,
    /// Since the last line that was kept.
    dropping: u64,
    dropped: u64,
    written: u64,
}

impl<E, A> Lines<E, A> {
    /// Creates a log that keeps every line.
    #[must_use]
    pub fn unbounded() -> Lines<E, A> {
        Lines::bounded(usize::MAX)
    }

    /// Keeps at most so many lines at a time.
    #[must_use]
    pub fn bounded(room: usize) -> Lines<E, A> {
        Lines { ready: VecDeque::new(), open: None, room, dropping: 0, dropped: 0, written: 0 }
    }

    /// Lines that are complete and were not taken yet.
    pub fn iter(&self) -> impl Iterator<Item = &Line<E, A>> {
        self.ready.iter()
    }

    /// Takes them, which makes room.
    pub fn take(&mut self) -> impl Iterator<Item = Line<E, A>> {
        core::mem::take(&mut self.ready).into_iter()
    }

    /// Lines dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Lines kept so far, taken ones too.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    fn is_full(&self) -> bool {
        self.ready.len() >= self.room
    }

    fn open(&mut self, now: Time, input: Input<E>) {
        self.open = Some(Line { now, input, actions: Vec::new(), dropped: 0 });
    }
}

impl<E: Clone, A: Clone> Log<E, A> for Lines<E, A> {
    fn begin(&mut self, now: Time, input: Input<&E>) {
        // Where nobody looks at actions, nobody ends a line.
        self.end();
        if self.is_full() {
            self.dropping += 1;
            self.dropped += 1;
            return;
        }
        self.open(now, input.cloned());
    }

    fn action(&mut self, now: Time, action: &A) {
        let is_first = self.written + self.dropped == 0;
        if self.open.is_none() && is_first && !self.is_full() {
            self.open(now, Input::Start);
        }
        if let Some(line) = &mut self.open {
            line.actions.push(action.clone());
        }
    }

    fn end(&mut self) {
        if let Some(mut line) = self.open.take() {
            line.dropped = core::mem::take(&mut self.dropping);
            self.written += 1;
            self.ready.push_back(line);
        }
    }
}

/// Format as data: `"start"`, `"timer"`, or the event. No family has an event of these names.
#[cfg(feature = "serde")]
mod data {
    use core::fmt;
    use core::marker::PhantomData;

    use serde::de::value::{MapAccessDeserializer, StrDeserializer};
    use serde::de::{Error, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Input;

    const START: &str = "start";
    const TIMER: &str = "timer";

    impl<E: Serialize> Serialize for Input<E> {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self {
                Input::Start => to.serialize_str(START),
                Input::Timer => to.serialize_str(TIMER),
                Input::Event(event) => event.serialize(to),
            }
        }
    }

    impl<'de, E: Deserialize<'de>> Deserialize<'de> for Input<E> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Input<E>, D::Error> {
            // Not `untagged`: its errors would not say what is wrong with an event.
            from.deserialize_any(Either(PhantomData))
        }
    }

    struct Either<E>(PhantomData<E>);

    impl<'de, E: Deserialize<'de>> Visitor<'de> for Either<E> {
        type Value = Input<E>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "`{START}`, `{TIMER}` or an event")
        }

        fn visit_str<X: Error>(self, text: &str) -> Result<Input<E>, X> {
            match text {
                START => Ok(Input::Start),
                TIMER => Ok(Input::Timer),
                // An event that says nothing but its name.
                _ => E::deserialize(StrDeserializer::new(text)).map(Input::Event),
            }
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Input<E>, M::Error> {
            E::deserialize(MapAccessDeserializer::new(map)).map(Input::Event)
        }
    }
}
