//! Reports as OpenMetrics text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>). Times
//! are measured; joules are modelled, or measured by a meter, and say so.

use std::fmt::{Display, Write};

use halfwink_live::program::rapl::Measured;
use halfwink_live::program::report::Latency;

use crate::router::Report as RouterReport;
use crate::steer::Report as SteerReport;

/// Counts of a machine behind a proxy: name, help, where it stands.
type MachineCount = (&'static str, &'static str, fn(&halfwink_live_steer::MachineReport) -> u64);

const MACHINE_COUNTS: [MachineCount; 10] = [
    ("served", "Requests answered", |m| m.counts.served),
    ("failed", "Attempts that failed", |m| m.counts.failed),
    ("retried", "Attempts that were made again", |m| m.counts.retried),
    ("queued", "Requests that had to wait", |m| m.counts.queued),
    ("refused", "Requests that found the queue full, or no machine", |m| m.counts.refused),
    ("resteered", "Requests that went to the other machine", |m| m.counts.resteered),
    ("wakes", "Times that it was asked to wake", |m| m.counts.wakes),
    ("sleeps", "Times that it was asked to sleep", |m| m.counts.sleeps),
    ("power_failures", "Times that waking or sending to sleep failed", |m| m.counts.power_failures),
    ("losses", "Times that it could not be reached any more", |m| m.counts.losses),
];

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

/// Returns the page of a router.
pub(crate) fn router(report: &RouterReport) -> String {
    let mut page = Page::default();
    ports(&mut page, report);
    workers(&mut page, report);
    let live = &report.live;
    let mut packets = page.counter("halfwink_packets", "Packets by what became of them");
    live.packets.iter().for_each(|(what, count)| packets.add(&[("what", what)], count));
    page.counter("halfwink_queue_overflows", "Frames whose queue was full")
        .add(&[], live.overflowed);
    page.counter("halfwink_scaling_changes", "Cores woken or parked").add(&[], live.changes);
    let used = live.workers.iter().filter(|worker| !worker.parked).count();
    page.gauge("halfwink_workers_in_use", "Workers that get frames").add(&[], used);
    let help = "From a frame's leaving its socket until it was sent, since the start";
    page.gauge("halfwink_latency_seconds", help).quantiles(&live.latency);
    let help = "Energy of the described machine in the measured times; modelled, not measured";
    page.counter("halfwink_modelled_energy_joules", help).add(&[], report.modelled.energy_j);
    meters(&mut page, &report.measured);
    page.end()
}

fn ports(page: &mut Page, report: &RouterReport) {
    type Count = fn(&halfwink_live_router::PortReport) -> u64;
    let counts: [(&str, &str, Count); 4] = [
        ("halfwink_port_frames_received", "Frames received", |p| p.received),
        ("halfwink_port_frames_sent", "Frames sent", |p| p.sent),
        ("halfwink_port_frames_unsent", "Frames unsent", |p| p.unsent),
        ("halfwink_port_frames_lost", "Frames lost", |p| p.lost),
    ];
    for (name, help, of) in counts {
        let mut family = page.family(name, "counter", "_total", help);
        report.live.ports.iter().for_each(|p| family.add(&[("interface", &p.interface)], of(p)));
    }
    let mut up = page.gauge("halfwink_port_up", "The interface is there");
    report.live.ports.iter().for_each(|p| up.add(&[("interface", &p.interface)], u8::from(p.up)));
}

fn workers(page: &mut Page, report: &RouterReport) {
    let workers = || report.live.workers.iter().enumerate().map(|(n, w)| (n.to_string(), w));
    let help = "Time in a state, measured; sleep states are those asked for";
    let mut spent = page.counter("halfwink_worker_state_seconds", help);
    for (number, worker) in workers() {
        let r = &worker.residency;
        for (state, seconds) in
            [("busy", r.busy_s), ("spin", r.spin_s), ("c1", r.c1_s), ("c3", r.c3_s), ("c6", r.c6_s)]
        {
            spent.add(&[("worker", &number), ("state", state)], seconds);
        }
    }
    let mut served = page.counter("halfwink_worker_frames", "Frames served");
    workers().for_each(|(number, worker)| served.add(&[("worker", &number)], worker.served));
    let mut cpu = page.counter("halfwink_worker_cpu_seconds", "Processor time of the thread");
    workers().for_each(|(number, worker)| cpu.add(&[("worker", &number)], worker.cpu_s));
}

/// Adds the readings of this machine's meters, if there are any.
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

/// Returns the page of a proxy.
pub(crate) fn steer(report: &SteerReport) -> String {
    let measured = &report.measured;
    let report = &report.live;
    let mut page = Page::default();
    let help = "Requests and connections by what became of them";
    let mut what = page.counter("halfwink_steer_requests", help);
    report.requests.iter().for_each(|(name, count)| what.add(&[("what", name)], count));
    let mut classes =
        page.counter("halfwink_steer_responses", "Responses by class of their status");
    report.statuses.iter().for_each(|(name, count)| classes.add(&[("class", name)], count));
    page.gauge("halfwink_steer_connections", "Connections of clients").add(&[], report.connections);
    let help = "From a request's coming until a worker had it, since the start";
    page.gauge("halfwink_steer_queueing_seconds", help).quantiles(&report.queueing);
    let help = "From a request's coming until the end of its answer, since the start";
    page.gauge("halfwink_steer_total_seconds", help).quantiles(&report.total);
    machines(&mut page, report);
    meters(&mut page, measured);
    page.end()
}

fn machines(page: &mut Page, report: &halfwink_live_steer::Report) {
    for (name, help, of) in MACHINE_COUNTS {
        let mut family =
            page.family(&format!("halfwink_machine_{name}"), "counter", "_total", help);
        report.machines.iter().for_each(|(name, m)| family.add(&[("machine", name)], of(m)));
    }
    let mut busy = page.gauge("halfwink_machine_in_service", "Requests in service");
    report.machines.iter().for_each(|(name, m)| busy.add(&[("machine", name)], m.in_service));
    let mut waiting = page.gauge("halfwink_machine_waiting", "Requests that wait");
    report.machines.iter().for_each(|(name, m)| waiting.add(&[("machine", name)], m.waiting));
    let help = "Time in a power state, measured; on: with so many requests in service";
    let mut spent = page.counter("halfwink_machine_state_seconds", help);
    for (name, machine) in &report.machines {
        let r = &machine.residency;
        for (in_service, seconds) in r.on_s.iter().enumerate() {
            let in_service = in_service.to_string();
            let labels = [("machine", *name), ("state", "on"), ("in_service", &in_service)];
            spent.add(&labels, seconds);
        }
        for (state, seconds) in [
            ("going_down", r.going_down_s),
            ("asleep", r.asleep_s),
            ("waking", r.waking_s),
            ("lost", r.lost_s),
        ] {
            spent.add(&[("machine", name), ("state", state), ("in_service", "")], seconds);
        }
    }
    let help = "Energy of the described machines in the measured times; modelled, not measured";
    let mut joules = page.counter("halfwink_modelled_energy_joules", help);
    joules.add(&[("machine", "small")], report.modelled.small_j);
    joules.add(&[("machine", "big")], report.modelled.big_j);
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
