//! What goes wrong on a chip, as a description has it.

use halfwink_engine::InputError;
use halfwink_units::Time;
use serde::Deserialize;
use toml::Spanned;

use super::value::Check;

/// Faults that are injected; the default is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// Share of orders to wake that are lost (0..=1).
    pub wake_lost: f64,
    /// Time after a lost order at which the core wakes nevertheless.
    pub watchdog: Time,
    /// Share of wake-ups that take longer (0..=1).
    pub wake_late: f64,
    /// Mean delay of a late wake-up; exponential.
    pub late: Time,
    /// Share of tokens that never come (0..=1).
    pub token_lost: f64,
    /// Share of the others that come late (0..=1).
    pub token_late: f64,
    /// Mean delay of a late token; exponential.
    pub token_delay: Time,
    /// Mean time for which a core for the kernel takes threads; exponential. Zero means always.
    pub os_silent_every: Time,
    /// Mean time for which it then takes none; exponential.
    pub os_silent: Time,
    /// After how long it takes none any more, in the mean; exponential. Zero: never.
    pub os_gone_after: Time,
    /// A thread that was not taken for so long goes home.
    pub os_timeout: Time,
    /// Seed of all draws: a run's, not the file's.
    pub seed: u64,
}

impl FaultSpec {
    /// All is as it should be.
    pub const NONE: FaultSpec = FaultSpec {
        wake_lost: 0.0,
        // assumption: a power controller looks at what it was told a hundred wake-ups later.
        watchdog: Time::ns(1_000),
        wake_late: 0.0,
        late: Time::ZERO,
        token_lost: 0.0,
        token_late: 0.0,
        token_delay: Time::ZERO,
        os_silent_every: Time::ZERO,
        os_silent: Time::ns(100_000),
        os_gone_after: Time::ZERO,
        // As often as a caller of `halfwink live delegate` looks whether its worker is there.
        os_timeout: Time::ns(20_000_000),
        seed: 0,
    };

    /// Returns whether wake-ups can be faulty.
    #[must_use]
    pub fn wakes(&self) -> bool {
        self.wake_lost > 0.0 || self.wake_late > 0.0
    }

    /// Returns whether tokens can be faulty.
    #[must_use]
    pub fn tokens(&self) -> bool {
        self.token_lost > 0.0 || self.token_late > 0.0
    }

    /// Returns whether a core for the kernel can stop taking threads.
    #[must_use]
    pub fn silences(&self) -> bool {
        self.os_silent_every > Time::ZERO || self.os_gone_after > Time::ZERO
    }

    /// Returns whether any fault is enabled.
    #[must_use]
    pub fn any(&self) -> bool {
        self.wakes() || self.tokens() || self.silences()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultsSection {
    wake_lost: Option<Spanned<f64>>,
    watchdog_ns: Option<Spanned<f64>>,
    wake_late: Option<Spanned<f64>>,
    late_ns: Option<Spanned<f64>>,
    token_lost: Option<Spanned<f64>>,
    token_late: Option<Spanned<f64>>,
    token_late_ns: Option<Spanned<f64>>,
    os_silent_every_us: Option<Spanned<f64>>,
    os_silent_us: Option<Spanned<f64>>,
    os_gone_us: Option<Spanned<f64>>,
    os_timeout_us: Option<Spanned<f64>>,
}

impl Check<'_> {
    /// Faults that can be.
    pub(super) fn faults(&self, file: Option<&FaultsSection>) -> Result<FaultSpec, InputError> {
        let none = FaultSpec::NONE;
        let Some(file) = file else { return Ok(none) };
        let number = |value: &Option<Spanned<f64>>, name: &str, least: f64, most: f64| {
            let Some(value) = value else { return Ok(None) };
            let found = *value.get_ref();
            if (least..=most).contains(&found) {
                return Ok(Some(found));
            }
            Err(self.fail(value, format!("faults.{name}: {found}, expected {least} to {most}")))
        };
        let share = |value, name| Ok(number(value, name, 0.0, 1.0)?.unwrap_or(0.0));
        // A second at most, as all times of a machine.
        let ns = |value, name, least, otherwise| {
            Ok(number(value, name, least, 1e9)?.map_or(otherwise, Time::from_ns))
        };
        let us = |value, name, least, otherwise| {
            let found = number(value, name, least, 1e6)?;
            Ok(found.map_or(otherwise, |us| Time::from_ns(us * 1e3)))
        };
        Ok(FaultSpec {
            wake_lost: share(&file.wake_lost, "wake_lost")?,
            watchdog: ns(&file.watchdog_ns, "watchdog_ns", 0.0, none.watchdog)?,
            wake_late: share(&file.wake_late, "wake_late")?,
            late: ns(&file.late_ns, "late_ns", 0.0, none.late)?,
            token_lost: share(&file.token_lost, "token_lost")?,
            token_late: share(&file.token_late, "token_late")?,
            token_delay: ns(&file.token_late_ns, "token_late_ns", 0.0, none.token_delay)?,
            os_silent_every: us(
                &file.os_silent_every_us,
                "os_silent_every_us",
                0.0,
                none.os_silent_every,
            )?,
            os_silent: us(&file.os_silent_us, "os_silent_us", 1e-3, none.os_silent)?,
            os_gone_after: us(&file.os_gone_us, "os_gone_us", 0.0, none.os_gone_after)?,
            os_timeout: us(&file.os_timeout_us, "os_timeout_us", 0.0, none.os_timeout)?,
            seed: none.seed,
        })
    }
}
