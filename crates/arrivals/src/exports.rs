//! Rates and counts as monitoring systems and public traces have them: wide, or as JSON.
//!
//! ```text
//!   Prometheus: {"data": {"resultType": "matrix", "result": [{"values": [[time, "rate"] ...]}]}}
//!   Grafana:    "Time","api","web"      or, long:  Series;Time;Value
//!   Azure:      HashOwner,HashApp,HashFunction,Trigger,1,2, ... ,1440
//! ```
//!
//! Series of the same times are added up.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::lines::ReadError;
use super::moment;

/// Meaning of the values of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Requests in each step.
    Counts,
    /// Requests a second, as monitoring systems have them.
    Rates,
}

/// Sums by time, in seconds.
pub(crate) struct Export {
    pub(crate) format: String,
    /// Meaning of the values; the name of their column if that does not say it.
    pub(crate) values: Result<Values, String>,
    pub(crate) rows: Vec<(f64, f64)>,
    /// Values that are no numbers, such as `null`, and times that a series does not have.
    pub(crate) empty: u64,
    /// Times with more values than there are series.
    pub(crate) repeated: u64,
}

/// A sum of series; times are kept as ordered bits of numbers that are not negative.
#[derive(Default)]
struct Sums {
    /// Sum and number of the values of each time.
    sums: BTreeMap<u64, (f64, u64)>,
    series: u64,
    /// Times of values that are none.
    empty: Vec<u64>,
}

impl Sums {
    fn add(&mut self, at_s: f64, value: Option<f64>) -> Option<()> {
        let fits = (0.0..1e18).contains(&at_s);
        match value.filter(|value| value.is_finite()) {
            None => self.empty.push(at_s.to_bits()),
            Some(value) if fits && value >= 0.0 => {
                let (sum, count) = self.sums.entry(at_s.to_bits()).or_default();
                *sum += value;
                *count += 1;
            }
            Some(_) => return None,
        }
        Some(())
    }

