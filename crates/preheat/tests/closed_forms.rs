//! What must be so by arithmetic or by construction: run-length code, dumps, the printed numbers,
//! the cost of a late load, restarts.

use halfwink_engine::RunControl;
use halfwink_policy::preheat::{rle, Hears, LineSet, Preheater, PreheaterParameters};
use halfwink_preheat::{
    simulate, Flush, ListOrder, Loading, Node, Plan, Prefetcher, Prototype, Spec, Traffic, Way,
    Word,
};
use halfwink_units::Time;
use proptest::prelude::*;

fn spec() -> Spec {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/preheat/odroid-xu3.toml");
    let spec: Spec = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    spec.check().unwrap();
    spec
}

fn place(spec: &Spec, service: &str) -> usize {
    spec.services.keys().position(|name| name == service).unwrap()
}

proptest! {
    /// Words of a list are the run-length code of the policies; there and back nothing is lost, and
    /// sizes are as runs are long (E6).
    #[test]
    fn words_are_the_run_length_code(
        runs in proptest::collection::vec((0u64..1 << 20, 1u64..200), 1..40),
    ) {
        let spec = spec();
        let node = Node::new(&spec, 1);
        let lines = runs.into_iter().flat_map(|(first, lines)| first..first + lines);
        let set = LineSet::from_unsorted(lines.collect());
        let words = node.words(&set, ListOrder::Address, true, &[]);
        let code = rle::encode64(&set).unwrap();
        prop_assert_eq!(words.len(), code.len());
        for (word, code) in words.iter().zip(&code) {
            let run = rle::run(*code);
            prop_assert_eq!((word.first, word.lines), (run.first, run.lines));
        }
        let back = words.iter().flat_map(|w| (0..w.lines).map(move |n| w.first + n)).collect();
        prop_assert_eq!(LineSet::from_unsorted(back), set);
    }
}

/// A dump is what a request used, if nothing was evicted; with the prefetcher on it is more.
#[test]
fn a_dump_is_what_a_request_used() {
    let mut spec = spec();
    spec.llc.kib = 16384;
    for prefetches in [false, true] {
        let mut node = Node::new(&spec, 1);
        let service = place(&spec, "nginx-2016");
        node.prefetches = prefetches;
        let touches = node.next_request(service);
        let used = LineSet::from_unsorted(touches.iter().map(|touch| touch.line).collect());
        node.play(service, &touches, Flush::CACHES, &mut ());
        let dump = node.cache.dump();
        assert_eq!(used.subtract(&dump).len(), 0);
        if prefetches {
            assert!(dump.len() > used.len(), "{} lines", dump.len());
        } else {
            assert_eq!(dump, used);
        }
    }
}

/// Table 6.1 with its headings corrected gives the reductions that are derived from it.
#[test]
fn printed_times_give_the_printed_reductions() {
    let rows =
        [(367.8, 500.0, 379.6, 91.1), (174.5, 236.4, 180.4, 90.5), (3959.0, 4317.0, 4057.0, 72.6)];
    for (warm, cold, preheated, reduction) in rows {
        let found: f64 = 100.0 * (cold - preheated) / (cold - warm);
        assert!((found - reduction).abs() < 0.05, "{found}");
    }
}

/// One line from idle memory takes the way there and back, a row that is opened, and a column.
#[test]
fn a_single_line_takes_what_its_parts_take() {
    let mut spec = spec();
    // Memory refreshes at 3.9 us, and what comes just then waits.
    spec.loader.start_us = 5.5;
    let words = [Word { first: 4096, lines: 1 }];
    let plan = Plan { words: &words, word_bytes: 0, cores: 1, unrolled: true };
    let loaded = Loading::new(&spec, plan).run(|_| false);
    let timing = spec.dram().unwrap().device.timing;
    let clocks = timing.t_rcd + timing.t_cl + timing.burst;
    let memory_ns = clocks as f64 * 1.07;
    let expected = 1e3 * spec.loader.start_us
        + spec.loader.word_cycles / spec.core.ghz
        + spec.memory.path_ns
        + memory_ns;
    let found = loaded.arrived[0].0.as_ns();
    // A few clocks of hand-over.
    assert!((0.0..8.0).contains(&(found - expected)), "{found} ns, expected {expected}");
}

