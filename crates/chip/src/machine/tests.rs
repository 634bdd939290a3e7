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
    assert!(EV6.contains(from), "{from}");
    parse(&EV6.replacen(from, to, 1)).unwrap_err().to_string()
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
        ("window = 80", "window = 400", "400 entries, expected 1 to 128"),
        ("window = 80", "widnow = 80", "did you mean `window`?"),
        ("alu = 6", "alu = 0", "at least 1 a cycle"),
        ("mshrs = 16", "mshrs = 0", "0 miss registers"),
        ("latency_ns = 13.0", "latency_ns = 0.0", "takes time"),
        ("leakage_reduction = 0.9765", "leakage_reduction = 1.5", "must be 0 to 1"),
        ("schema = 1", "schema = 2", "reads machine schema 1"),
        ("eta_ns = 4.5", "eta_ns = 45.0", "at most response_ns"),
        ("t_cl_ns = 13.5", "t_cl_ns = nan", "a time of NaN ns"),
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
