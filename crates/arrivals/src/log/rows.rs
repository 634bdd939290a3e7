//! Requests of a log while it is read: bad lines, units, order.

use halfwink_engine::{stream, LineError};
use halfwink_inputs::Account;
use halfwink_units::Time;
use rand::RngExt;

use super::super::lines::{ReadError, Skipped};
use super::super::moment::{epoch_unit_s, of_compact, other_order, Order, When};
use super::options::{LogOptions, Spread};
use super::row::{Row, Unit};
use super::{Log, LONGEST_S};

/// Fewer requests say nothing of their unit.
const JUDGED: usize = 8;
/// assumption: a load of fewer requests a second is not what a server is planned for, if its times
/// are whole numbers, or any; and of more neither. Then the unit is asked for.
const SLOWEST_WHOLE: f64 = 1.0;
const SLOWEST: f64 = 0.01;
const FASTEST: f64 = 1e9;
const DAY_S: f64 = 86_400.0;
/// Tenths of a microsecond since 1601, from 1981 to 2108, as Windows counts them, and seconds from
/// there to 1970. As nanoseconds they would be days of 1973 to 1975.
const FILETIMES: std::ops::Range<f64> = 1.2e17..1.6e17;
const FILETIME_S: f64 = 11_644_473_600.0;
/// Numbers that are seconds since 1970, from 1985 to 2128.
const DATES_S: std::ops::Range<f64> = 5e8..5e9;

/// Seconds since 1970 of a number, if it is a date.
type Date = fn(f64) -> Option<f64>;

/// Orders of day and month that dates between slashes have.
#[derive(Clone, Copy, Default)]
struct Orders {
    are_there: bool,
    day_first: bool,
    month_first: bool,
}

impl Orders {
    fn add(&mut self, order: Order) {
        self.are_there = true;
        self.day_first |= order == Order::DayFirst;
        self.month_first |= order == Order::MonthFirst;
    }
}

/// Requests in the order of their lines.
pub(super) struct Rows<'a> {
    options: &'a LogOptions,
    /// Times as they are written, and sizes.
    rows: Vec<(f64, f64)>,
    /// Times are numbers, as the first one was.
    are_numbers: bool,
    are_exact: bool,
    /// Orders of day and month, of dates between slashes.
    orders: Orders,
    /// Times of a table stay as they are where no two are the same.
    pub(super) is_table: bool,
    /// Rows with a size.
    sized: usize,
    skipped: Skipped,
}