/// Cores that read long runs get what line fills over latency give, or the port.
#[test]
fn bandwidth_is_line_fills_over_latency_up_to_the_port() {
    let mut spec = spec();
    let one = Prototype::new(&spec, 1).bandwidth(1);
    spec.core.line_fills = 1;
    let single = Prototype::new(&spec, 1).bandwidth(1);
    let latency = 64.0 / single;
    assert!(one < 6.0 * single && one > 4.5 * single, "{one} {single}");
    // An open row answers sooner than a closed one.
    let idle = Node::new(&spec, 1).latency().as_s();
    assert!(latency < idle && latency > 0.75 * idle, "{latency} {idle}");
    spec.core.line_fills = 64;
    let most = Prototype::new(&spec, 1).bandwidth(4);
    let port = 64.0 / (spec.memory.port_ns * 1e-9);
    assert!((most / port - 1.0).abs() < 0.05, "{most} {port}");
}

/// Sorting gains where a set's lines meet in one bank, and nothing where banks are many and hashed
/// (Sec 5.3; on a machine of today it was not seen).
#[test]
fn order_matters_where_banks_are_few() {
    let mut spec = spec();
    let gain = |spec: &Spec| {
        let mut prototype = Prototype::new(spec, 1);
        let estimated = prototype.estimate(place(spec, "nginx-2016"), 10);
        let time = |way| prototype.load(&estimated, way).end.as_ns();
        1.0 - time(Way::PLAIN.with("sort", true)) / time(Way::PLAIN)
    };
    let published = gain(&spec);
    spec.memory.device = "ddr5-4800".to_owned();
    (spec.memory.channels, spec.memory.hash) = (16, halfwink_dram::BankHash::Fold);
    let today = gain(&spec);
    assert!(published > 0.4 && today < 0.15, "{published} {today}");
}

/// After a restart a set is of less use; a hook has it estimated anew (Sec 3.3.4, 5.5).
#[test]
fn restarts_degrade_a_set_until_it_is_estimated_anew() {
    let mut spec = spec();
    for group in spec.groups.values_mut().filter(|group| group.moved > 0.0) {
        group.moved = 1.0;
    }
    let late = |restarts: bool, restart_after: u64| {
        let traffic = Traffic {
            services: vec![(place(&spec, "nginx-2016"), 1.0)],
            rate: 100.0,
            requests: 120,
            lead: Time::from_ns(500_000.0),
            lost: 0.0,
            false_alarms: 0.0,
            restart_after,
            seed: 1,
        };
        let policy = Preheater::new(PreheaterParameters::published());
        let hears = Hears { restarts, ..Hears::default() };
        let run = simulate(&spec, &traffic, Box::new(policy), hears, &RunControl::new()).unwrap();
        (run.tally.missed_by_half[1] as f64 / 60.0, run.tally.dumps)
    };
    let (steady, dumps) = late(false, 0);
    let (degraded, same) = late(false, 40);
    let (recovered, more) = late(true, 40);
    assert_eq!((dumps, same), (11, 11));
    assert_eq!(more, 22);
    assert!(degraded > 1.5 * steady, "{degraded} {steady}");
    assert!(recovered < 1.1 * steady, "{recovered} {steady}");
}

/// A description that cannot be is refused by its key.
#[test]
fn wrong_descriptions_are_refused() {
    let wrong = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    };
    assert!(wrong(|s| s.llc.ways = 12).starts_with("llc.ways: 2048 KiB in 12 ways"));
    assert!(wrong(|s| s.memory.device = "ddr2".into()).contains("expected one of lpddr3-1866"));
    assert!(wrong(|s| s.core.ghz = f64::NAN).starts_with("core.ghz: NaN, expected 0.01"));
    let group = |s: &mut Spec| s.services.get_mut("nginx-2016").unwrap().groups.push("x".into());
    let mut spec = spec();
    group(&mut spec);
    assert!(spec.check().unwrap_err().to_string().contains("services.nginx-2016.groups: `x`"));
    assert_eq!(Prefetcher::default(), Prefetcher::Stream);
}
