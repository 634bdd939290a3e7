//! Descriptions that are right, and descriptions that are wrong.

use super::*;

const EV6: &str = include_str!("../../../../machines/ev6.toml");

fn parse(text: &str) -> Result<Machine, InputError> {
    Machine::parse(&Input::new("ev6.toml", text))
}

pub(super) fn ev6() -> Machine {
    parse(EV6).unwrap()
}

fn refused(from: &str, to: &str) -> String {
    refused_in(EV6, from, to)
}

fn refused_in(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn the_shipped_machines_are_those_of_table_2_3() {
    let ev6 = parse(EV6).unwrap();
    assert_eq!(ev6.gating_costs(0).break_even, Time(17_170));
    assert_eq!(ev6.gating_costs(0).restore, Time(3_030));
    assert_eq!(ev6.l1d.geometry, Geometry { sets: 64, ways: 8 });
    assert_eq!(ev6.l3.geometry.unwrap().bytes(), 8 << 20);
    assert_eq!(ev6.token_entries(), 20);
    let in_order = include_str!("../../../../machines/in-order.toml");
    let in_order = Machine::parse(&Input::new("in-order.toml", in_order)).unwrap();
    assert_eq!(in_order.gating_costs(0).restore, Time(3_500));
    assert_eq!(in_order.token_entries(), 4);
}

/// The machine that benches/champsim.py compares with ChampSim is played by nothing else.
#[test]
fn the_machine_beside_champsim_is_one() {
    let text = include_str!("../../../../benches/champsim/matched.toml");
    let machine = Machine::parse(&Input::new("matched.toml", text)).unwrap();
    assert!(matches!(machine.memory.kind, MemoryKind::Dram(_)));
}

/// Cores of today: they are what their sources say, and ask for what is built.
#[test]
fn machines_of_today_are_possible() {
    for (text, window, cores) in [
        (include_str!("../../../../machines/golden-cove.toml"), 512, 56),
        (include_str!("../../../../machines/zen4.toml"), 320, 8),
        (include_str!("../../../../machines/neoverse-v2.toml"), 320, 64),
    ] {
        let machine = parse(text).unwrap();
        let CoreKind::OutOfOrder(queues) = machine.core.kind else { panic!("out of order") };
        assert_eq!((queues.reorder, machine.cores), (window, cores));
        assert!(matches!(machine.branch.predictor, PredictorKind::Tage(_)));
        assert!(machine.fetch.queue > 0 && machine.branch.btb.is_some());
        // From load to use, as measured: all levels together, and a closed row of memory.
        let closed = machine.memory.conflict().as_ns() - 39.0 * 0.416;
        let first = machine.clock.time_of(machine.l1d.latency + machine.l2.latency).as_ns();
        let ends = machine.memory.request + machine.memory.response + machine.l3.latency;
        let idle = first + ends.as_ns() + closed;
        assert!((106.0..116.0).contains(&idle), "{}: {idle} ns", machine.description);
    }
}

#[test]
fn what_a_front_end_cannot_be_is_refused_with_its_line() {
    const ZEN4: &str = include_str!("../../../../machines/zen4.toml");
    const IN_ORDER: &str = include_str!("../../../../machines/in-order.toml");
    let line = |text: &str, of: &str| text[..text.find(of).unwrap()].lines().count() + 1;
    let cases = [
        ("window = 320", "window = 4000", "4000 entries, expected 1 to 1024"),
        ("tables = 12", "tables = 17", "17 tables, expected 1 to 16"),
        ("entries = 2048", "entries = 1000", "1000 entries, expected a power of two"),
        ("longest_history = 1000", "longest_history = 9", "expected at least 15: 12 tables"),
        ("longest_history = 1000", "longest_history = 5000", "5000 branches, expected 1 to 2047"),
        ("ways = 7 ", "ways = 5 ", "expected a power of two"),
        ("redirect_cycles = 9", "redirect_cycles = 0", "0 cycles, expected 1 to 200"),
        ("lines_per_cycle = 1", "lines_per_cycle = 0", "0 lines a cycle, expected 1 to 8"),
        ("queue = 32 ", "queue = 999 ", "999 lines, expected 0 to 256"),
        ("predictor = \"tage\"", "predictor = \"bimodal\"", "`predictor` does not name"),
        ("predictor = \"tage\"", "predictor = \"perceptron\"", "does not name"),
    ];
    for (from, to, expected) in cases {
        let error = refused_in(ZEN4, from, to);
        assert!(error.contains(expected), "{from}: {error}");
    }
    let error = refused_in(ZEN4, "queue = 32 ", "queue = 999 ");
    let at = format!("ev6.toml:{}: ", line(ZEN4, "queue = 32 "));
    assert!(error.starts_with(&at), "{at}{error}");
    let fetch = "[fetch]\nqueue = 8\nlines_per_cycle = 1\n[l1i]\n";
    let error = refused_in(IN_ORDER, "[l1i]\n", fetch);
    assert!(error.contains("out-of-order cores only"), "{error}");
    let error = refused("predictor = \"tournament\"", "predictor = \"tage\"");
    assert!(error.contains("needs its sizes in [branch.tage]"), "{error}");
}

#[test]
fn the_predictor_takes_what_section_4_6_2_says() {
    let facts = ev6().facts();
    let fact = |name: &str| facts.iter().find(|(n, _)| *n == name).unwrap().1;
    // Nellans 2014: 200 tags of 8 bytes; with 16-bit lengths and 2-bit confidence; 1,500 of these.
    assert_eq!(fact("os.predictor_tag_bytes"), 1_600.0);
    assert_eq!(fact("os.predictor_bytes"), 2_050.0);
    assert_eq!(fact("os.predictor_direct_bytes"), 3_375.0);
    assert_eq!(fact("os.round_trip_cycles"), 2.0 * 3_080.0);
}

#[test]
fn an_impossible_cache_is_named_with_its_line() {
    let error = refused("size = \"256KB\"", "size = \"200KB\"");
    assert_eq!(
        error,
        "ev6.toml:58: an impossible cache: 200KB in 8 ways of 64-byte lines is 400 sets, \
         expected a power of two"
    );
    assert!(refused("size = \"8MB\"", "size = \"8\"").contains("\"8\" is no size"));
}

#[test]
fn what_cannot_be_is_refused() {
    let cases = [
        ("cores = 4", "cores = 0", ":10: 0 cores, expected 1 to 64"),
        ("clock_ghz = 3.3", "clock_ghz = -1.0", "a clock of -1, expected more than 0"),
        ("window = 80", "window = 4000", "4000 entries, expected 1 to 1024"),
        ("window = 80", "widnow = 80", "did you mean `window`?"),
        ("alu = 6", "alu = 0", "at least 1 a cycle"),
        ("mshrs = 16", "mshrs = 0", "0 miss registers"),
        ("latency_ns = 13.0", "latency_ns = 0.0", "takes time"),
        ("leakage_reduction = 0.9765", "leakage_reduction = 1.5", "must be 0 to 1"),
        ("schema = 1", "schema = 2", "reads machine schema 1"),
        ("eta_ns = 4.5", "eta_ns = 45.0", "at most response_ns"),
        ("request_ns = 4.5", "request_ns = nan", "a time of NaN ns"),
        ("kind = \"out-of-order\"", "kind = \"in-order\"", "out-of-order cores only"),
        ("kind = \"out-of-order\"", "kind = \"outoforder\"", "did you mean `out-of-order`?"),
    ];
    for (from, to, expected) in cases {
        let error = refused(from, to);
        assert!(error.contains(expected), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn memory_that_cannot_be_is_named_with_its_line() {
    let line = |text: &str, start: &str| {
        1 + text.lines().position(|line| line.starts_with(start)).unwrap()
    };
    let device = line(EV6, "device = ");
    let name = "device = \"ddr3-1333\"";
    let hash = "hash = \"fold\"";
    let cases = [
        (EV6, name, "device = \"ddr3-1600\"", device, "did you mean `ddr3-1333`?"),
        (EV6, "channels = 1", "channels = 3", device + 1, "3 channels, expected a power"),
        (EV6, "channels = 1", "channels = 1099511627776", device + 1, "the 2^48 lines"),
        (EV6, "ranks = 2 ", "ranks = 16", device + 2, "16 ranks of 8 banks, expected at"),
        (EV6, hash, "hash = \"flod\"", device + 5, "did you mean `fold`?"),
        (EV6, hash, "# none", device, "memory of a `device` needs `hash` in [memory]"),
        // Keys of another kind of memory.
        (EV6, hash, "latency_ns = 9", device + 5, "a key of uniform memory; this is memory of"),
        (EV6, name, "device = \"uniform\"", device + 4, "memory.map: a key of memory of a"),
    ];
    for (text, from, to, line, expected) in cases {
        let error = refused_in(text, from, to);
        assert!(error.starts_with(&format!("ev6.toml:{line}: ")), "{to}: {error}");
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_power_table_that_lacks_a_state_is_named_with_its_line_and_the_state() {
    let line = 1 + EV6.lines().position(|line| line.starts_with("[power.core]")).unwrap();
    let cases = [
        ("leakage_w", "what a core takes while its supply is on"),
        ("clock_w", "what the clock takes in the state `active`"),
        ("stalled_clock_w", "what the clock takes in the state `stalled`"),
    ];
    let (before, table) = EV6.split_once("[power.core]").unwrap();
    for (key, what) in cases {
        // The line stays, as a comment, so that the others keep their numbers.
        let table = table.replacen(&format!("\n{key} ="), &format!("\n# {key} ="), 1);
        let text = format!("{before}[power.core]{table}");
        let error = Machine::parse(&Input::new("ev6.toml", text)).unwrap_err().to_string();
        let expected = format!("ev6.toml:{line}: missing field `{key}`: nothing says {what}");
        assert_eq!(error, expected);
    }
    let error = refused_in(EV6, "stalled_clock_w = ", "stalled_clock_w = -");
    assert!(error.starts_with(&format!("ev6.toml:{line}: stalled_clock_w = -")), "{error}");
}

#[test]
fn uniform_memory_has_a_latency_and_ranks() {
    let (before, rest) = EV6.split_once("[memory]").unwrap();
    let (_, after) = rest.split_once("[tokens]").unwrap();
    let section = "[memory]\ndevice = \"uniform\"\nchannels = 2\nranks = 2\nlatency_ns = 80.0\n\
                   request_ns = 4.5\nresponse_ns = 12.5\n[tokens]";
    let text = [before, section, after].concat();
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("memory.device: this memory has no currents"), "{error}");
    let power = "\n[power.memory]\nclosed_w = 0.2\nopen_w = 0.2\nactivate_pj = 0\n\
                 read_pj = 10000\nwrite_pj = 10000\nrefresh_pj = 0\n";
    let text = text + power;
    let memory = parse(&text).unwrap().memory;
    assert_eq!((memory.ranks(), memory.conflict()), (4, Time::ns(80)));
    let error = parse(&text.replace("latency_ns = 80.0\n", "")).unwrap_err().to_string();
    assert!(error.contains("memory.device: uniform memory needs `latency_ns`"), "{error}");
}

/// A device of one's own, whose data sheet contradicts itself.
#[test]
fn timing_that_contradicts_itself_is_named_with_its_line() {
    let own = |timing: &str| {
        let device = "[memory.device]\nsource = \"mine\"\nclock_ps = 1000\ngroups = 1\nbanks = 8\n\
                      row_bytes = 4096\n[memory.device.timing]\nburst = 4\nt_cl = 10\nt_cwl = 8\n\
                      t_rcd = 10\nt_rp = 10\nt_ras = 30\nt_wr = 10\nt_rtp = 5\nt_ccd_l = 4\n\
                      t_ccd_s = 4\nt_rrd_l = 4\nt_rrd_s = 4\nt_faw = 20\nt_wtr_l = 5\nt_wtr_s = 5\n\
                      t_rtrs = 1\nt_rfc = 60\nt_refi = 2000\n\
                      [power.memory]\nclosed_w = 0.2\nopen_w = 0.2\nactivate_pj = 5000\n\
                      read_pj = 3000\nwrite_pj = 3000\nrefresh_pj = 0\n";
        let text = EV6.lines().filter(|line| !line.starts_with("device = "));
        let text: Vec<&str> = text.collect();
        text.join("\n") + "\n" + &device.replace("t_ras = 30", timing)
    };
    let machine = parse(&own("t_ras = 30")).unwrap();
    assert_eq!(machine.memory.conflict(), Time::ns(34));
    let text = own("t_ras = 3");
    let line = 1 + text.lines().position(|line| line == "t_ras = 3").unwrap();
    assert_eq!(
        parse(&text).unwrap_err().to_string(),
        format!(
            "ev6.toml:{line}: memory.device.timing.t_ras: 3 clocks, expected at least t_rcd, \
             which is 10"
        )
    );
    let error = parse(&own("t_rsa = 30")).unwrap_err().to_string();
    assert!(error.contains("unknown field `t_rsa`"), "{error}");
}

#[test]
fn a_shape_is_a_capacity_and_ways() {
    assert_eq!(Geometry::parse("32KB:8"), Ok(Geometry { sets: 64, ways: 8 }));
    for (text, why) in [
        ("32KB", "SIZE:WAYS"),
        ("32:8", "SIZE:WAYS"),
        ("32KB:0", "whole sets"),
        ("100B:1", "whole sets"),
        ("48KB:8", "power of two"),
        ("2GB:1", "at most 1 GB"),
    ] {
        assert!(Geometry::parse(text).unwrap_err().contains(why), "{text}");
    }
}

#[test]
fn wake_up_control_is_checked() {
    let why = refused("fastest_ns = 4.5", "fastest_ns = 45");
    assert!(why.contains("the fastest below the slowest"), "{why}");
    let why = refused("modes = 10", "modes = 1");
    assert!(why.contains("2 to 4096 modes"), "{why}");
    let why = refused("{ cores = 6", "{ cores = 3");
    assert!(why.contains("by rising numbers of cores"), "{why}");
    let why = refused("frequencies = [1.0, 0.95", "frequencies = [1.0, 1.95");
    assert!(why.contains("fall from 1"), "{why}");
    let why = refused("core_share = 0.61", "core_share = 6.1");
    assert!(why.contains("shares must be 0 to 1"), "{why}");
}

const TLB: &str = r#"
[tlb]
walkers = 4
walk_cache_entries = 32
user_pages = "4K"
kernel_pages = "2M"
pcid = true
[tlb.l1i]
entries = 256
ways = 8
[tlb.l1d]
entries = 96
ways = 6
large_entries = 32
large_ways = 4
[tlb.l2]
entries = 2048
ways = 16
latency_cycles = 7
"#;

/// What is wrong with the shipped machine and this section, changed: line and message.
fn refused_section(section: &str, from: &str, to: &str) -> String {
    let text = EV6.to_owned() + section;
    parse(&text).unwrap();
    let line = 1 + text.lines().position(|line| line.starts_with(from)).unwrap();
    let error = refused_in(&text, from, to);
    assert!(error.starts_with(&format!("ev6.toml:{line}: ")), "{to}: {error}");
    error
}

#[test]
fn a_tlb_that_no_page_fits_is_named_with_its_line() {
    let spec = parse(&(EV6.to_owned() + TLB)).unwrap().tlb.unwrap();
    assert_eq!(spec.data.all, Geometry { sets: 16, ways: 6 });
    assert_eq!((spec.large, spec.second_latency), ([false, true], 7));
    assert_eq!(parse(EV6).unwrap().tlb, None);
    let cases = [
        ("entries = 256", "entries = 0", "0 entries, a TLB that no page fits: expected 1 or more"),
        ("entries = 96", "entries = 1", "a TLB that no access to two pages fits"),
        ("entries = 2048", "entries = 48", "are 3 sets, expected a power of two"),
        ("ways = 16", "ways = 5", "2048 entries in 5 ways, expected whole sets"),
        ("walkers = 4", "walkers = 0", "0 walkers, expected 1 to 64"),
        ("latency_cycles = 7", "latency_cycles = 0", "a latency of 0 cycles"),
        ("large_entries = 32", "large_entries = 6", "6 entries in 4 ways"),
        ("kernel_pages = \"2M\"", "kernel_pages = \"1G\"", "`4K` or `2M`"),
    ];
    for (from, to, expected) in cases {
        // `ways = 16` is there before, of another cache: the line is the section's.
        let within = TLB.lines().position(|line| line.starts_with(from)).unwrap();
        let error = parse(&(EV6.to_owned() + &TLB.replacen(from, to, 1))).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
        let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
        let named = line - EV6.lines().count() - 1;
        // What a number of ways makes impossible may be named by the entries, a line before.
        assert!(named.abs_diff(within) <= 1, "{to}: {error}");
    }
    let alone = EV6.to_owned() + &TLB.replace("large_ways = 4\n", "");
    assert!(parse(&alone).unwrap_err().to_string().contains("go together"));
    let error = refused("loses = []", "loses = [\"tlb\"]");
    assert!(error.contains("\"tlb\", but the machine has no [tlb]"), "{error}");
}

#[test]
fn prefetchers_that_cannot_be_are_named_with_their_line() {
    const PREFETCH: &str = r#"
[prefetch.l1i]
kind = "next-line"
degree = 1
queue = 2
[prefetch.l2]
kind = "streamer"
degree = 3
distance = 20
entries = 16
queue = 24
"#;
    assert_eq!(parse(EV6).unwrap().prefetch, PrefetchSpec::default());
    let cases = [
        ("degree = 3", "degree = 25", "a degree of 25 lines, but a queue of 24"),
        ("degree = 3", "degree = 21", "a degree of 21 lines, but a distance of 20"),
        ("degree = 3", "degree = 0", "0 lines at an access, expected 1 to 64"),
        ("queue = 24", "queue = 65", "65 lines on their way, expected 1 to 64"),
        ("entries = 16", "entries = 9", "9 entries, expected a power of two"),
        ("kind = \"streamer\"", "kind = \"stride\"", "no `stride` prefetcher here, expected next"),
        ("kind = \"streamer\"", "kind = \"stream\"", "did you mean `streamer`?"),
    ];
    for (from, to, expected) in cases {
        let error = refused_section(PREFETCH, from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
    let missing = PREFETCH.replace("distance = 20\n", "");
    let error = parse(&(EV6.to_owned() + &missing)).unwrap_err().to_string();
    assert!(error.contains("a streamer prefetcher needs `distance` and `entries`"), "{error}");
    let surplus = PREFETCH.replace("queue = 2\n", "queue = 2\nentries = 4\n");
    let error = parse(&(EV6.to_owned() + &surplus)).unwrap_err().to_string();
    assert!(error.contains("has neither `distance` nor `entries`"), "{error}");
}

#[test]
fn faults_that_cannot_be_are_refused_with_their_line() {
    assert!(!ev6().faults.any() && ev6().faults == FaultSpec::NONE);
    let line = |of: &str| EV6[..EV6.find(of).unwrap()].lines().count() + 1;
    for (from, to, expected) in [
        ("wake_lost = 0.0", "wake_lost = 1.5", "faults.wake_lost: 1.5, expected 0 to 1"),
        ("token_late = 0.0", "token_late = -0.1", "faults.token_late: -0.1, expected 0 to 1"),
        ("wake_late = 0.0", "wake_late = nan", "faults.wake_late: NaN, expected 0 to 1"),
        ("late_ns = 0.0", "late_ns = -1.0", "faults.late_ns: -1, expected 0 to 1000000000"),
        ("os_silent_us = 100.0", "os_silent_us = 0.0", "os_silent_us: 0, expected 0.001 to"),
        ("os_gone_us = 0.0", "os_gone = 0.0", "unknown field `os_gone`"),
        ("token_lost = 0.0", "tokens_lost = 0.0", "did you mean `token_lost`?"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(expected), "{from}: {error}");
        let at = format!("ev6.toml:{}: ", line(from));
        assert!(error.starts_with(&at), "{at}{error}");
    }
    // A file of before has none.
    let (before, after) = EV6.split_once("[faults]").unwrap();
    let text = format!("{before}{}", &after[after.find("[power.core]").unwrap()..]);
    assert_eq!(parse(&text).unwrap().faults, FaultSpec::NONE);
    // They are part of what paces a run, seed and all.
    let late = |seed| {
        let faults = FaultSpec { wake_late: 0.1, seed, ..FaultSpec::NONE };
        Machine { faults, ..ev6() }.pace()
    };
    assert!(late(1) != late(2) && late(1) != ev6().pace());
}
