//! Requests played one by one; what is dumped, loaded, and written by others meanwhile.

use halfwink_policy::preheat::LineSet;
use halfwink_power::{CoreState, Lost};
use halfwink_trace::{Event, Script};

use super::losing::losing;
use super::*;
use crate::preheat::{
    play, requests, CacheLevel, Cut, DeviceWrite, Engine, Played, Request, Requests, Sleep, Trial,
};

const ALL: [Lost; 4] = [Lost::L1i, Lost::L1d, Lost::L2, Lost::L3];
const LENGTH: Time = Time::ns(20_000);

/// Requests that read the same forty lines and write five of them.
fn recording(count: u64) -> (Script, Vec<u64>) {
    let mut writer = Writer::new();
    let reads = writer.block(&[load(1, 2), alu(3, &[1])]);
    let writes = writer.block(&[store(1, 2)]);
    let (mut script, lines) = writer.script();
    for id in 0..count {
        script.event(Event::RequestBegin { id, at_ns: 10_000 * id });
        for n in 0..40 {
            script.run(reads, vec![at(DATA + 64 * 3 * n)]);
        }
        for n in 0..5 {
            script.run(writes, vec![at(DATA + 64 * 3 * n)]);
        }
        script.event(Event::RequestEnd { id, at_ns: 10_000 * id + 5_000 });
        script.event(Event::Idle { from_ns: 10_000 * id + 5_000, to_ns: 10_000 * (id + 1) });
    }
    (script, lines)
}

fn cut_all(machine: &Machine, count: u64) -> Vec<Request> {
    let (script, lines) = recording(count);
    let mut found = Vec::new();
    let warm = warm(&lines, &[]);
    let see = |request| {
        found.push(request);
        true
    };
    requests(machine, Box::new(script), &warm, Cut::Alone, &mut CodeCache::new(), see).unwrap();
    found
}

fn played(machine: &Machine, request: &Request, trial: &Trial<'_>) -> Played {
    let (mut codes, control) = (CodeCache::new(), RunControl::new());
    play(machine, request, &request.state, LENGTH, trial, &mut codes, &control).unwrap()
}

const ASLEEP: Option<Sleep> = Some(Sleep { lead: None });
const AHEAD: Option<Sleep> = Some(Sleep { lead: Some(Time::ns(10_000)) });

#[test]
fn requests_are_found_by_their_marks() {
    let (mut script, _) = recording(4);
    let found = Requests::of(&mut script).unwrap().unwrap();
    assert_eq!((found.marked, found.alone, found.cut), (4, 4, Cut::Alone));
    let machine = simple("in-order");
    let all = cut_all(&machine, 4);
    assert_eq!(all.iter().map(|r| (r.index, r.instructions)).collect::<Vec<_>>().len(), 4);
    assert!(all.iter().all(|r| r.instructions == 85));
    assert_eq!(all[0].touched().len(), 41);
}

/// The order that has to hold, on both kinds of cores, for losses with and without the third level.
#[test]
fn warm_is_faster_than_preheated_and_that_than_cold() {
    for kind in KINDS {
        for loses in [&ALL[..3], &ALL[..]] {
            let machine = losing(simple(kind).with_cores(1), loses, 0.0);
            let all = cut_all(&machine, 3);
            let request = &all[2];
            let lines: Vec<u64> = request.touched().iter().collect();
            let warm = played(&machine, request, &Trial::default());
            let cold = played(&machine, request, &Trial { sleep: ASLEEP, ..Trial::default() });
            let woken = played(&machine, request, &Trial { sleep: AHEAD, ..Trial::default() });
            let loaded =
                played(&machine, request, &Trial { sleep: AHEAD, lines, ..Trial::default() });
            assert!(warm.response < loaded.response, "{kind}");
            assert!(loaded.response < woken.response && woken.response < cold.response, "{kind}");
            // Waking takes 4 and restoring 3; nothing else differs.
            assert_eq!(cold.response, woken.response + Time::ns(7));
            assert_eq!((loaded.preheat.lines, loaded.preheat.loaded), (41, 41));
            assert_eq!(loaded.run.cores[0].losses.cold_misses, [0; 2]);
            assert_eq!(woken.run.cores[0].losses.cold_misses[0], 41);
        }
    }
}

