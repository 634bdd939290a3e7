//! What must hold of a controller whatever comes: the data sheet, lower bounds, and that it does
//! not matter how often it is asked.

use crate::common;

use common::checker::check;
use common::driver::{play, Mode};
use common::{reference_spec, requests, Line};
use halfwink_dram::{
    AddressMap, BankHash, Channel, Command, Counts, Device, Kind, MapOrder, Page, Payer, Request,
    Rules, Sink, Spec,
};
use proptest::prelude::*;

fn spec(device: &str) -> Spec {
    Spec {
        channels: 1,
        ranks: 2,
        device: Device::named(device).unwrap(),
        map: MapOrder::RowRankBankColumnGroup,
        hash: BankHash::Fold,
        rules: Rules::default(),
    }
}

/// Everything that is heard, in order.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    accepted: Vec<(u64, u64, u64)>,
    counted: Vec<u64>,
    done: Vec<(u64, u64)>,
    commands: Vec<Command>,
}

impl Sink for Heard {
    fn accepted(&mut self, id: u64, at: u64, bound: u64, counted: u64) {
        self.accepted.push((id, at, bound));
        self.counted.push(counted);
    }

    fn done(&mut self, id: u64, at: u64) {
        self.done.push((id, at));
    }

    fn command(&mut self, command: Command) {
        self.commands.push(command);
    }
}

/// Plays requests at their clocks; `steps` says by how much what is known grows each time.
fn hear(spec: &Spec, lines: &[Line], steps: &[u64]) -> (Heard, Counts) {
    let map = AddressMap::new(spec).unwrap();
    let mut channel = Channel::new(spec);
    let mut heard = Heard::default();
    let (mut known, mut steps) = (0, steps.iter().cycle());
    for (id, line) in lines.iter().enumerate() {
        while known + steps.clone().next().unwrap() <= line.clock {
            known += steps.next().unwrap();
            channel.run(known, &mut heard);
        }
        let place = map.place(line.line);
        let (bank, row, write) = (place.bank, place.row, line.write);
        let payer = if line.line % 3 == 0 { Payer::Kernel } else { Payer::User };
        let request = Request { id: id as u64, line: line.line, bank, row, write, payer };
        channel.push(line.clock, request);
    }
    let last = lines.last().map_or(0, |line| line.clock);
    while known < last + 100_000 {
        known += steps.next().unwrap().max(&50);
        channel.run(known, &mut heard);
    }
    channel.run(end_of(lines), &mut heard);
    // Refreshes that nobody waited for are told nobody.
    let refreshes = channel.counts().refreshes;
    channel.finish(end_of(lines));
    (heard, Counts { refreshes, ..channel.counts() })
}

/// When all requests of these lines are long done.
fn end_of(lines: &[Line]) -> u64 {
    lines.last().map_or(0, |line| line.clock) + 1_000_000
}

/// Sum over ranks of the clocks before `end` in which a bank of the rank has a row open.
fn open_clocks(spec: &Spec, commands: &[Command], end: u64) -> u64 {
    let of_rank = |rank: usize| {
        let mut open = vec![None; spec.banks()];
        let mut intervals = Vec::new();
        for command in commands.iter().filter(|command| command.rank == rank) {
            match command.kind {
                Kind::Activate => open[command.bank] = Some(command.at),
                Kind::Precharge | Kind::AutoPrecharge => {
                    intervals.extend(open[command.bank].take().map(|since| (since, command.at)));
                }
                _ => {}
            }
        }
        intervals.extend(open.into_iter().flatten().map(|since| (since, end)));
        intervals.sort_unstable();
        let mut seen = 0;
        let parts = intervals.into_iter().map(|(from, to)| {
            let part = to.saturating_sub(from.max(seen));
            seen = seen.max(to);
            part
        });
        parts.sum::<u64>()
    };
    (0..spec.ranks).map(of_rank).sum()
}