    fn export(self, what: &str, values: Values) -> Export {
        let series = self.series.max(1);
        let format = match series {
            1 => what.to_owned(),
            series => format!("{what}, the sum of {series} series"),
        };
        // A series that has no value at a time of another one is as silent as one with `NaN`.
        let silent =
            self.sums.values().map(|(_, count)| series.saturating_sub(*count)).sum::<u64>();
        let alone = self.empty.iter().filter(|at| !self.sums.contains_key(*at)).count() as u64;
        let repeated = self.sums.values().filter(|(_, count)| *count > series).count() as u64;
        let row = |(at, (sum, _))| (f64::from_bits(at), sum);
        let rows = self.sums.into_iter().map(row).collect();
        Export { format, values: Ok(values), rows, empty: silent + alone, repeated }
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
    #[serde(flatten)]
    bare: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    #[serde(default)]
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// Ends of names of counters, which only grow, and of metrics that are no requests at all.
const COUNTERS: [&str; 3] = ["_total", "_count", "_bucket"];
const OTHERS: [&str; 5] = ["_seconds", "_seconds_sum", "_bytes", "_ratio", "_percent"];

impl Series {
    /// Says why a metric cannot be requests a second.
    fn no_rate(&self) -> Option<String> {
        // Without a name it may be the result of `rate()`, which leaves none.
        let name = self.metric.get("__name__")?;
        let is = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if is(&COUNTERS) {
            let why = "counts from the start of its server on, expected requests a second";
            return Some(format!("`{name}` {why}: query=rate({name}[1m])"));
        }
        is(&OTHERS).then(|| format!("`{name}` is no requests a second: ask for their rate"))
    }
}

/// Returns true if the bytes may begin an export, which is read at once; other counts are read line
/// by line.
pub(crate) fn begins(head: &[u8]) -> bool {
    // The head may end in the middle of a line.
    let end = head.iter().rposition(|&byte| byte == b'\n').map_or(head.len(), |at| at + 1);
    let is_json = head.trim_ascii_start().starts_with(b"{");
    is_json || read(&head[..end]).is_some()
}

/// Returns an export, if the bytes begin as one; none if they are other counts.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Export, ReadError>> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.trim_start().starts_with('{') {
        return Some(prometheus(text));
    }
    let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let (_, mut first) = lines.find(|(_, line)| !line.is_empty() && !line.starts_with('#'))?;
    // Excel is told of the delimiter in a line of its own.
    let is_for_excel = first.starts_with("sep=");
    if is_for_excel {
        first = lines.next()?.1;
    }
    let delimiter = if first.contains(';') { ';' } else { ',' };
    let names = header(first, delimiter);
    let is = |n: usize, name: &str| names.get(n).is_some_and(|it| it == name);
    if is(0, "hashowner") && is(3, "trigger") && is(4, "1") {
        return Some(by_minute(lines, first));
    }
    if is(0, "series") && is(1, "time") && is(2, "value") {
        return Some(long_table(lines, delimiter));
    }
    // Locust's history has a row for each kind of request, and one for all of them.
    let rate = names.iter().position(|name| name == "requests/s");
    if let (true, true, Some(rate)) = (is(0, "timestamp"), is(3, "name"), rate) {
        return Some(history(lines, names.len(), rate));
    }
    let name = names.get(1)?;
    // Labels of a series are Grafana's, and so is the mark for Excel.
    let is_series = name.starts_with('{') || is_for_excel;
    let has_values = names.len() > 2 || name == "value" || is_rate(name) || is_series;
    let is_time = ["time", "timestamp", "date", "datetime"].iter().any(|name| is(0, name));
    // Grafana names a series by its legend, which may be anything.
    let is_asked = !has_values && first.starts_with("\"Time\"") && !COUNTS.contains(&&**name);
    if !is_time || !(has_values || is_asked) {
        return None;
    }
    let table = table(lines, delimiter, 0, names.len());
    Some(if is_asked { table.map(|it| Export { values: Err(name.clone()), ..it }) } else { table })
}

/// Names of columns of counts.
const COUNTS: [&str; 5] = ["count", "counts", "total", "hits", "n"];

/// Names of a header's columns, in lower case; within quotes a delimiter parts none.
fn header(line: &str, delimiter: char) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    for each in line.chars() {
        match each {
            '"' => is_quoted = !is_quoted,
            _ if each == delimiter && !is_quoted => names.push(std::mem::take(&mut name)),
            _ => name.push(each),
        }
    }
    names.push(name);
    names.iter().map(|name| name.trim().to_lowercase()).collect()
}

/// Returns true if a name of a column says that its values are of a second.
fn is_rate(name: &str) -> bool {
    // Datadog has labels behind it.
    let name = name.split('{').next().unwrap_or_default();
    ["rps", "qps", "rate", "req/s", "requests/s", "requests_per_second"].contains(&name)
        || ["/s", "per_s", "/sec", "_rate", "per second", "per_second"]
            .iter()
            .any(|end| name.ends_with(end))
}

fn cells(line: &str, delimiter: char) -> impl Iterator<Item = &str> {
    line.split(delimiter).map(|cell| cell.trim().trim_matches('"').trim())
}

