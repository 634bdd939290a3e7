//! The page of a switch, of hosts, or of both.

use halfwink_daemon::openmetrics::{event_log, Count, Page};
use halfwink_live_circuits::report::{HostReport, SwitchReport};

use crate::program::Report;

const SWITCH: [Count<SwitchReport>; 10] = [
    ("slots", "Slots that the switch has begun", |r| r.slots),
    ("late_slots", "Slots that began late", |r| r.late_slots),
    ("circuits", "Circuits that came up", |r| r.circuits),
    ("forwarded_frames", "Frames that passed", |r| r.forwarded),
    ("forwarded_bytes", "Bytes of frames that passed", |r| r.forwarded_bytes),
    ("overlaps", "Frames of two senders at one receiver", |r| r.overlaps),
    ("refused_joins", "Circuits of the schedule that cannot be", |r| r.refused_joins),
    ("syncs_sent", "Sync frames that the switch has sent", |r| r.syncs),
    ("replies", "Replies of hosts", |r| r.replies),
    ("lost_hosts", "Hosts that did not answer any more", |r| r.lost_hosts),
];

/// A count of a host: name, help, value.
type OfHost = (&'static str, &'static str, fn(&HostReport) -> u64);

const HOST: [OfHost; 9] = [
    ("halfwink_circuits_host_taken_frames", "Frames taken from programs", |r| r.taken),
    ("halfwink_circuits_host_sent_frames", "Frames sent while a circuit was up", |r| r.sent),
    ("halfwink_circuits_host_sent_bytes", "Bytes of frames sent", |r| r.sent_bytes),
    ("halfwink_circuits_host_received_frames", "Frames that came over circuits", |r| r.received),
    ("halfwink_circuits_host_received_bytes", "Bytes of frames that came", |r| r.received_bytes),
    ("halfwink_circuits_host_overflowed", "Frames whose queue was full", |r| r.overflowed),
    ("halfwink_circuits_host_without_receiver", "Frames without a receiver", |r| r.for_nobody),
    ("halfwink_circuits_host_syncs", "Sync frames that the host has believed", |r| r.syncs),
    ("halfwink_circuits_host_days", "Days on which it had something to send", |r| r.days),
];

/// The page of the nodes of a process.
pub(crate) fn circuits(report: &Report) -> String {
    let mut page = Page::default();
    if let Some(switch) = &report.counted.switch {
        page.counts("halfwink_circuits", &SWITCH, switch);
        let help = "Frames that did not pass, by what the circuit was";
        let mut violations = page.counter("halfwink_circuits_violations", help);
        for (circuit, count) in [
            ("night", switch.violations.night),
            ("elsewhere", switch.violations.elsewhere),
            ("cut", switch.violations.cut),
        ] {
            violations.add(&[("circuit", circuit)], count);
        }
        let help = "Time in which circuits were up, summed over inputs";
        page.counter("halfwink_circuits_up_seconds", help).add(&[], switch.up_s);
    }
    let hosts = || report.counted.hosts.iter().map(|host| (host.host.to_string(), host));
    if !report.counted.hosts.is_empty() {
        for (name, help, of) in HOST {
            let mut counts = page.counter(name, help);
            hosts().for_each(|(number, host)| counts.add(&[("host", &number)], of(host)));
        }
        let help = "Bytes that wait for circuits now";
        let mut waiting = page.gauge("halfwink_circuits_host_waiting_bytes", help);
        hosts().for_each(|(number, host)| waiting.add(&[("host", &number)], host.waiting_bytes));
    }
    event_log(&mut page, &report.log);
    page.end()
}
