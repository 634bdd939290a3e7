//! A proxy's page.

use halfwink_policy::steering::ASLEEP;

use super::{event_log, meters, policy_faults, Count, Page};
use crate::steer::Report as SteerReport;

const MACHINE_COUNTS: [Count<halfwink_live_steer::MachineReport>; 14] = [
    ("served", "Requests answered", |m| m.counts.served),
    ("failed", "Attempts that failed", |m| m.counts.failed),
    ("retried", "Attempts that were made again", |m| m.counts.retried),
    ("queued", "Requests that had to wait", |m| m.counts.queued),
    ("refused", "Requests that found the queue full, or no machine", |m| m.counts.refused),
    ("resteered", "Requests that went to another machine", |m| m.counts.resteered),
    ("wakes", "Times that it was asked to wake", |m| m.counts.wakes),
    ("sleeps", "Times that it was asked to sleep", |m| m.counts.sleeps),
    ("followed", "Times that it was woken because another machine of its group was", |m| {
        m.counts.followed
    }),
    ("spared", "Sleeps that were put off until they were wanted no more", |m| m.counts.spared),
    ("declined", "Times that may_sleep kept it on", |m| m.counts.declined),
    ("power_failures", "Times that waking or sending to sleep failed", |m| m.counts.power_failures),
    ("overridden", "Times that its power state was found changed by another", |m| {
        m.counts.overridden
    }),
    ("losses", "Times that it could not be reached any more", |m| m.counts.losses),
];

/// A proxy's page.
pub(crate) fn steer(report: &SteerReport) -> String {
    let SteerReport { live: report, log, measured, .. } = report;
    let mut page = Page::default();
    let help = "Requests and connections by what became of them";
    let mut what = page.counter("halfwink_steer_requests", help);
    report.requests.iter().for_each(|(name, count)| what.add(&[("what", name)], count));
    let mut classes =
        page.counter("halfwink_steer_responses", "Responses by class of their status");
    report.statuses.iter().for_each(|(name, count)| classes.add(&[("class", name)], count));
    page.gauge("halfwink_steer_connections", "Connections of clients").add(&[], report.connections);
    let memory = &report.memory;
    let help = "Memory of bodies that wait for a machine and of answers that wait for a client";
    page.gauge("halfwink_steer_waiting_bytes", help).add(&[], memory.bytes);
    let help = "Largest value of halfwink_steer_waiting_bytes since the start";
    page.gauge("halfwink_steer_waiting_peak_bytes", help).add(&[], memory.peak_bytes);
    let help = "Budget of halfwink_steer_waiting_bytes (limits.memory_bytes)";
    page.gauge("halfwink_steer_waiting_limit_bytes", help).add(&[], memory.limit_bytes);
    let help = "Requests refused because the memory budget, or the client's part, was exhausted";
    page.counter("halfwink_steer_memory_refused", help).add(&[], memory.refused);
    let help =
        "Clients cut off: below the rate floor, holding a machine that others wait for, or with \
                floods of frames";
    let mut cut = page.counter("halfwink_steer_cut", help);
    cut.add(&[("why", "slow")], memory.cut_slow);
    cut.add(&[("why", "holding")], memory.cut_holding);
    cut.add(&[("why", "flood")], memory.cut_flood);
    if let Some(log) = &report.access_log {
        let help =
            "Lines of the access log: in its file, or dropped because it could not be written";
        let mut lines = page.counter("halfwink_steer_access_log_lines", help);
        lines.add(&[("what", "written")], log.written);
        lines.add(&[("what", "dropped")], log.dropped);
        let help = "The file of the access log could be written at the last attempt";
        page.gauge("halfwink_steer_access_log_up", help).add(&[], u8::from(log.error.is_none()));
    }
    let help = "From a request's coming until a worker had it, since the start";
    page.histogram("halfwink_steer_queueing_seconds", help, &report.queueing);
    let help = "From a request's coming until the end of its answer, since the start";
    page.histogram("halfwink_steer_total_seconds", help, &report.total);
    machines(&mut page, report);
    policy_faults(&mut page, &report.faults);
    event_log(&mut page, log);
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
    let mut spent =
        page.counter("halfwink_machine_state_seconds", "Time in a power state, measured");
    for (name, machine) in &report.machines {
        let r = &machine.residency;
        for (state, seconds) in [
            ("on", r.on_s.iter().sum()),
            ("going_down", r.going_down_s),
            ("waking", r.waking_s),
            ("lost", r.lost_s),
        ] {
            spent.add(&[("machine", name), ("state", state)], seconds);
        }
        for (state, seconds) in ASLEEP.iter().zip(&r.asleep_by_level_s) {
            spent.add(&[("machine", name), ("state", state)], *seconds);
        }
    }
    let help = "Time that requests were in service, measured: its rate is their mean number";
    let mut served = page.counter("halfwink_machine_service_seconds", help);
    for (name, machine) in &report.machines {
        let busy = machine.residency.on_s.iter().enumerate();
        served.add(&[("machine", name)], busy.map(|(n, s)| n as f64 * s).sum::<f64>());
    }
    if report.modelled.is_some() {
        let help = "Energy of the described machines in the measured times; modelled, not measured";
        let mut joules = page.counter("halfwink_modelled_energy_joules", help);
        for (name, machine) in &report.machines {
            machine.modelled.iter().for_each(|m| joules.add(&[("machine", name)], m.energy_j));
        }
    }
}