fn prometheus(text: &str) -> Result<Export, ReadError> {
    let wrong = |why: String| ReadError::Other(why);
    let answer: Answer = serde_json::from_str(text)
        .map_err(|error| wrong(format!("expected a range export of Prometheus: {error}")))?;
    if answer.status.as_deref() == Some("error") {
        let error = answer.error.unwrap_or_default();
        return Err(wrong(format!("an error of Prometheus: {error}; ask for the range again")));
    }
    let data = answer.data.or(answer.bare);
    let data = data.ok_or_else(|| wrong("expected a range export of Prometheus".to_owned()))?;
    if data.kind != "matrix" {
        return Err(wrong(format!(
            "a `{}` of Prometheus, expected a range: \
             curl 'SERVER/api/v1/query_range?query=...&start=...&end=...&step=15s'",
            data.kind
        )));
    }
    if let Some(why) = data.result.iter().find_map(Series::no_rate) {
        return Err(wrong(why));
    }
    let mut sums = Sums { series: data.result.len() as u64, ..Sums::default() };
    for (at_s, value) in data.result.iter().flat_map(|series| &series.values) {
        let number: Option<f64> = value.parse().ok();
        let added = number.and_then(|value| sums.add(*at_s, Some(value)));
        added.ok_or_else(|| wrong(format!("found {value} at {at_s}, expected 0 or more")))?;
    }
    Ok(sums.export("range export of Prometheus", Values::Rates))
}

/// Rows of a time and values behind it, up to the last column.
fn table<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    delimiter: char,
    time: usize,
    end: usize,
) -> Result<Export, ReadError> {
    Ok(sums_of(lines, delimiter, time, end)?.export("rates by time", Values::Rates))
}

fn sums_of<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    delimiter: char,
    time: usize,
    end: usize,
) -> Result<Sums, ReadError> {
    let mut sums = Sums { series: end.saturating_sub(time + 1) as u64, ..Sums::default() };
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let wrong = || {
            let found: String = line.chars().take(60).collect();
            let expected = "a time and values of a second (12.5 or 12.5 req/s)";
            ReadError::Other(format!("line {number}: found `{found}`, expected {expected}"))
        };
        // A comma within a number would make two values of it, and a cut row has too few.
        let behind = cells(line, delimiter).skip(end).any(|cell| !cell.is_empty());
        if behind || cells(line, delimiter).count() < end {
            return Err(wrong());
        }
        let mut row = cells(line, delimiter).skip(time);
        let at_s = row.next().and_then(moment::seconds).ok_or_else(wrong)?;
        for cell in row.take(end - time) {
            let value = value(cell).ok_or_else(wrong)?;
            sums.add(at_s, value).ok_or_else(wrong)?;
        }
    }
    Ok(sums)
}

/// Rows of a series, a time and a value.
fn long_table<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    delimiter: char,
) -> Result<Export, ReadError> {
    let mut series = BTreeSet::new();
    let named = lines.inspect(|(_, line)| {
        series.extend(cells(line, delimiter).next().filter(|name| !name.is_empty()));
    });
    let mut sums = sums_of(named, delimiter, 1, 3)?;
    sums.series = series.len() as u64;
    Ok(sums.export("rates by time", Values::Rates))
}

/// Rows of a history of Locust, of which those of all kinds of requests are taken.
fn history<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    columns: usize,
    rate: usize,
) -> Result<Export, ReadError> {
    let mut sums = Sums::default();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let found = cells(line, ',').count();
        if found < columns {
            return Err(ReadError::Other(format!(
                "line {number}: found {found} cells, expected {columns}, as the header has"
            )));
        }
        if cells(line, ',').nth(3) != Some("Aggregated") {
            continue;
        }
        let at_s = cells(line, ',').next().and_then(moment::seconds);
        let per_s = cells(line, ',').nth(rate).and_then(|cell| cell.parse::<f64>().ok());
        let added = at_s.zip(per_s).and_then(|(at_s, per_s)| sums.add(at_s, Some(per_s)));
        added.ok_or_else(|| {
            ReadError::Other(format!("line {number}: expected a time and requests a second"))
        })?;
    }
    Ok(sums.export("rates by time", Values::Rates))
}

/// A value, perhaps with a unit of requests behind it; none within if there was none to write.
fn value(cell: &str) -> Option<Option<f64>> {
    if ["", "null", "nan", "undefined", "-"].iter().any(|none| none.eq_ignore_ascii_case(cell)) {
        return Some(None);
    }
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let known = ["", "req/s", "reqs/s", "requests/s", "requests/sec", "ops/s", "rps", "/s", "p/s"];
    let number: f64 = number.parse().ok().filter(|_| known.contains(&unit))?;
    Some(Some(number))
}

