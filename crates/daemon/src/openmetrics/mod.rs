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
use halfwink_live::program::report::Latency;

/// The page under construction.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a family of counters; its samples end in `_total`.
    fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", "_total", help)
    }

    /// Begins a family of gauges.
    fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", "", help)
    }

    fn family(&mut self, name: &str, kind: &str, suffix: &'static str, help: &str) -> Family<'_> {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { page: self, sample: format!("{name}{suffix}") }
    }

    fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

/// A family whose samples are being written.
struct Family<'a> {
    page: &'a mut Page,
    sample: String,
}

impl Family<'_> {
    fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.page.0, "{}{labels} {value}", self.sample);
    }

    /// Median, 99th percentile and maximum, in seconds.
    fn quantiles(&mut self, latency: &Latency) {
        for (quantile, us) in
            [("0.5", latency.p50_us), ("0.99", latency.p99_us), ("1", latency.max_us)]
        {
            if let Some(us) = us {
                self.add(&[("quantile", quantile)], us * 1e-6);
            }
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes the joules that meters of this machine have measured, if it has any.
fn meters(page: &mut Page, measured: &Measured) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_live::program::rapl::Reading;

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
        page.gauge("b_seconds", "Times")
            .quantiles(&Latency { p50_us: Some(2e6), ..Latency::default() });
        let expected = "# HELP a Count\n# TYPE a counter\na_total{of=\"x\\\"\\\\\\n\"} 3\n\
                        # HELP b_seconds Times\n# TYPE b_seconds gauge\n\
                        b_seconds{quantile=\"0.5\"} 2\n# EOF\n";
        assert_eq!(page.end(), expected);
    }
}
