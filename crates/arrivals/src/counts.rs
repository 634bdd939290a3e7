//! Arrivals from counts: requests in each minute, hour or other step.
//!
//! Two columns, perhaps with a header: when the step begins (a date and time, a time of day, or
//! seconds) and how many requests came in it, as `1998-04-30 21:30:00,2`. The step is the median
//! distance between rows; steps that are left out hold no requests, and are counted. Exports of
//! monitoring systems have rates instead ([`exports`](super::exports)). Within a step
//! requests come as a Poisson process: what they did there, counts do not tell.

use std::io::{BufRead, BufReader, Cursor, Read};

use halfwink_engine::LineError;
use halfwink_inputs::{look, may_be_cut, Account, Family, Share, NO_END};
use halfwink_units::Time;

pub use super::exports::Values;
use super::exports::{self, Export};
use super::lines::{Lines, ReadError, Skipped};
use super::log::LONGEST_S;
use super::{moment, Arrivals};

const ROW: &str = "`period,count`, as `1998-04-30 21:30:00,2`";
const ROWS: &str = "two rows or more, as `1998-04-30 21:30:00,2`";
const REGULAR: &str = "whole steps after the line before";
const PERIOD: &str = "a period of seconds, a date and time, or a time of day";
/// Most steps, those that are left out too.
const MOST: f64 = 2e7;
/// Numbers of steps stay below: larger ones are seconds since 1970.
const MOST_NUMBER: f64 = 1e6;
/// Bytes that tell an export, and most bytes of one.
const MOST_HEAD: u64 = 1 << 16;
const MOST_EXPORT: u64 = 1 << 30;
/// The highest rate, in requests per second.
const HIGHEST: f64 = 1e12;

/// Options for reading counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CountOptions {
    /// Bad lines that are left out; more are an error.
    pub bad: Share,
    /// Meaning of the values; none if the file says it.
    pub values: Option<Values>,
}

impl From<Share> for CountOptions {
    fn from(bad: Share) -> CountOptions {
        CountOptions { bad, values: None }
    }
}

/// Counts that were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// Begin of the first step, in seconds (since 1970 for dates, since midnight for times).
    pub start_s: f64,
    /// Length of each step.
    pub step: Time,
    /// Requests in each step.
    pub requests: Vec<f64>,
    /// Steps without a row.
    pub missing: u64,
    /// Bad lines that were skipped.
    pub skipped: Skipped,
    /// Account of everything that was read or left out.
    pub account: Account,
}

/// A row, and its line for what is said about it.
struct Row {
    at_s: f64,
    requests: f64,
    line: u64,
    text: Vec<u8>,
}

impl Counts {
    /// Reads counts, or an export of rates, leaving out bad lines up to such a share.
    ///
    /// # Errors
    /// If it cannot be read, has fewer than two rows or too many bad ones.
    pub fn read(
        mut reader: impl Read,
        options: impl Into<CountOptions>,
    ) -> Result<Counts, ReadError> {
        let options = options.into();
        let mut head = Vec::new();
        reader.by_ref().take(MOST_HEAD).read_to_end(&mut head)?;
        if exports::begins(&head) {
            reader.by_ref().take(MOST_EXPORT).read_to_end(&mut head)?;
            if let Some(export) = exports::read(&head) {
                let other = look(&head, Family::Counts).filter(|_| export.is_err());
                return match other {
                    Some(other) => Err(ReadError::Other(other.to_string())),
                    None => Counts::exported(export?, may_be_cut(&head), options),
                };
            }
        }
        let other = look(&head, Family::Counts);
        let whole = BufReader::new(Cursor::new(head).chain(reader));
        let read = Counts::columns(whole, options.bad);
        match (read, other) {
            (Err(_), Some(other)) => Err(ReadError::Other(other.to_string())),
            (read, _) => {
                let (counts, is_open) = read?;
                Ok(counts.told(options.values == Some(Values::Rates), is_open))
            }
        }
    }

