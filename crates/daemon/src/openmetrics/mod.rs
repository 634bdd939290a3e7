//! Reports as OpenMetrics text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>). Times
//! are measured; joules are modelled, or measured by a meter, and say so.

#[cfg(feature = "router")]
mod router;
#[cfg(feature = "steer")]
mod steer;

#[cfg(feature = "router")]
pub(crate) use router::router;
#[cfg(feature = "steer")]
pub(crate) use steer::steer;

use std::fmt::{Display, Write};

use halfwink_live::program::rapl::Measured;
use halfwink_live::program::report::{Latency, LIMITS_US};
use halfwink_live::program::stand_in::PolicyFaults;

use crate::log::Told;

/// A count of a report: name, help, value.
pub type Count<R> = (&'static str, &'static str, fn(&R) -> u64);

/// The page under construction.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// Begins a family of counters; its samples end in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", "_total", help)
    }

    /// Adds the counts of a report, each a family whose name begins with `prefix`.
    pub fn counts<R>(&mut self, prefix: &str, counts: &[Count<R>], report: &R) {
        for (name, help, of) in counts {
            let name = format!("{prefix}_{name}");
            self.family(&name, "counter", "_total", help).add(&[], of(report));
        }
    }

    /// Begins a family of gauges.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", "", help)
    }

    /// A family with the counts of times up to each limit, in seconds.
    pub fn histogram(&mut self, name: &'static str, help: &str, latency: &Latency) {
        self.family(name, "histogram", "", help);
        for (limit, count) in LIMITS_US.iter().zip(latency.within) {
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {count}", seconds(*limit));
        }
        let (count, sum_s) = (latency.count, latency.sum_us * 1e-6);
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_count {count}");
        let _ = writeln!(self.0, "{name}_sum {sum_s}");
    }

    /// Begins a family of a kind, whose samples end in `suffix`.
    pub fn family(
        &mut self,
        name: &str,
        kind: &str,
        suffix: &'static str,
        help: &str,
    ) -> Family<'_> {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { page: self, sample: format!("{name}{suffix}") }
    }

    /// Ends the page; its text.
    #[must_use]
    pub fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

/// A family whose samples are being written.
pub struct Family<'a> {
    page: &'a mut Page,
    sample: String,
}

impl Family<'_> {
    /// Adds a sample with its labels.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.page.0, "{}{labels} {value}", self.sample);
    }
}

/// Microseconds as seconds, in the decimals that parsers of `le` expect: `2.5e-06`, `0.001`, `1.0`.
fn seconds(us: f64) -> String {
    if us < 100.0 {
        let text = format!("{us:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{digits}e-{:02}", 6 - power.parse::<i32>().unwrap_or(0));
    }
    // 1e-6 is no binary number: 2.5e6 us would be 2.4999999999999996 s.
    format!("{:?}", us / 1e6)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes the joules that meters of this machine have measured, if it has any.
pub fn meters(page: &mut Page, measured: &Measured) {
    if measured.meters.is_empty() {
        return;
    }
    let help = "Energy of this machine with all that runs on it, since the start; measured";
    let mut joules = page.counter("halfwink_measured_energy_joules", help);
    measured.meters.iter().for_each(|m| joules.add(&[("meter", &m.meter)], m.energy_j));
    let mut up = page.gauge("halfwink_meter_up", "The meter can be read");
    measured.meters.iter().for_each(|m| {
        up.add(&[("meter", &m.meter)], u8::from(m.ended.is_none()));
    });
}

/// Families of the event log, if there is one.
pub fn event_log(page: &mut Page, log: &Told) {
    let Some(dropped) = log.log_dropped else { return };
    let help = "Lines of the event log that were dropped, since the start: its file could not be \
                written, or not fast enough";
    page.counter("halfwink_event_log_dropped_lines", help).add(&[], dropped);
    let help = "The file of the event log could be written at the last attempt";
    page.gauge("halfwink_event_log_up", help).add(&[], u8::from(log.log_error.is_none()));
}

/// The faults of policies in files.
pub fn policy_faults(page: &mut Page, faults: &PolicyFaults) {
    let help = "Policies in files that failed and were replaced, since the start";
    page.counter("halfwink_policy_faults", help).add(&[], faults.policy_faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_engine::Histogram;
    use halfwink_live::program::rapl::Reading;
    use halfwink_units::Time;

    #[test]
    fn what_a_meter_says_is_called_measured() {
        let reading = Reading {
            meter: "RAPL package-0".to_owned(),
            energy_j: 2.5,
            duration_s: 1.0,
            energy_w: Some(2.5),
            ended: None,
        };
        let mut page = Page::default();
        meters(&mut page, &Measured { meters: vec![reading], missing: None });
        let text = page.end();
        let sample = "halfwink_measured_energy_joules_total{meter=\"RAPL package-0\"} 2.5\n";
        assert!(text.contains(sample) && text.contains("; measured\n"), "{text}");
        let mut none = Page::default();
        meters(&mut none, &Measured::default());
        assert_eq!(none.end(), "# EOF\n");
    }

    #[test]
    fn a_page_as_the_specification_has_it() {
        let mut page = Page::default();
        page.counter("a", "Count").add(&[("of", "x\"\\\n")], 3);
        page.gauge("b", "Level").add(&[], 2);
        let expected = "# HELP a Count\n# TYPE a counter\na_total{of=\"x\\\"\\\\\\n\"} 3\n\
                        # HELP b Level\n# TYPE b gauge\nb 2\n# EOF\n";
        assert_eq!(page.end(), expected);
    }

    #[test]
    fn a_histogram_counts_all_times_up_to_each_limit() {
        let mut times = Histogram::default();
        for ns in [900, 3_000, 3_000, 400_000, 2_000_000_000, 90_000_000_000] {
            times.record(Time::ns(ns));
        }
        let mut page = Page::default();
        page.histogram("t_seconds", "Times", &Latency::of(&times));
        let text = page.end();
        assert!(text.starts_with("# HELP t_seconds Times\n# TYPE t_seconds histogram\n"), "{text}");
        for line in [
            "t_seconds_bucket{le=\"1e-06\"} 1",
            "t_seconds_bucket{le=\"2.5e-06\"} 1",
            "t_seconds_bucket{le=\"5e-06\"} 3",
            "t_seconds_bucket{le=\"2.5e-05\"} 3",
            "t_seconds_bucket{le=\"0.0001\"} 3",
            "t_seconds_bucket{le=\"0.0005\"} 4",
            "t_seconds_bucket{le=\"1.0\"} 4",
            "t_seconds_bucket{le=\"2.5\"} 5",
            "t_seconds_bucket{le=\"60.0\"} 5",
            "t_seconds_bucket{le=\"+Inf\"} 6",
            "t_seconds_count 6",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
        }
        let sum = text.lines().find_map(|line| line.strip_prefix("t_seconds_sum ")).unwrap();
        assert!((sum.parse::<f64>().unwrap() - 92.000_406_9).abs() < 1e-6, "{sum}");
    }
}
