//! A router's page.

use super::{event_log, meters, policy_faults, Count, Page};
use crate::router::Report as RouterReport;
use halfwink_live_router::{By, Forward};

/// A router's page.
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
    match live.forward.forwarded_by {
        Forward::UserSpace => {
            let help = "From a frame's leaving its socket until it was sent, since the start";
            page.histogram("halfwink_latency_seconds", help, &live.latency);
        }
        _ => kernel(&mut page, report),
    }
    let help = "Energy of the described machine in the measured times; modelled, not measured";
    page.counter("halfwink_modelled_energy_joules", help).add(&[], report.modelled.energy_j);
    policy_faults(&mut page, &report.live.faults);
    event_log(&mut page, &report.log);
    meters(&mut page, &report.measured);
    page.end()
}

/// Adds the counts of the kernel's forwarding. No packet is timed there.
fn kernel(page: &mut Page, report: &RouterReport) {
    let counts: [Count<By>; 4] = [
        ("looks", "Looks at the kernel's counters; each is a wake-up", |by| by.looks),
        ("rests", "Rests that the policy requested; the kernel chooses the state", |by| by.rests),
        ("moves_followed", "Moves of entries that a frame has followed", |by| by.followed),
        ("moves_forced", "Moves that did not wait for the old CPU to end", |by| by.forced),
    ];
    page.counts("halfwink_forward", &counts, &report.live.forward);
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
