//! What surrounds core switching: whether an OS core that is idle powers down. Mogul 2007 proposes
//! it (Sec 5.6) and does not evaluate it; what is left open is a parameter. Application cores power
//! down as `gating::AdaptiveIdle` says.
//!
//! ```text
//!  OS core idle, how often it is entered ──▶ RatePowerDown ──▶ power down, or stay up
//! ```

mod rate;

pub use rate::{RateParameters, RatePowerDown};

use alloc::boxed::Box;

use halfwink_units::Time;

use crate::{Host, Log, Policy};

/// A policy that powers one idle core down.
pub trait IdlePower: Policy<Event = IdleEvent, Action = IdleAction> + Send {}

impl<P: IdlePower + ?Sized> IdlePower for Box<P> {}

impl<P: IdlePower, L: Log<IdleEvent, IdleAction> + Send> IdlePower for Host<P, L> {}

/// A boxed idle-power policy.
pub type IdlePowerPolicy = Box<dyn IdlePower>;

/// Events for the idle-power policy of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum IdleEvent {
    /// The core has no work left.
    Left,
    /// The core has work again.
    Due,
    /// The core was entered: a system call or an interrupt.
    Entered,
}

/// Actions of an idle-power policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum IdleAction {
    /// Power down until something is due.
    PowerDown,
    /// Keeps the core up.
    StayUp,
}

/// The idle time from which on powering down saves energy: what powering up costs, at full power,
/// over what sleep saves in each moment (assumption; the report names no rule). `None` if it saves
/// nothing.
#[must_use]
pub fn break_even(power_up: Time, active_uw: u64, saved_uw: u64) -> Option<Time> {
    let cost = u128::from(power_up.0) * u128::from(active_uw);
    let ps = cost.checked_div(u128::from(saved_uw))?;
    Some(Time(u64::try_from(ps).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_saves_half_its_power_must_sleep_twice_as_long() {
        let up = Time::ns(333);
        assert_eq!(break_even(up, 27_000_000, 27_000_000), Some(up));
        assert_eq!(break_even(up, 27_000_000, 13_500_000), Some(Time::ns(666)));
        assert_eq!(break_even(up, 5, 0), None);
    }
}