    /// Takes the values as requests a second, if they are that, and completes the account.
    fn told(mut self, are_rates: bool, is_open: bool) -> Counts {
        if are_rates {
            self.of_seconds();
        }
        let (steps, total) = (self.requests.len() as u64, self.total().round() as u64);
        self.account.play(&format!("steps of {} s", self.step.as_s()), steps);
        self.account.play("requests", total);
        self.account.leave_out("missing steps", "they hold no requests", self.missing);
        self.account.leave_out("bad lines", &self.skipped.first(), self.skipped.count);
        // Tables need no newline at their end (RFC 4180, 2).
        self.account.leave_out("check of the end", NO_END, u64::from(is_open));
        self
    }

    /// Multiplies rates by the length of a step.
    fn of_seconds(&mut self) {
        let step_s = self.step.as_s();
        self.requests.iter_mut().for_each(|requests| *requests *= step_s);
    }

    fn exported(export: Export, is_open: bool, options: CountOptions) -> Result<Counts, ReadError> {
        let row = |(n, (at_s, requests)): (usize, &(f64, f64))| Row {
            at_s: *at_s,
            requests: *requests,
            line: n as u64 + 1,
            text: format!("{at_s},{requests}").into_bytes(),
        };
        let rows: Vec<Row> = export.rows.iter().enumerate().map(row).collect();
        let mut counts = Counts { account: Account::of(export.format), ..Counts::of(&rows)? };
        counts.fill(&rows)?;
        let lines = rows.len() as u64;
        if !options.bad.accepts(counts.skipped.count, lines) {
            return Err(counts.skipped.refused(lines, options.bad));
        }
        let about = "they add nothing to the sum of their step";
        counts.account.leave_out("values that are none", about, export.empty);
        let about = "more values at a time than series: they are added up";
        counts.account.leave_out("check of repeated times", about, export.repeated);
        let values = match (options.values, export.values) {
            (Some(values), _) | (None, Ok(values)) => values,
            (None, Err(name)) => {
                return Err(ReadError::Other(format!(
                    "`{name}` may be requests a second or requests of a step: \
                     counts:values=rates:FILE or counts:values=counts:FILE"
                )))
            }
        };
        Ok(counts.told(values == Values::Rates, is_open))
    }

    /// Reads two columns; returns also whether the last line may be cut.
    fn columns(reader: impl BufRead, bad: Share) -> Result<(Counts, bool), ReadError> {
        let mut lines = Lines::new(reader);
        let mut skipped = Skipped::default();
        let mut rows: Vec<Row> = Vec::new();
        let (mut begun, mut mark, mut unit_s) = (false, None, 1.0);
        while let Some((number, line)) = lines.next()? {
            if bad.is_lost(skipped.count, rows.len() as u64 + skipped.count) {
                break;
            }
            match line {
                Ok(line) if line.is_empty() || line.starts_with(b"#") => continue,
                Ok(line) => match row(line, number, &mut mark) {
                    Some(row) => rows.push(row),
                    None if !begun && is_header(line) => unit_s = named_unit_s(line),
                    None => skipped.add(LineError::new(number, line, ROW)),
                },
                Err(error) => skipped.add(error),
            }
            begun = true;
        }
        let is_open = lines.unended().is_some_and(may_be_cut);
        let lines = rows.len() as u64 + skipped.count;
        let refused = |skipped: &Skipped| match bad.accepts(skipped.count, lines) {
            true => Ok(()),
            false => Err(skipped.refused(lines, bad)),
        };
        refused(&skipped)?;
        // Steps that are only numbered are as long as the header's name.
        if rows.iter().all(|row| row.at_s.fract() == 0.0 && row.at_s < MOST_NUMBER) {
            rows.iter_mut()
                .filter(|row| !row.text.contains(&b':'))
                .for_each(|it| it.at_s *= unit_s);
        }
        // Some tools write the latest step first.
        if rows.len() > 1 && rows.windows(2).all(|pair| pair[0].at_s > pair[1].at_s) {
            rows.reverse();
        }
        let mut counts = Counts { skipped, ..Counts::of(&rows)? };
        counts.fill(&rows)?;
        refused(&counts.skipped)?;
        Ok((counts, is_open))
    }