/// Azure Functions (2019): a row for each function, a column for each minute of a day.
fn by_minute<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    header: &str,
) -> Result<Export, ReadError> {
    let columns = header.split(',').count();
    if let Some((cell, minute)) = header
        .split(',')
        .skip(4)
        .zip(1..)
        .find(|(cell, minute)| cell.parse() != Ok::<u32, _>(*minute))
    {
        let message = format!("the header: found `{cell:.60}`, expected minute {minute}");
        return Err(ReadError::Other(message));
    }
    let mut sums: Vec<f64> = Vec::new();
    let mut functions = 0_u64;
    // Days that were written behind each other have their headers between them.
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && *line != header) {
        functions += 1;
        let found = line.split(',').count();
        if found != columns {
            return Err(ReadError::Other(format!(
                "line {number}: found {found} cells, expected {columns}, as the header has"
            )));
        }
        for (minute, cell) in line.split(',').skip(4).enumerate() {
            let count = cell.trim().parse::<f64>().ok().filter(|it| (0.0..1e12).contains(it));
            let count = count.ok_or_else(|| {
                let expected = "a function's invocations in each minute";
                ReadError::Other(format!("line {number}: found `{cell}`, expected {expected}"))
            })?;
            if sums.len() <= minute {
                sums.resize(minute + 1, 0.0);
            }
            sums[minute] += count;
        }
    }
    let format = format!("minutes of Azure Functions (2019), {functions} functions");
    let rows = sums.iter().zip(0..).map(|(sum, minute)| (60.0 * f64::from(minute), *sum)).collect();
    Ok(Export { format, values: Ok(Values::Counts), rows, empty: 0, repeated: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> (String, Values, Vec<(f64, f64)>) {
        let found = read(text.as_bytes()).unwrap().unwrap();
        (found.format, found.values.unwrap(), found.rows)
    }

    #[test]
    fn series_of_prometheus_are_added_up() {
        let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"pod":"a"},"values":[[1740996000,"1.5"],[1740996015,"2"]]},
            {"metric":{"pod":"b"},"values":[[1740996000,"0.5"],[1740996015,"NaN"]]}]}}"#;
        let (format, values, rows) = rows(text);
        assert_eq!(format, "range export of Prometheus, the sum of 2 series");
        assert_eq!(values, Values::Rates);
        assert_eq!(rows, [(1_740_996_000.0, 2.0), (1_740_996_015.0, 2.0)]);
        // A series that begins later is silent at times of the other one.
        let later = text.replace(r#"[1740996000,"0.5"],"#, "");
        assert_eq!(read(later.as_bytes()).unwrap().unwrap().empty, 2);
        let damaged = text.replace("1.5", "1x5");
        let error = read(damaged.as_bytes()).unwrap().err().unwrap().to_string();
        assert_eq!(error, "found 1x5 at 1740996000, expected 0 or more");
        for (text, told) in [
            (r#"{"status":"error","error":"no such metric"}"#, "no such metric"),
            (r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#, "query_range"),
            ("{\"a\":1}", "range export"),
            (
                r#"{"data":{"resultType":"matrix","result":[{"metric":{"__name__":"x_total"}}]}}"#,
                "query=rate(x_total[1m])",
            ),
            (
                r#"{"data":{"resultType":"matrix",
                    "result":[{"metric":{"__name__":"x_seconds"}}]}}"#,
                "no requests a second",
            ),
        ] {
            let error = read(text.as_bytes()).unwrap().err().unwrap().to_string();
            assert!(error.contains(told) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn tables_of_grafana_are_rates() {
        let grafana =
            "\"Time\",\"api\",\"web\"\n2025-03-03 10:00:00,1.5,\n2025-03-03 10:00:15,2 req/s,1\n";
        let (format, _, found) = rows(grafana);
        assert_eq!(format, "rates by time, the sum of 2 series");
        assert_eq!(found, [(1_740_996_000.0, 1.5), (1_740_996_015.0, 3.0)]);
        let at = "2025-03-03T10:00:00.000Z";
        let long = &format!("sep=;\nSeries;Time;Value\na;{at};1\nb;{at};2\n");
        assert_eq!(rows(long).2, [(1_740_996_000.0, 3.0)]);
        assert_eq!(rows("Time,Value\n1740996000000,12.5\n").2, [(1_740_996_000.0, 12.5)]);
        assert_eq!(rows("time,x.per_second{a:b}\n1740996000000,5\n").2, [(1_740_996_000.0, 5.0)]);
        let locust = "Timestamp,User Count,Type,Name,Requests/s\n1740996000,9,GET,/,4\n\
                      1740996000,9,,Aggregated,7\n";
        assert_eq!(rows(locust).2, [(1_740_996_000.0, 7.0)]);
        let empty = |text: &str| {
            let found = read(text.as_bytes()).unwrap().unwrap();
            (found.empty, found.repeated)
        };
        assert_eq!(empty(grafana), (1, 0));
        // A time of which one series has no value, and one that stands twice.
        assert_eq!(empty(&format!("{long}a;2025-03-03T10:00:15Z;3\n")), (1, 0));
        assert_eq!(empty(&format!("{long}b;{at};2\n")), (0, 1));
        assert_eq!(empty("Time,a,b\n10,1,null\n20,,\n30,1,2\n30,1,2\n"), (3, 1));
        let cut = &locust[..locust.len() - 8];
        let error = read(cut.as_bytes()).unwrap().err().unwrap().to_string();
        assert_eq!(error, "line 3: found 4 cells, expected 5, as the header has");
        for ragged in [
            "time,rps\n10,1,5\n",
            "Time,a,b\n1740996000000,\"1,000\",2\n",
            "Time,a,b\n1740996000000,1\n",
            "Series;Time;Value\na;1740996000000\n",
        ] {
            let error = read(ragged.as_bytes()).unwrap().err().unwrap().to_string();
            assert!(error.contains("line 2: found"), "{error}");
        }
        assert!(read(b"period,count\n1,2\n").is_none());
        assert!(read(b"time,count\n1,2\n").is_none());
        let formatted = read(b"Time,Value\n1740996000000,1.2 K\n").unwrap();
        assert!(formatted.err().unwrap().to_string().contains("line 2"));
    }

    #[test]
    fn functions_are_added_up_by_minute() {
        let text =
            "HashOwner,HashApp,HashFunction,Trigger,1,2,3\na,b,c,http,1,0,2\na,b,d,timer,1,1,1\n";
        let (format, values, found) = rows(text);
        assert_eq!(format, "minutes of Azure Functions (2019), 2 functions");
        assert_eq!(values, Values::Counts);
        assert_eq!(found, [(0.0, 2.0), (60.0, 1.0), (120.0, 3.0)]);
        // Two days behind each other: numbers of minutes in a header were counted as invocations.
        assert_eq!(rows(&text.repeat(2)).2, [(0.0, 4.0), (60.0, 2.0), (120.0, 6.0)]);
        for header in ["HashOwner,HashApp,HashFunction,Trigger,1,x,3", "HashOwner,a,b,Trigger,1,3"]
        {
            let error = read(format!("{header}\n{text}").as_bytes()).unwrap().err().unwrap();
            assert!(error.to_string().ends_with("expected minute 2"), "{error}");
        }
        for row in ["a,b,e,http,1,5,0,2\n", "a,b,e,http,1\n"] {
            let error = read(format!("{text}{row}").as_bytes()).unwrap().err().unwrap();
            assert!(error.to_string().contains("cells, expected 7"), "{error}");
        }
    }
}