/// Preheating by hand: on a core with two miss registers, from the third level.
#[test]
fn lines_come_as_fast_as_two_may_be_on_their_way() {
    let machine = losing(simple("in-order").with_cores(1), &ALL[..3], 0.0);
    let request = &cut_all(&machine, 3)[2];
    let lines: Vec<u64> = request.touched().iter().take(6).collect();
    let trial = Trial { sleep: AHEAD, lines, ..Trial::default() };
    let found = played(&machine, request, &trial);
    // Each takes 1 + 4 + 10: sent in 0 and 1, 15 and 16, 30 and 31; the last is there in 46.
    assert_eq!((found.preheat.took, found.preheat.late), (Time::ns(46), Time::ZERO));
    let rows: Vec<_> = found.run.books.named_rows().collect();
    let row = |component: &str, reason: &str| {
        let of = rows.iter().find(|(c, _, cause, _)| *c == component && cause.reason == reason);
        of.map(|row| row.3).unwrap()
    };
    assert_eq!(row("core0", "preheat").time, Time::ns(46));
    let nj = |x: f64| halfwink_units::Energy::from_pj(x * 1e3);
    assert_eq!(row("core0", "preheat").energy, nj(46.0 * 1.5));
    assert_eq!(row("core0", "preheat-uops").energy, nj(6.0 * 0.1));
    assert_eq!(row("core0", "preheat-l2").energy, nj(6.0 * 0.1));
    assert_eq!(row("l3", "preheat").energy, nj(6.0 * 0.5));
    // It wakes 10 us ahead, and rests for what is left.
    let idle = found.run.cores[0].residency[CoreState::Idle as usize];
    assert_eq!(idle, Time::ns(10_000 - 46 - 7));
}

#[test]
fn late_load_finishes_before_request_begins() {
    let machine = losing(simple("in-order").with_cores(1), &ALL[..3], 0.0);
    let request = &cut_all(&machine, 3)[2];
    let lines: Vec<u64> = request.touched().iter().take(6).collect();
    let sleep = Some(Sleep { lead: Some(Time::ns(30)) });
    let found = played(&machine, request, &Trial { sleep, lines, ..Trial::default() });
    assert_eq!(found.preheat.late, Time::ns(46 + 7 - 30));
}

/// A dump is complete: with no eviction it is what was touched, neither more nor less.
#[test]
fn a_dump_is_what_was_touched_if_nothing_was_evicted() {
    for kind in KINDS {
        let machine = losing(simple(kind).with_cores(1), &ALL, 0.0);
        for request in cut_all(&machine, 3) {
            for level in [CacheLevel::L2, CacheLevel::L3] {
                let trial = Trial { sleep: ASLEEP, dump: Some(level), ..Trial::default() };
                let found = played(&machine, &request, &trial);
                assert_eq!(found.dump, request.touched(), "{kind} {level:?}");
            }
            let first = |level| {
                let trial = Trial { sleep: ASLEEP, dump: Some(level), ..Trial::default() };
                played(&machine, &request, &trial).dump
            };
            let both = first(CacheLevel::L1i).union(&first(CacheLevel::L1d));
            assert!(both.subtract(&request.touched()).is_empty());
        }
    }
}

#[test]
fn the_third_level_leaks_less_while_it_is_lost() {
    let machine = losing(simple("in-order").with_cores(1), &ALL, 0.0);
    let keeps = losing(simple("in-order").with_cores(1), &ALL[..3], 0.0);
    let request = &cut_all(&machine, 3)[2];
    let trial = Trial { sleep: ASLEEP, ..Trial::default() };
    let (lost, kept) = (played(&machine, request, &trial), played(&keeps, request, &trial));
    let gated = |played: &Played| {
        let rows = played.run.books.named_rows();
        let l3 = rows.filter(|(c, state, ..)| *c == "l3" && state.0 == "gated");
        l3.fold(Time::ZERO, |sum, row| sum + row.3.time)
    };
    assert_eq!(gated(&kept), Time::ZERO);
    // 192 sets and a few dirty lines to flush before, some 300 ns.
    assert!(gated(&lost) > Time::ns(19_000) && gated(&lost) < Time::ns(20_000));
    // Five dirty lines were flushed into it, and left it for memory.
    assert_eq!((lost.run.l3.others[0], lost.run.memory.others[0].writes > 0), (5 + 1 + 5, true));
    let l3 = |played: &Played| played.run.books.energy_where(|name| name == "l3");
    assert!(l3(&lost) < l3(&kept));
}