    /// Derives the first time and the step from the rows.
    fn of(rows: &[Row]) -> Result<Counts, ReadError> {
        let mut steps: Vec<f64> = rows.windows(2).map(|w| w[1].at_s - w[0].at_s).collect();
        steps.retain(|step| *step > 0.0);
        steps.sort_by(f64::total_cmp);
        let middle = steps.len().saturating_sub(1) / 2;
        let (Some(&step_s), Some(first)) = (steps.get(middle), rows.first()) else {
            return Err(ReadError::Empty { expected: ROWS });
        };
        // Seconds are written in decimals: the nearest nanosecond is meant.
        let step = Time::ns((step_s.min(LONGEST_S) * 1e9).round() as u64);
        if step == Time::ZERO || step_s > LONGEST_S {
            return Err(LineError::new(first.line, &first.text, PERIOD).into());
        }
        let requests = Vec::with_capacity(rows.len());
        let (skipped, account) = (Skipped::default(), Account::of("counts"));
        Ok(Counts { start_s: first.at_s, step, requests, missing: 0, skipped, account })
    }

    fn fill(&mut self, rows: &[Row]) -> Result<(), ReadError> {
        let step_s = self.step.as_s();
        for row in rows {
            let place = (row.at_s - self.start_s) / step_s;
            let regular = (place - place.round()).abs() < 1e-3 && row.requests / step_s <= HIGHEST;
            let next = self.requests.len() as f64;
            if !regular || place.round() < next {
                self.skipped.add(LineError::new(row.line, &row.text, REGULAR));
                continue;
            }
            let found = row.at_s - self.start_s;
            let most = LONGEST_S.min(MOST * step_s);
            if found > most {
                return Err(ReadError::Span { found, most });
            }
            let left_out = (place.round() - next) as usize;
            self.missing += left_out as u64;
            self.requests.resize(self.requests.len() + left_out, 0.0);
            self.requests.push(row.requests);
        }
        Ok(())
    }

    /// Returns the number of all requests.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.requests.iter().sum()
    }

    /// Requests in the fullest step.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.requests.iter().copied().fold(0.0, f64::max)
    }

    /// The steps from this time on, in seconds since the first one, for so long; what there is of
    /// them.
    #[must_use]
    pub fn part(&self, from_s: f64, for_s: f64) -> Counts {
        let index = |s: f64| ((s / self.step.as_s()).round() as usize).min(self.requests.len());
        let (from, to) = (index(from_s), index(from_s + for_s));
        let requests = self.requests[from..to.max(from)].to_vec();
        let start_s = self.start_s + from as f64 * self.step.as_s();
        Counts { start_s, requests, ..self.without_requests() }
    }

    fn without_requests(&self) -> Counts {
        let (skipped, account) = (self.skipped.clone(), self.account.clone());
        Counts { requests: Vec::new(), skipped, account, ..*self }
    }

    /// The arrivals: Poisson at the rate of each step.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        let step_s = self.step.as_s();
        let per_s = self.requests.iter().map(|count| count / step_s).collect();
        Arrivals::Rates { step: self.step, per_s }
    }
}

/// Returns true if a first line names two columns. A line with a time or a number in it is a
/// damaged row.
fn is_header(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let names = columns(&text).is_some_and(|(_, period, count)| {
        moment::seconds(&period).is_none() && count.parse::<f64>().is_err()
    });
    names && line.iter().any(u8::is_ascii_alphabetic)
}

/// Seconds of the steps that a header's first name says; 1 if it says nothing.
fn named_unit_s(line: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(line).to_ascii_lowercase();
    match columns(&text).map(|(_, period, _)| period).as_deref() {
        Some("minute" | "min" | "minutes") => 60.0,
        Some("hour" | "hours" | "hr") => 3600.0,
        Some("day" | "days") => 86_400.0,
        _ => 1.0,
    }
}

