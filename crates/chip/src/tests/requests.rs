//! Requests of the workload, and time that the outside sets.

use super::*;
use halfwink_trace::Event;

/// Two requests of a thousand additions each; the machine was idle between them.
fn two_requests(load: LoadKind) -> RunResult {
    let mut writer = Writer::new();
    let steps = vec![alu(1, &[1]); 8];
    let block = writer.block(&steps);
    let (mut script, lines) = writer.script();
    for id in 0..2u64 {
        let start = 10_000 + id * 5_000;
        script.event(Event::RequestBegin { id, at_ns: start });
        for _ in 0..125 {
            script.run(block, vec![]);
        }
        script.event(Event::RequestEnd { id, at_ns: start + 4_000 });
        if id == 0 {
            // Recorded slowly: 4 us for what takes 1 us here.
            script.event(Event::Idle { from_ns: 14_000, to_ns: 15_000 });
        }
    }
    let task = Task { load, ..task(script, warm(&lines, &[])) };
    run(&simple("in-order"), "always-on", vec![task])
}

#[test]
fn closed_loads_keep_the_length_of_idleness() {
    let result = two_requests(LoadKind::Closed);
    assert_eq!(result.cores[0].requests, 2);
    assert_eq!(result.cores[0].latency.mean(), Some(Time::ns(1_000)));
    assert_eq!(ns(&result), 3_000);
}

#[test]
fn open_loads_keep_the_time_of_arrivals() {
    // The second request arrives 5 us after the first, however fast the first was served.
    let result = two_requests(LoadKind::Open);
    assert_eq!(result.cores[0].requests, 2);
    assert_eq!(result.cores[0].latency.mean(), Some(Time::ns(1_000)));
    assert_eq!(ns(&result), 6_000);
}

#[test]
fn a_machine_that_is_too_slow_queues_what_arrives() {
    let mut writer = Writer::new();
    let block = writer.block(&vec![alu(1, &[1]); 8]);
    let (mut script, lines) = writer.script();
    for id in 0..3u64 {
        // Arrivals every 500 ns, of work that takes 1000.
        script.event(Event::RequestBegin { id, at_ns: 500 * id });
        for _ in 0..125 {
            script.run(block, vec![]);
        }
        script.event(Event::RequestEnd { id, at_ns: 500 * id + 400 });
        script.event(Event::Idle { from_ns: 500 * id + 400, to_ns: 500 * (id + 1) });
    }
    let task = Task { load: LoadKind::Open, ..task(script, warm(&lines, &[])) };
    let result = run(&simple("in-order"), "always-on", vec![task]);
    // 1000, 1500, 2000 ns from arrival to end; the next arrival would be at 1500 + nothing.
    assert_eq!(result.cores[0].latency.mean(), Some(Time::ns(1_500)));
    assert_eq!(ns(&result), 3_000);
}

#[test]
fn an_end_without_a_beginning_is_no_request() {
    let mut writer = Writer::new();
    let block = writer.block(&[alu(1, &[1])]);
    let (mut script, lines) = writer.script();
    script.event(Event::RequestEnd { id: 7, at_ns: 0 }).run(block, vec![]);
    let result = run(&simple("in-order"), "tap", vec![task(script, warm(&lines, &[]))]);
    assert_eq!(result.cores[0].requests, 0);
    assert_eq!(result.cores[0].latency.mean(), None);
}
