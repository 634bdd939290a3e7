//! A block device's page.

use halfwink_daemon::openmetrics::{event_log, meters, policy_faults, Page};

use crate::program::{Looked, Report as BlockReport};

/// A block device's page; of virtual machines there are only counts of requests.
pub(crate) fn block(report: &Looked) -> String {
    let mut page = Page::default();
    match report {
        Looked::Policed(report) => policed(&mut page, report),
        Looked::Guests(served) => {
            let help = "Requests of virtual machines by what became of them";
            let mut requests = page.counter("halfwink_block_guest_requests", help);
            requests.add(&[("what", "answered")], served.requests.saturating_sub(served.failed));
            requests.add(&[("what", "failed")], served.failed);
            requests.add(&[("what", "broken")], served.broken);
        }
    }
    page.end()
}

fn policed(page: &mut Page, report: &BlockReport) {
    let live = &report.live;
    let asked = &live.requests;
    let mut requests = page.counter("halfwink_block_requests", "Requests by kind");
    for (kind, count) in [
        ("read", asked.reads),
        ("write", asked.writes),
        ("flush", asked.flushes),
        ("trim", asked.trims),
        ("zeroes", asked.zeroes),
        ("cache", asked.caches),
        ("status", asked.statuses),
        ("refused", asked.refused),
    ] {
        requests.add(&[("kind", kind)], count);
    }
    let mut moved =
        page.counter("halfwink_block_moved_bytes", "Bytes that were asked to be read and written");
    moved.add(&[("direction", "read")], asked.read_bytes);
    moved.add(&[("direction", "written")], asked.written_bytes);
    page.counter("halfwink_block_errors", "Replies with an error").add(&[], live.errors);
    let help = "From reading a request to handing its reply to the kernel, since the start";
    page.histogram("halfwink_block_latency_seconds", help, &live.latency);
    let mut flushes = page.counter("halfwink_block_device_flushes", "Flushes of the device");
    flushes.add(&[("what", "done")], live.flushes.count - live.flushes.failed);
    flushes.add(&[("what", "failed")], live.flushes.failed);
    if let Some(connections) = &live.connections {
        let help = "Connections that are open";
        page.gauge("halfwink_block_connections", help).add(&[], connections.open);
        let help = "Connections that have ended, by how";
        let mut ended = page.counter("halfwink_block_connections_ended", help);
        for (how, count) in [
            ("done", connections.done),
            ("vanished", connections.vanished),
            ("wrong", connections.wrong),
            ("refused", connections.refused),
        ] {
            ended.add(&[("how", how)], count);
        }
    }
    let help = "Time of all threads in a stage of I/Os, measured";
    let mut stages = page.counter("halfwink_block_stage_seconds", help);
    live.stages.iter().for_each(|(name, stage)| stages.add(&[("stage", name)], stage.time_s));
    workers(page, report);
    policy_faults(page, &live.faults);
    event_log(page, &report.log);
    meters(page, &report.measured);
}

fn workers(page: &mut Page, report: &BlockReport) {
    let workers = || report.live.workers.iter().enumerate().map(|(n, w)| (n.to_string(), w));
    let mut spent = page.counter("halfwink_worker_state_seconds", "Time in a state, measured");
    for (number, worker) in workers() {
        for (state, seconds) in [
            ("sleeping", worker.sleeping_s),
            ("polling", worker.polling_s),
            ("working", worker.working_s),
        ] {
            spent.add(&[("worker", &number), ("state", state)], seconds);
        }
    }
    let mut ios = page.counter("halfwink_worker_ios", "I/Os that the thread completed, by reader");
    for (number, worker) in workers() {
        ios.add(&[("worker", &number), ("reader", "itself")], worker.here);
        ios.add(&[("worker", &number), ("reader", "another")], worker.given);
    }
}