/// Returns the mark between the two columns, if commas are decimal points, and both cells; none if
/// there is no second one or a quote is not closed.
fn columns(text: &str) -> Option<(Option<char>, String, String)> {
    let split = |mark: char| Some((Some(mark), text.split_once(mark)?));
    // Where a comma is a decimal point, columns stand between semicolons or tabs.
    let marked = [';', '\t'].into_iter().find_map(split);
    let (mark, (period, count)) = marked.or_else(|| Some((None, text.split_once(',')?)))?;
    Some((mark, unquoted(period)?, unquoted(count)?))
}

fn unquoted(cell: &str) -> Option<String> {
    let cell = cell.trim();
    let Some(opened) = cell.strip_prefix('"') else {
        return (!cell.ends_with('"')).then(|| cell.to_owned());
    };
    opened.strip_suffix('"').map(|within| within.trim().to_owned())
}

/// Returns true if commas part a number into thousands.
pub(crate) fn is_grouped(number: &str) -> bool {
    let mut groups = number.split(',');
    let first = groups.next().unwrap_or_default();
    let are_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = (1..=3).contains(&first.len()) && are_digits(first);
    let mut rest = groups.peekable();
    is_first && rest.peek().is_some() && rest.all(|group| group.len() == 3 && are_digits(group))
}

