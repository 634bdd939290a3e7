//! Options for reading a log.

use halfwink_inputs::Share;

use super::row::Unit;

/// Place of a request in its second, if its log keeps whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Spreads the requests of a second at equal distances.
    Even,
    /// At random times: as a Poisson process with that many arrivals.
    Random {
        /// Seed of the random stream.
        seed: u64,
    },
}

/// Options for reading a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// Places of requests in logs of whole seconds.
    pub spread: Spread,
    /// Bad lines that are left out; more are an error.
    pub bad: Share,
    /// The column of times of a CSV: its name, or its number from 1.
    pub time_column: Option<String>,
    /// The unit of times that are numbers.
    pub time_unit: Option<Unit>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        let spread = Spread::Random { seed: 1 };
        LogOptions { spread, bad: Share::default(), time_column: None, time_unit: None }
    }
}