impl<'a> Rows<'a> {
    pub(super) fn new(options: &'a LogOptions) -> Rows<'a> {
        let skipped = Skipped::default();
        let (are_numbers, are_exact) = (false, false);
        let (is_table, sized) = (false, 0);
        let (rows, orders) = (Vec::new(), Orders::default());
        Rows { options, rows, are_numbers, are_exact, orders, is_table, sized, skipped }
    }

    /// Takes what a line is: a request, nothing, or bad.
    pub(super) fn take(&mut self, row: Result<Option<Row>, LineError>) -> Result<(), ReadError> {
        match row {
            Ok(None) => {}
            Ok(Some(Row { when, size, .. })) => {
                let (at, is_number, is_exact) = match when {
                    When::Number(number) => (number, true, number.fract() != 0.0),
                    When::Date { s, is_exact } => (s, false, is_exact),
                    When::Slashed { s, is_exact, order } => {
                        self.orders.add(order);
                        (s, false, is_exact)
                    }
                };
                if self.rows.is_empty() {
                    self.are_numbers = is_number;
                }
                if is_number != self.are_numbers {
                    let expected = "times that are all numbers, or all dates";
                    return self.bad(LineError::new(self.lines() + 1, b"another time", expected));
                }
                self.are_exact |= is_exact;
                self.rows.push((at, size.unwrap_or(0.0)));
                self.sized += usize::from(size.is_some());
            }
            Err(error) => self.bad(error)?,
        }
        Ok(())
    }

    /// Leaves out the request that was taken last, which is this; not if it is the only one.
    pub(super) fn forget_last(&mut self, row: &Row) -> bool {
        let has_others = self.rows.len() > 1;
        if has_others {
            self.rows.pop();
            self.sized -= usize::from(row.size.is_some());
        }
        has_others
    }

    fn bad(&mut self, error: LineError) -> Result<(), ReadError> {
        self.skipped.add(error);
        let lines = self.lines();
        if self.options.bad.is_lost(self.skipped.count, lines) {
            return Err(self.skipped.refused(lines, self.options.bad));
        }
        Ok(())
    }

    fn lines(&self) -> u64 {
        self.rows.len() as u64 + self.skipped.count
    }

    /// Seconds of a unit of times.
    fn unit_s(&self, of_column: Option<Unit>) -> Result<f64, ReadError> {
        if !self.are_numbers {
            return Ok(1.0);
        }
        if let Some(unit) = self.options.time_unit.or(of_column) {
            return Ok(unit.seconds());
        }
        let times = || self.rows.iter().map(|row| row.0);
        let (least, most) = times()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| {
                (least.min(at), most.max(at))
            });
        let unit_s = epoch_unit_s(least);
        if unit_s < 1.0 || DATES_S.contains(&least) || self.rows.len() < JUDGED {
            return Ok(unit_s);
        }
        let rate = (self.rows.len() - 1) as f64 / (most - least);
        let are_whole = times().all(|at| at.fract() == 0.0);
        let slowest = if are_whole { SLOWEST_WHOLE } else { SLOWEST };
        if (slowest..=FASTEST).contains(&rate) {
            return Ok(1.0);
        }
        let (count, s) = (self.rows.len(), most - least);
        Err(ReadError::Other(format!(
            "{count} requests in {s} seconds, if times are seconds: {rate:.3e} a second; say what \
             they are, ms, us, ns or s: log:time-unit=ms:FILE"
        )))
    }

    /// Orders day and month of dates between slashes as the file has them: by those that fit one
    /// order alone, else so that the file's span is the least.
    fn order_dates(&mut self) -> Result<(), ReadError> {
        let Orders { are_there: true, day_first, month_first } = self.orders else {
            return Ok(());
        };
        let is_day_first = match (day_first, month_first) {
            (true, true) => {
                let message =
                    "dates with the day first and with the month first, expected one order";
                return Err(ReadError::Other(message.to_owned()));
            }
            (false, false) => {
                let span = |times: &dyn Fn(f64) -> f64| {
                    let times = || self.rows.iter().map(|row| times(row.0));
                    times().fold(f64::MIN, f64::max) - times().fold(f64::MAX, f64::min)
                };
                span(&|s| other_order(s).unwrap_or(s)) < span(&|s| s)
            }
            (is_day_first, _) => is_day_first,
        };
        // Days behind the twelfth fit one order alone, and are in it.
        if is_day_first {
            self.rows.iter_mut().for_each(|row| row.0 = other_order(row.0).unwrap_or(row.0));
        }
        Ok(())
    }

    /// Takes numbers as dates that are written without marks, or as those of Windows, if all are.
    fn find_dates(&mut self) {
        let compact: Date = |at| of_compact(at as u64).filter(|_| at.fract() == 0.0 && at > 0.0);
        let filetime: Date = |at| FILETIMES.contains(&at).then_some(at * 1e-7 - FILETIME_S);
        // A reading is meant only if it fits every row: else numbers are numbers.
        for (date, is_exact) in [(compact, false), (filetime, true)] {
            if self.rows.iter().all(|row| date(row.0).is_some()) {
                self.rows.iter_mut().for_each(|row| row.0 = date(row.0).unwrap_or(row.0));
                (self.are_numbers, self.are_exact) = (false, is_exact);
                return;
            }
        }
    }

