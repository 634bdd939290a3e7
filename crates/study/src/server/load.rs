//! Arrivals as they are written on the command line and in studies.

use std::fmt;

use halfwink_server::Arrivals;

use crate::error::StudyError;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Per cent of what both machines carry together.
    Percent(f64),
    /// Requests per second.
    PerSecond(f64),
}

/// How requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerLoad {
    /// Poisson.
    Poisson(Rate),
    /// At equal distances.
    Constant(Rate),
    /// Poisson of two rates in turn, each for so many seconds in the mean.
    Mmpp([Rate; 2], [f64; 2]),
}

impl Rate {
    fn parse(text: &str) -> Option<Rate> {
        let text = text.trim();
        let number = |text: &str, most: f64| {
            text.trim().parse().ok().filter(|n: &f64| (0.0..=most).contains(n))
        };
        if let Some(rate) = text.strip_suffix("/s") {
            return number(rate, 1e12).map(Rate::PerSecond);
        }
        number(text.strip_suffix('%').unwrap_or(text), 1000.0).map(Rate::Percent)
    }

    /// In requests per second.
    #[must_use]
    pub fn per_s(self, capacity: f64) -> f64 {
        match self {
            Rate::Percent(percent) => percent / 100.0 * capacity,
            Rate::PerSecond(rate) => rate,
        }
    }
}

impl ServerLoad {
    /// Reads `30` or `30%` (Poisson, of what both machines carry), `200/s`, `constant:30`,
    /// `mmpp:10,90,5,1` (two loads, and how many seconds each lasts in the mean).
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<ServerLoad, StudyError> {
        let read = |text: &str| -> Option<ServerLoad> {
            if let Some(rate) = text.strip_prefix("constant:") {
                return Rate::parse(rate).map(ServerLoad::Constant);
            }
            if let Some(parts) = text.strip_prefix("mmpp:") {
                let &[low, high, first, second] = parts.split(',').collect::<Vec<_>>().as_slice()
                else {
                    return None;
                };
                let seconds = |text: &str| {
                    text.trim().parse().ok().filter(|s: &f64| (1e-9..=1e9).contains(s))
                };
                let stays = [seconds(first)?, seconds(second)?];
                return Some(ServerLoad::Mmpp([Rate::parse(low)?, Rate::parse(high)?], stays));
            }
            Rate::parse(text.strip_prefix("poisson:").unwrap_or(text)).map(ServerLoad::Poisson)
        };
        read(text).ok_or_else(|| {
            let message = "expected per cent of what both machines carry or requests per second \
                           (30, 200/s), constant:30, mmpp:10,90,5,1 (two loads, seconds of each)";
            StudyError::Usage(format!("unknown load `{text}`; {message}"))
        })
    }

    /// The arrivals, where both machines carry so many requests per second.
    #[must_use]
    pub fn arrivals(&self, capacity: f64) -> Arrivals {
        match self {
            ServerLoad::Poisson(rate) => Arrivals::Poisson { rate: rate.per_s(capacity) },
            ServerLoad::Constant(rate) => Arrivals::Constant { rate: rate.per_s(capacity) },
            ServerLoad::Mmpp(rates, stays_s) => {
                Arrivals::Mmpp { rates: rates.map(|r| r.per_s(capacity)), stays_s: *stays_s }
            }
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Percent(percent) => write!(f, "{percent}%"),
            Rate::PerSecond(rate) => write!(f, "{rate}/s"),
        }
    }
}

impl fmt::Display for ServerLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLoad::Poisson(rate) => write!(f, "{rate}"),
            ServerLoad::Constant(rate) => write!(f, "constant:{rate}"),
            ServerLoad::Mmpp([low, high], [first, second]) => {
                write!(f, "mmpp:{low},{high},{first},{second}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        use Rate::{PerSecond, Percent};
        for (text, load) in [
            ("30", ServerLoad::Poisson(Percent(30.0))),
            ("poisson:30%", ServerLoad::Poisson(Percent(30.0))),
            ("200/s", ServerLoad::Poisson(PerSecond(200.0))),
            ("constant:5.5/s", ServerLoad::Constant(PerSecond(5.5))),
            ("mmpp:10,90%,5,0.2", ServerLoad::Mmpp([Percent(10.0), Percent(90.0)], [5.0, 0.2])),
        ] {
            assert_eq!(ServerLoad::parse(text).unwrap(), load, "{text}");
            assert_eq!(ServerLoad::parse(&load.to_string()).unwrap(), load, "{text}");
        }
        for text in ["", "-1", "1001", "mmpp:1,2", "mmpp:1,2,3,0", "nan", "constant:", "5/h"] {
            let said = ServerLoad::parse(text).unwrap_err().to_string();
            assert!(said.contains("unknown load"), "{said}");
        }
    }
}
