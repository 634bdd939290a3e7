//! Single values of a machine file: in their range, or an error at the place where they stand.

use std::ops::RangeInclusive;

use halfwink_engine::{Input, InputError};
use halfwink_units::Time;
use toml::Spanned;

/// Watts and picojoules that can be.
pub(super) const POWER: RangeInclusive<f64> = 0.0..=1e9;

/// Turns written values into possible ones.
pub(super) struct Check<'a> {
    pub(super) input: &'a Input,
}

impl Check<'_> {
    pub(super) fn fail<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> InputError {
        self.input.error_at(&at.span(), message)
    }

    pub(super) fn within(
        &self,
        value: &Spanned<usize>,
        min: usize,
        max: usize,
        what: &str,
    ) -> Result<usize, InputError> {
        let n = *value.get_ref();
        if (min..=max).contains(&n) {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{n} {what}, expected {min} to {max}")))
        }
    }

    pub(super) fn power_of_two(
        &self,
        value: &Spanned<usize>,
        what: &str,
    ) -> Result<usize, InputError> {
        let n = *value.get_ref();
        if n.is_power_of_two() && n <= 1 << 20 {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{n} {what}, expected a power of two")))
        }
    }

    pub(super) fn positive(&self, value: &Spanned<f64>, what: &str) -> Result<f64, InputError> {
        let n = *value.get_ref();
        if n.is_finite() && n > 0.0 {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{what} of {n}, expected more than 0")))
        }
    }

    /// A latency from nanoseconds; up to a second, so that no sum of them overflows.
    pub(super) fn time(&self, value: &Spanned<f64>) -> Result<Time, InputError> {
        let ns = *value.get_ref();
        if (0.0..=1e9).contains(&ns) {
            Ok(Time::from_ns(ns))
        } else {
            Err(self.fail(value, format!("a time of {ns} ns, expected 0 to 1e9")))
        }
    }
}

/// Bytes of a size such as `32KB`; K, M and G are powers of 1024.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "B" => 1,
        "KB" | "KiB" => 1 << 10,
        "MB" | "MiB" => 1 << 20,
        "GB" | "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&n| n > 0)
}