    /// Counts days of times of day: one that is hours earlier than the one before is of the next
    /// day.
    fn count_days(&mut self) {
        if self.are_numbers || !self.rows.iter().all(|row| (0.0..DAY_S).contains(&row.0)) {
            return;
        }
        let (mut day_s, mut before) = (0.0, f64::NEG_INFINITY);
        // Half a day tells the next one from a request that only stands behind a later one.
        for row in &mut self.rows {
            let at = row.0;
            if at + DAY_S / 2.0 < before {
                day_s += DAY_S;
            } else if before.is_finite() && at - DAY_S / 2.0 > before && day_s > 0.0 {
                day_s -= DAY_S;
            }
            before = at;
            row.0 += day_s;
        }
    }

    /// The log, by time.
    pub(super) fn log(
        mut self,
        format: &str,
        expected: &'static str,
        of_column: Option<Unit>,
    ) -> Result<Log, ReadError> {
        let lines = self.lines();
        if self.rows.is_empty() {
            return Err(match self.skipped.examples.first() {
                Some(error) => error.clone().into(),
                None => ReadError::Empty { expected },
            });
        }
        if !self.options.bad.accepts(self.skipped.count, lines) {
            return Err(self.skipped.refused(lines, self.options.bad));
        }
        if self.are_numbers && self.options.time_unit.or(of_column).is_none() {
            self.find_dates();
        }
        self.order_dates()?;
        self.count_days();
        let unit_s = self.unit_s(of_column)?;
        // Milliseconds and less are as exact as they are written.
        let are_exact = self.are_exact || unit_s < 1.0;
        let Rows { mut rows, skipped, options, sized, is_table, are_numbers, .. } = self;
        let is_minute = |row: &(f64, f64)| row.0 % 60.0 == 0.0;
        let has_minutes = !are_numbers && rows.len() >= JUDGED && rows.iter().all(is_minute);
        let written_s = if has_minutes { 60.0 } else { 1.0 };
        let mut latest = f64::NEG_INFINITY;
        let mut disordered = 0;
        for row in &rows {
            disordered += u64::from(row.0 < latest);
            latest = latest.max(row.0);
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = rows[0].0;
        let found = (latest - first) * unit_s;
        if found > LONGEST_S {
            return Err(ReadError::Span { found, most: LONGEST_S });
        }
        // Differences first: nanoseconds since 1970 are exact to a few hundred of them. They
        // replace the times: a log of gigabytes has more requests than memory holds twice.
        rows.iter_mut().for_each(|row| row.0 = (row.0 - first) * unit_s);
        let are_apart = || rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let times: Vec<Time> = if are_exact || (is_table && are_apart()) {
            rows.iter().map(|row| at(row.0)).collect()
        } else {
            spread(&rows, options.spread, written_s)
        };
        let mut account = Account::of(format);
        account.play("requests", rows.len() as u64);
        account.leave_out("bad lines", &skipped.first(), skipped.count);
        // This reuses the memory of the rows; shrinking frees half of it.
        let mut sizes: Vec<f64> = rows.into_iter().map(|row| row.1).collect();
        if sized == 0 {
            sizes.clear();
        }
        sizes.shrink_to_fit();
        let start_s = first * unit_s;
        Ok(Log { times, sizes, sizes_are: None, start_s, skipped, disordered, account })
    }
}

fn at(seconds: f64) -> Time {
    Time((seconds * 1e12).round() as u64)
}

/// Spreads requests of whole seconds or minutes, rising, over them.
fn spread(rows: &[(f64, f64)], how: Spread, written_s: f64) -> Vec<Time> {
    let mut random = match how {
        Spread::Even => None,
        Spread::Random { seed } => Some(stream(seed, "log")),
    };
    let mut times = Vec::with_capacity(rows.len());
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let first = times.len();
        for n in 0..same.len() {
            let within = match &mut random {
                None => (n as f64 + 0.5) / same.len() as f64,
                Some(random) => random.random::<f64>(),
            };
            times.push(at(same[0].0) + at(within * written_s));
        }
        times[first..].sort_unstable();
    }
    times
}