#[test]
fn an_engine_competes_for_banks_and_is_charged() {
    let machine = losing(simple("in-order").with_cores(1), &ALL, 0.0);
    let request = &cut_all(&machine, 3)[2];
    let lines: Vec<u64> = request.touched().iter().collect();
    let engine = |start| Some(Engine { lines: lines.clone(), start, interval: Time::ns(8) });
    let cold = played(&machine, request, &Trial { sleep: AHEAD, ..Trial::default() });
    let trial = Trial { sleep: AHEAD, engine: engine(Time::ns(15_000)), ..Trial::default() };
    let before = played(&machine, request, &trial);
    assert_eq!((before.agents.lines, before.agents.loaded), (41, 41));
    assert!(before.response < cold.response);
    // What still waits to be written is answered from there, and read from no row.
    let memory = &before.run.memory;
    let reads = memory.others[1].reads;
    assert!(reads + memory.forwarded == 41 && reads > 35, "{memory:?}");
    assert!(before.run.l3.misses[0] < cold.run.l3.misses[0]);
    let rows: Vec<_> = before.run.books.named_rows().collect();
    let nj = |x: f64| halfwink_units::Energy::from_pj(x * 1e3);
    let row = |component: &str| {
        let of = rows.iter().find(|(c, _, cause, _)| *c == component && cause.reason == "preheat");
        of.map(|row| row.3.energy).unwrap()
    };
    assert_eq!(row("l3"), nj(41.0 * 0.5));
    let activates = before.run.memory.others[1].activates as f64;
    assert_eq!(row("memory"), nj(reads as f64 * 10.0 + activates * 20.0));
    // The same lines brought while a warm request runs only stand in its way.
    let warm = played(&machine, request, &Trial::default());
    let useless: Vec<u64> = (0..2_000).map(|n| (COLD >> 6) + n).collect();
    let engine = Engine { lines: useless, start: LENGTH, interval: Time::ns(1) };
    let late = played(&machine, request, &Trial { engine: Some(engine), ..Trial::default() });
    assert!(late.response >= warm.response);
}

#[test]
fn what_a_device_writes_is_in_no_cache_any_more() {
    for kind in KINDS {
        let machine = simple(kind).with_cores(1);
        let request = &cut_all(&machine, 3)[2];
        let warm = played(&machine, request, &Trial::default());
        let write = |stash| DeviceWrite { at: LENGTH - Time::ns(1_000), line: DATA >> 6, stash };
        let trial = |stash| Trial {
            devices: vec![write(stash)],
            dump: Some(CacheLevel::L3),
            ..Trial::default()
        };
        let (memory, stashed) =
            (played(&machine, request, &trial(false)), played(&machine, request, &trial(true)));
        assert!(warm.response < stashed.response && stashed.response < memory.response, "{kind}");
        let misses = |played: &Played| played.run.l3.misses[0];
        assert_eq!((misses(&warm), misses(&stashed), misses(&memory)), (0, 0, 1));
        assert_eq!(memory.run.memory.forwarded, 1, "the write waits in its queue");
        assert_eq!(memory.run.l3.others[2], 1);
        assert_eq!(memory.agents.device_writes, 1);
    }
}

#[test]
fn a_shared_cache_is_not_lost_while_others_may_need_it() {
    let machine = losing(simple("in-order"), &ALL, 0.0);
    let tasks = || vec![task(recording(1).0, Arc::default()), task(recording(1).0, Arc::default())];
    let error = try_run(&machine, "idle-gate", tasks(), USUAL).unwrap_err().to_string();
    assert!(error.contains("where one core alone has work"), "{error}");
}

/// How far the core runs ahead of an engine and of devices changes nothing.
#[test]
fn agents_are_served_in_the_order_of_arrival() {
    for kind in KINDS {
        let machine = simple(kind).with_cores(1);
        let request = &cut_all(&machine, 3)[2];
        let lines: Vec<u64> = (0..200).map(|n| (DATA >> 6) + n).collect();
        let go = |quantum: Option<u64>| {
            let make = |_| policy(&machine, "always-on");
            let options = Options::new(&make);
            let tasks = vec![task(request.source(), Arc::default())];
            let mut chip =
                crate::chip::Chip::new(&machine, tasks, &options, &[], &mut CodeCache::new())
                    .unwrap();
            if let Some(quantum) = quantum {
                chip.quantum = Time(quantum);
            }
            let uncore = &mut chip.shared.uncore;
            chip.engine.preheat(&lines, Time::ns(50), Time::ns(3), uncore);
            for n in 0..20 {
                let line = (DATA >> 6) + 3 * n;
                chip.engine.device_writes(line, Time::ns(100 + 90 * n), n % 2 == 0, uncore);
            }
            chip.play(&RunControl::new()).unwrap();
            super::exact::fingerprint(&chip.finish().unwrap().0)
        };
        let usual = go(None);
        for quantum in [1_000, 7_001, 300_000] {
            assert_eq!(super::exact::first_difference(&usual, &go(Some(quantum))), None, "{kind}");
        }
    }
}

#[test]
fn line_sets_of_the_policy_are_what_is_dumped() {
    let machine = simple("in-order").with_cores(1);
    let (script, lines) = recording(1);
    let make = |_| policy(&machine, "always-on");
    let options = Options::new(&make);
    let warm = warm(&lines, &[DATA, DATA + 640]);
    let tasks = vec![task(script, warm)];
    let chip =
        crate::chip::Chip::new(&machine, tasks, &options, &[], &mut CodeCache::new()).unwrap();
    let expected = lines.iter().copied().chain([DATA >> 6, (DATA >> 6) + 10]).collect();
    assert_eq!(chip.dump(CacheLevel::L3), LineSet::from_unsorted(expected));
    assert_eq!(chip.dump(CacheLevel::L1i), LineSet::from_unsorted(lines));
}
