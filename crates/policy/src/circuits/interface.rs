//! Events and actions of an optical switch, between a world and its policy.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use halfwink_units::Time;

use crate::{below, Host, Log, Policy};

/// Number that stands for no host.
pub const NOBODY: u16 = u16::MAX;

/// A policy that says which circuits come next.
pub trait Circuits: Policy<Event = Event, Action = Action> + Send {
    /// Returns whether it decides at the next [`Event::Next`] by demand. Otherwise a world may omit
    /// [`Event::Demand`].
    fn wants_demand(&self) -> bool {
        false
    }

    /// Returns whether it uses circuits at all; otherwise all packets go through a packet switch.
    fn has_circuits(&self) -> bool {
        true
    }

    /// Planes that it schedules one by one. Where a switch has more, they are joined alike.
    fn planes(&self) -> u8 {
        1
    }

    /// Returns whether its answer depends on plane and slot alone, and all days of a plane after
    /// the first have the same length. A world without waiting data may then skip slots.
    fn is_periodic(&self) -> bool {
        false
    }
}

impl<C: Circuits + ?Sized> Circuits for Box<C> {
    fn wants_demand(&self) -> bool {
        (**self).wants_demand()
    }

    fn has_circuits(&self) -> bool {
        (**self).has_circuits()
    }

    fn planes(&self) -> u8 {
        (**self).planes()
    }

    fn is_periodic(&self) -> bool {
        (**self).is_periodic()
    }
}

impl<C: Circuits, L: Log<Event, Action> + Send> Circuits for Host<C, L> {
    fn wants_demand(&self) -> bool {
        self.policy().wants_demand()
    }

    fn has_circuits(&self) -> bool {
        self.policy().has_circuits()
    }

    fn planes(&self) -> u8 {
        self.policy().planes()
    }

    fn is_periodic(&self) -> bool {
        self.policy().is_periodic()
    }
}

/// Any policy of circuits.
pub type CircuitsPolicy = Box<dyn Circuits>;

/// Events for a policy of circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// Sets the demand of a host for another, and replaces the last value.
    Demand {
        /// Host where the data waits.
        from: u16,
        /// Host that the data is for.
        to: u16,
        /// Number of bytes.
        bytes: u64,
    },
    /// The circuits of a plane come down, or it has none yet: the night before this slot begins.
    Next {
        /// Number of the plane.
        plane: u8,
        /// Slots that it had before.
        slot: u32,
    },
    /// A host answers no more: it gets no circuits.
    Lost {
        /// Number of the host.
        host: u16,
    },
    /// A lost host is there again.
    Back {
        /// Number of the host.
        host: u16,
    },
}

/// Actions of a policy of circuits, in answer to [`Event::Next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Joins one host to another in the next day of a plane.
    Join {
        /// Number of the plane.
        plane: u8,
        /// Host that sends.
        from: u16,
        /// Host that receives.
        to: u16,
    },
    /// The next day of a plane is so long, and has what was joined since the last one.
    Day {
        /// Number of the plane.
        plane: u8,
        /// Time from the end of the night to the begin of the next; [`Time::NEVER`] if there is
        /// none.
        #[cfg_attr(feature = "serde", serde(rename = "length_ps"))]
        length: Time,
    },
}

impl Action {
    /// Checks that a switch of so many hosts can do it, whose days have a shortest length.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self, hosts: u16, shortest: Time) -> Result<(), String> {
        match *self {
            Action::Join { from, to, .. } => {
                below("host", from.into(), hosts.into())?;
                below("host", to.into(), hosts.into())
            }
            Action::Day { length, .. } => {
                let least = shortest.max(Time(1));
                let is_long = length >= least;
                is_long.then_some(()).ok_or_else(|| {
                    format!("requested a day of {length}, expected {least} at least")
                })
            }
        }
    }
}

impl Event {
    /// Checks that these actions answer it: [`Event::Next`] with one day of its plane behind its
    /// circuits, all others with nothing. Circuits that share a host are the switch's to reject.
    ///
    /// # Errors
    /// The answer found and the one expected.
    pub fn is_answered_by<'a>(
        &self,
        mut actions: impl Iterator<Item = &'a Action>,
    ) -> Result<(), String> {
        let Event::Next { plane, .. } = *self else {
            let found = actions.next();
            return found.map_or(Ok(()), |action| {
                Err(format!("requested {action:?}, expected that in answer to `next` alone"))
            });
        };
        let is_join =
            |action: &&Action| matches!(action, Action::Join { plane: of, .. } if *of == plane);
        let is_day =
            |action: &&Action| matches!(action, Action::Day { plane: of, .. } if *of == plane);
        match actions.find(|action| !is_join(action)) {
            Some(day) if is_day(&day) && actions.next().is_none() => Ok(()),
            Some(found) if !is_day(&found) => Err(format!(
                "requested {found:?}, expected circuits of plane {plane}, then one day"
            )),
            found => {
                let days = if found.is_some() { "more behind its day" } else { "no day" };
                Err(format!("requested {days}, expected one `day` of plane {plane} at the end"))
            }
        }
    }
}