/// Reads a row whose columns stand apart as in the rows before.
fn row(line: &[u8], number: u64, as_before: &mut Option<Option<char>>) -> Option<Row> {
    let text = std::str::from_utf8(line).ok()?;
    let (mark, period, count) = columns(text)?;
    if mark != *as_before.get_or_insert(mark) {
        return None;
    }
    let is_quoted = text.trim_end().ends_with('"');
    let requests: f64 = match mark {
        // Without quotes a comma begins a third column.
        None if count.contains(',') && !is_quoted => return None,
        None if is_grouped(&count) => count.replace(',', "").parse().ok()?,
        None => count.parse().ok()?,
        // Which of the two a comma is, 1,234 does not say.
        Some(_) if is_grouped(&count) => return None,
        Some(_) => count.replacen(',', ".", 1).parse().ok()?,
    };
    let at_s = moment::seconds(&period)?;
    let fits = (0.0..=1e18).contains(&requests);
    fits.then(|| Row { at_s, requests, line: number, text: line.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_of_steps_become_rates() {
        let text = "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,11\n\
                    1998-04-30 21:34:00,9\nwhat?\n1998-04-30 21:34:30,1\n1998-04-30 21:35:00,60\n\
                    1998-04-30 21:36:00,0\n1998-04-30 21:37:00,0\n";
        let counts = Counts::read(text.as_bytes(), Share::ALL).unwrap();
        assert_eq!(counts.requests, [2.0, 11.0, 0.0, 0.0, 9.0, 60.0, 0.0, 0.0]);
        assert_eq!((counts.missing, counts.skipped.count), (2, 2));
        assert_eq!((counts.start_s, counts.step), (893_971_800.0, Time::ns(60_000_000_000)));
        assert_eq!((counts.total(), counts.peak()), (82.0, 60.0));
        let rates = counts.arrivals();
        rates.check().unwrap();
        assert!((rates.rate() - 82.0 / 480.0).abs() < 1e-12);
        assert_eq!(counts.part(60.0, 120.0).requests, [11.0, 0.0]);
        assert_eq!(counts.part(300.0, 1e9).requests, [60.0, 0.0, 0.0]);
        assert!(counts.part(1e9, 1.0).requests.is_empty());
        let told: Vec<String> = counts.skipped.examples.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        line 5: found `what?`, expected `period,count`, as `1998-04-30 21:30:00,2`
        line 6: found `1998-04-30 21:34:30,1`, expected whole steps after the line before
        ");
    }

    #[test]
    fn the_shipped_world_cup_is_read() {
        let path = "/../../workloads/server/worldcup98-requests-per-minute.csv.xz";
        let path = format!("{}{path}", env!("CARGO_MANIFEST_DIR"));
        let budget = halfwink_inputs::Budget::new(1 << 30);
        let file = halfwink_inputs::open_input(path.as_ref(), &budget).unwrap();
        let cup = Counts::read(file, Share::default()).unwrap();
        assert_eq!((cup.total(), cup.peak()), (1_352_804_107.0, 229_426.0));
        assert_eq!((cup.requests.len(), cup.missing), (125_310, 10));
        assert_eq!(cup.step, Time::ns(60_000_000_000));
        // 30 June 1998, as `workloads/worldcup98-1998-06-30.csv` has it.
        let day = cup.part(899_164_800.0 - cup.start_s, 86_400.0);
        assert_eq!((day.total(), day.peak()), (75_207_657.0, 215_241.0));
    }

    #[test]
    fn times_of_day_and_seconds_are_periods_too() {
        let day =
            Counts::read(&b"minute,requests\n00:00,17613\n00:01,17782\n"[..], Share::default())
                .unwrap();
        assert_eq!((day.step, day.total()), (Time::ns(60_000_000_000), 35_395.0));
        for text in [
            "time,n\n00:00,\"1,500\"\n00:01,\"2,000\"\n00:02,7\n",
            "time;n\n00:00;1500\n00:01;1999,5\n00:02;7,5\n",
            "time\tn\n00:00\t1500\n00:01\t2000\n00:02\t7\n",
            "time,n\n00:02,7\n00:01,2000\n00:00,1500\n",
        ] {
            let counts = Counts::read(text.as_bytes(), Share::default()).unwrap();
            let found = (counts.requests[0], counts.total());
            assert_eq!(found, (1500.0, 3507.0), "{text}");
        }
        for (name, s) in [("hour", 3600), ("minute", 60), ("day", 86_400), ("step", 1)] {
            let text = format!("{name},n\n0,7\n1,8\n2,9\n");
            let counts = Counts::read(text.as_bytes(), Share::default()).unwrap();
            assert_eq!(counts.step, Time::ns(s * 1_000_000_000), "{name}");
        }
        // 1,500 is one and a half, or fifteen hundred.
        assert!(Counts::read(&b"00:00;1,500\n00:01;2,000\n"[..], Share::default()).is_err());
        let half = Counts::read(&b"0.5,1\n0.6,2\n0.7,3\n"[..], Share::default()).unwrap();
        assert_eq!((half.step, &half.requests[..]), (Time::ns(100_000_000), &[1.0, 2.0, 3.0][..]));
    }

    #[test]
    fn account_of_counts_tells_all_that_is_not_played() {
        let rows = |of: std::ops::Range<u32>| -> String {
            of.map(|minute| format!("{},{}\n", 60 * minute, 1000 + minute)).collect()
        };
        let told = |text: &str| {
            Counts::read(text.as_bytes(), Share::default()).unwrap().account.to_string()
        };
        let whole = format!("period,count\n{}", rows(0..40));
        let read = "read as counts, 40 steps of 60 s";
        assert_eq!(told(&whole), format!("{read}, 40780 requests"));
        // From the last digit of the last count to its first one; Windows has two marks of an end.
        for (cut, total) in [(1, 40780), (2, 39844), (3, 39751), (4, 39742)] {
            let text = &whole[..whole.len() - cut];
            let doubt = "check of the end (no newline ends it: its last number may be cut)";
            assert_eq!(told(text), format!("{read}, {total} requests; left out: {doubt}"));
        }
        assert!(!told(&whole.replace('\n', "\r\n")).contains("left out"));
        assert!(!told("0,\"1,000\"\n60,\"1,000\"").contains("left out"));
        let swapped = format!("{}3660,5\n3600,5\n{}", rows(0..60), rows(62..80));
        let bad = "bad lines (line 62: found `3600,5`, expected whole steps after the line before)";
        assert!(told(&swapped)
            .ends_with(&format!("; left out: missing steps (they hold no requests), {bad}")));
        // A first row that is damaged is no header, half a quote and a third column are no count.
        let row = "`period,count`, as `1998-04-30 21:30:00,2`";
        // A row that lost its time has a comma of decimals alone.
        let marked = format!("time;n\n{}5,5\n", rows(0..40).replace(',', ";"));
        assert!(
            told(&marked).ends_with(&format!("bad lines (line 42: found `5,5`, expected {row})"))
        );
        let lost = format!("requests\n{}", rows(0..40));
        let bad = format!("bad lines (line 1: found `requests`, expected {row})");
        assert!(told(&lost).ends_with(&bad));
        for line in
            ["1x8-04-30 21:30:00,2", "1998-04-30T21:30:00Z,x", "0,\"17", "0,2,700", "0,17\""]
        {
            let bad = format!("bad lines (line 1: found `{line}`, expected {row})");
            let text = format!("{line}\n{}", rows(1..40));
            assert!(told(&text).ends_with(&format!("; left out: {bad}")), "{}", told(&text));
        }
        assert!(!told(&format!("\n# made up\nTime,Count\n{}", rows(0..40))).contains("left out"));
        let export = "Time,a,b\n0,1,\n60,2,3\n120,3,4";
        let values = "values that are none (they add nothing to the sum of their step)";
        assert!(told(export).contains(&format!("; left out: {values}, check of the end (")));
        let twice = format!("{export}\n120,3,4\n");
        let repeated = "check of repeated times (more values at a time than series";
        assert!(told(&twice).contains(repeated));
        // A step that holds no request at all needs no word.
        assert_eq!(told("0,0\n60,0\n"), "read as counts, 2 steps of 60 s");
    }

    #[test]
    fn damaged_counts_name_line_and_reason() {
        let wrong = [
            "",
            "period,count\n",
            "0,1\n",
            "0,1\n0,2\n",
            "0,1\n1,2\nx\n",
            "0,1\n1,-2\n",
            "0,1\n1,2\n1e10,3\n",
        ];
        let errors: Vec<String> = wrong
            .iter()
            .map(|text| Counts::read(text.as_bytes(), Share::default()).unwrap_err().to_string())
            .map(|text| text.replace(", expected", ",\n  expected"))
            .collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        nothing to read,
          expected two rows or more, as `1998-04-30 21:30:00,2`
        nothing to read,
          expected two rows or more, as `1998-04-30 21:30:00,2`
        nothing to read,
          expected two rows or more, as `1998-04-30 21:30:00,2`
        nothing to read,
          expected two rows or more, as `1998-04-30 21:30:00,2`
        1 of 3 lines are bad,
          expected at most 5 %; the first one, line 3: found `x`,
          expected `period,count`, as `1998-04-30 21:30:00,2`; `ignore=bad-lines:FILE` skips them
        1 of 2 lines are bad,
          expected at most 5 %; the first one, line 2: found `1,-2`,
          expected `period,count`, as `1998-04-30 21:30:00,2`; `ignore=bad-lines:FILE` skips them
        10000000000 seconds from the first to the last,
          expected at most 18000000
        ");
    }

    proptest! {
        #[test]
        fn arbitrary_counts_never_panic(
            bytes: Vec<u8>,
            text in "([0-9]{1,3}|,|:|-|e|\\.|\n){0,60}",
        ) {
            for bytes in [&bytes[..], text.as_bytes()] {
                if let Ok(counts) = Counts::read(bytes, Share::ALL) {
                    prop_assert!(counts.arrivals().check().is_ok());
                }
            }
        }

        #[test]
        fn written_counts_read_back_equal(
            requests in proptest::collection::vec(0u32..1_000_000, 2..100),
            step in 1u32..4000,
            start in 0u32..2_000_000_000,
        ) {
            let row = |(n, count): (usize, &u32)| {
                format!("{},{count}\n", u64::from(start) + n as u64 * u64::from(step))
            };
            let text: String = requests.iter().enumerate().map(row).collect();
            let counts = Counts::read(text.as_bytes(), Share::default()).unwrap();
            prop_assert_eq!(counts.step, Time::ns(1_000_000_000 * u64::from(step)));
            let found: Vec<u32> = counts.requests.iter().map(|&c| c as u32).collect();
            prop_assert_eq!(found, requests);
        }
    }
}