/// Random traffic in a form that shrinks well: where (few rows of few banks, some neighbours), what
/// and how long after the last.
fn any_lines() -> impl Strategy<Value = Vec<Line>> {
    let one = (0u64..6, 0u64..40, any::<bool>(), prop_oneof![8 => 0u64..6, 1 => 0u64..4_000]);
    prop::collection::vec(one, 1..300).prop_map(|all| {
        let mut clock = 0;
        all.into_iter()
            .map(|(row, near, write, wait)| {
                clock += wait;
                Line { line: row * 131_072 + near * 7, write, clock }
            })
            .collect()
    })
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let devices = prop::sample::select(Device::names().collect::<Vec<_>>());
    let maps = prop::sample::select(vec![
        MapOrder::RowRankBankColumnGroup,
        MapOrder::RowRankBankGroupColumn,
    ]);
    let hashes = prop::sample::select(vec![BankHash::None, BankHash::Low, BankHash::Fold]);
    let rules = (1usize..40, 0usize..40, 1u32..6, 4u32..300, any::<bool>());
    (devices, 0u32..2, maps, hashes, rules).prop_map(|(device, ranks, map, hash, rules)| {
        let (queue, low, hit_cap, patience, closed) = rules;
        let rules = Rules {
            queue,
            drain_at: queue,
            drain_to: low % queue,
            idle_drain: low / 2 % queue,
            hit_cap,
            patience,
            forward: u64::from(hit_cap),
            page: if closed { Page::Closed } else { Page::Open },
        };
        Spec { ranks: 1 << ranks, map, hash, rules, ..spec(device) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_command_breaks_the_data_sheet(spec in any_spec(), lines in any_lines()) {
        let (heard, counts) = hear(&spec, &lines, &[1_000]);
        prop_assert_eq!(check(&spec, &heard.commands), Ok(()));
        // Every read is answered once, and every write written, merged or waiting.
        let reads = lines.iter().filter(|line| !line.write).count() as u64;
        let sum = |pair: [u64; 2]| pair[0] + pair[1];
        prop_assert_eq!(heard.done.len() as u64, reads);
        prop_assert_eq!(sum(counts.reads) + counts.forwarded, reads);
        let written = sum(counts.writes) + counts.merged + counts.queued_writes;
        prop_assert_eq!(written, lines.len() as u64 - reads);
        let told = |kind| heard.commands.iter().filter(|c| c.kind == kind).count() as u64;
        prop_assert_eq!(told(Kind::Activate), sum(counts.activates));
        prop_assert_eq!(told(Kind::Refresh), counts.refreshes);
    }

    /// Of what the log says of rows, without refreshes: some are told nobody.
    #[test]
    fn ranks_are_open_while_a_row_is(spec in any_spec(), lines in any_lines()) {
        let mut spec = spec;
        spec.device.timing.t_refi = 0;
        let (heard, counts) = hear(&spec, &lines, &[1_000]);
        prop_assert_eq!(counts.open_clocks, open_clocks(&spec, &heard.commands, end_of(&lines)));
    }

    #[test]
    fn bounds_are_never_above_the_time_of_the_data(spec in any_spec(), lines in any_lines()) {
        let (heard, _) = hear(&spec, &lines, &[1_000]);
        for &(id, at) in &heard.done {
            let accepted = heard.accepted.iter().find(|accepted| accepted.0 == id).unwrap();
            prop_assert!(accepted.2 <= at, "read {}: bound {}, data at {}", id, accepted.2, at);
            prop_assert!(accepted.1 == lines[id as usize].clock);
        }
    }

    #[test]
    fn how_often_it_is_asked_changes_nothing(
        spec in any_spec(),
        lines in any_lines(),
        steps in prop::collection::vec(1u64..200, 1..20),
    ) {
        let whole = hear(&spec, &lines, &[1_000_000]);
        prop_assert!(whole == hear(&spec, &lines, &[1]));
        prop_assert!(whole == hear(&spec, &lines, &steps));
    }
}

/// The property tests above, on the reference's traffic in saturation.
#[test]
fn saturated_channels_obey_the_data_sheet() {
    for device in Device::names() {
        for pattern in ["seq", "seqwb", "rand50"] {
            for page in [Page::Open, Page::Closed] {
                let mut spec = spec(device);
                spec.rules.page = page;
                let lines = requests(pattern, 6_000, None);
                let played = play(&spec, &lines, Mode::Closed(32), true);
                assert_eq!(check(&spec, &played.commands), Ok(()), "{device} {pattern} {page:?}");
                assert!(played.commands.len() > 6_000);
            }
        }
    }
}

/// Idle hit, closed bank and conflict of DDR3-1333 9-9-9: 19.5, 33.0 and 46.5 ns.
#[test]
fn a_lone_read_takes_what_the_data_sheet_says() {
    let mut spec = spec("ddr3-1333");
    spec.hash = BankHash::None;
    let row = 128 * 16;
    let read = |line, clock| Line { line, write: false, clock };
    let lines = [read(0, 0), read(1, 100), read(row, 200)];
    let (heard, _) = hear(&spec, &lines, &[1]);
    let spans: Vec<u64> =
        heard.done.iter().map(|&(id, at)| at - lines[id as usize].clock).collect();
    assert_eq!(spans, [22, 13, 31]);
    // The bound of a lone read is exact.
    let bounds: Vec<u64> = heard.accepted.iter().map(|&(_, at, bound)| bound - at).collect();
    assert_eq!(bounds, spans);
}

/// A victim as old as the cache is large lies in the bank of the line that displaced it, unless all
/// bits of the row are hashed: the defect that made store streams crawl.
#[test]
fn only_the_folded_hash_parts_lines_from_their_victims() {
    let conflicts = |hash| {
        let spec = Spec { hash, ..spec("ddr3-1333") };
        let lines = requests("seqwb", 10_000, Some(4.0 / 0.6));
        let played = play(&spec, &lines, Mode::Open, false);
        (played.counts.activates[0], played.mean_clocks())
    };
    let [none, low, fold] = [BankHash::None, BankHash::Low, BankHash::Fold].map(conflicts);
    assert_eq!(none, low);
    assert!(fold.0 * 4 < none.0 && fold.1 * 1.7 < none.1, "{fold:?} {none:?}");
}

/// Without a bound on waiting, a stream of hits in one rank keeps the other from the bus.
#[test]
fn bounded_patience_shortens_longest_wait() {
    let longest = |patience| {
        let mut spec = reference_spec("ddr3-1333", "rochrababgco", "none");
        spec.rules.patience = patience;
        let played = play(&spec, &requests("seq", 30_000, None), Mode::Closed(32), false);
        played.latencies.into_iter().max().unwrap()
    };
    let (patient, impatient) = (longest(u32::MAX), longest(256));
    assert!(impatient * 3 < patient * 2, "{impatient} of {patient}");
}

/// Outstanding reads are bandwidth times latency (Little), in a closed loop.
#[test]
fn outstanding_reads_are_bandwidth_times_latency() {
    let played = play(&spec("ddr4-3200"), &requests("seq", 30_000, None), Mode::Closed(32), false);
    let reads_per_clock = played.reads as f64 / played.clocks as f64;
    let outstanding = (played.mean_clocks() + 2.0) * reads_per_clock;
    assert!((outstanding - 32.0).abs() < 0.3, "{outstanding}");
}

/// An idle controller writes what it has; the rest is told as waiting, not lost.
#[test]
fn writes_wait_for_reads_and_not_for_ever() {
    let write = |n: u64| Line { line: n * 1_000, write: true, clock: n };
    let lines: Vec<Line> = (0..12).map(write).collect();
    let (_, counts) = hear(&spec("ddr4-3200"), &lines, &[1]);
    assert_eq!((counts.writes[0] + counts.writes[1], counts.queued_writes), (9, 3));
    // A read of a line that waits is answered by the queue.
    let lines = [write(1), Line { write: false, clock: 50, ..write(1) }];
    let (heard, counts) = hear(&spec("ddr4-3200"), &lines, &[1]);
    assert_eq!((counts.forwarded, heard.done[0]), (1, (1, 51)));
}

/// By hand: DDR3-1333 takes 9 clocks each to precharge, to activate and to read, and 4 for the
/// data.
#[test]
fn counters_of_banks_serve_requests_one_by_one() {
    let mut channel = Channel::new(&spec("ddr3-1333"));
    let requests = [(0, 7, 100), (0, 7, 100), (0, 8, 101), (1, 7, 102), (0, 8, 1_000)];
    for (id, (bank, row, clock)) in requests.into_iter().enumerate() {
        let (id, payer) = (id as u64, Payer::User);
        channel.push(clock, Request { id, line: id, bank, row, write: false, payer });
    }
    let mut heard = Heard::default();
    channel.run(10_000, &mut heard);
    let closed = 9 + 9 + 4;
    let [second, third] = [100 + closed + 13, 100 + closed + 13 + closed + 9];
    assert_eq!(heard.counted, [100 + closed, second, third, 102 + closed, 1_000 + 13]);
}
