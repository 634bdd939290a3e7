//! Devices that come along, and descriptions that cannot be.

use halfwink_dram::{
    AddressMap, BankHash, Device, MapOrder, Memory, Rules, Spec, SpecError, Timing,
};

/// A change, and what is said of it.
type Case<T> = (fn(&mut T), &'static str);

fn spec(device: &str) -> Spec {
    let device = Device::named(device).unwrap();
    let (map, hash) = (MapOrder::RowRankBankColumnGroup, BankHash::Fold);
    Spec { channels: 1, ranks: 2, device, map, hash, rules: Rules::default() }
}

#[test]
fn the_devices_that_come_along_are_possible() {
    for name in Device::names() {
        let spec = spec(name);
        spec.check().unwrap();
        assert!(!spec.device.source.is_empty());
    }
    let peak = |name| spec(name).peak_bandwidth() * 1e-9;
    assert!((peak("ddr3-1333") - 10.67).abs() < 0.01);
    assert!((peak("ddr4-2133") - 17.02).abs() < 0.01);
    // One channel of 32 bits.
    assert!((peak("lpddr3-1866") - 7.48).abs() < 0.01);
    assert!((peak("ddr4-3200") - 25.6).abs() < 0.01);
    // One sub-channel of 32 bits.
    assert!((peak("ddr5-4800") - 19.2).abs() < 0.05);
}

/// What the currents of the DDR4 data sheet come to, for eight chips at 1.2 V.
#[test]
fn energies_of_commands_follow_from_currents() {
    let energy = Device::named("ddr4-3200").unwrap().command_energy().unwrap();
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.01, "{a}, expected {b}");
    // 9.6 V * (57 mA * 46.25 ns - 52 * 32.5 - 37 * 13.75).
    near(energy.activate_pj, 4_200.0);
    near(energy.read_pj, 2_784.0);
    near(energy.write_pj, 2_352.0);
    near(energy.refresh_pj, 665_280.0);
    near(energy.closed_w, 0.355);
    near(energy.open_w, 0.499);
    assert!(Device::named("ddr5-4800").unwrap().command_energy().is_none());
}

#[test]
fn timing_that_contradicts_itself_is_refused() {
    let with = |change: fn(&mut Timing)| {
        let mut spec = spec("ddr4-3200");
        change(&mut spec.device.timing);
        Memory::new(&spec).unwrap_err().to_string()
    };
    let cases: [Case<Timing>; 8] = [
        (|t| t.t_ras = 10, "t_ras: 10 clocks, expected at least t_rcd, which is 22"),
        (|t| t.t_ccd_l = 3, "t_ccd_l: 3 clocks, expected at least t_ccd_s, which is 4"),
        (|t| t.t_rrd_s = 9, "t_rrd_l: 8 clocks, expected at least t_rrd_s, which is 9"),
        (|t| t.t_wtr_l = 1, "t_wtr_l: 1 clocks"),
        (|t| t.t_faw = 2, "t_faw: 2 clocks"),
        (|t| t.t_cwl = 60, "t_cl: 27 clocks, expected at least t_cwl, which is 60"),
        (|t| t.t_refi = 600, "else a rank does nothing but refresh"),
        (|t| t.burst = 0, "burst: 0 clocks, expected at least 1"),
    ];
    for (change, expected) in cases {
        let error = with(change);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let with = |change: fn(&mut Spec)| -> SpecError {
        let mut spec = spec("ddr5-4800");
        change(&mut spec);
        Memory::new(&spec).unwrap_err()
    };
    let cases: [Case<Spec>; 6] = [
        (|s| s.channels = 3, "channels: 3 channels, expected a power of two"),
        (|s| s.channels = 1 << 40, "channels: more than the 2^48 lines"),
        (|s| s.ranks = 4, "ranks: expected at most 64 banks"),
        (|s| s.device.row_bytes = 100, "row_bytes: a power of two from 64"),
        (|s| s.rules.drain_at = 40, "drain_at: expected 1 to the queue's 32"),
        (|s| s.rules.idle_drain = 32, "idle_drain: expected fewer than drain_at"),
    ];
    for (change, expected) in cases {
        let error = with(change).to_string();
        let (key, message) = expected.split_once(": ").unwrap();
        assert!(error.starts_with(key) && error.contains(message), "{error}");
    }
}

#[test]
fn every_line_has_a_place_of_its_own() {
    for name in Device::names() {
        for map in [MapOrder::RowRankBankColumnGroup, MapOrder::RowRankBankGroupColumn] {
            for hash in [BankHash::None, BankHash::Low, BankHash::Fold] {
                let spec = Spec { channels: 4, map, hash, ..spec(name) };
                let map = AddressMap::new(&spec).unwrap();
                let mut seen = std::collections::BTreeMap::new();
                // As many lines as four rows of every bank have: each row is full, none overfull.
                let per_row = spec.device.row_bytes / 64;
                let lines = 4 * 4 * spec.banks() as u64 * per_row;
                for line in 0..lines {
                    let place = map.place((7 << 36) + line);
                    assert!(place.channel < 4 && place.bank < spec.banks());
                    *seen.entry((place.channel, place.bank, place.row)).or_insert(0) += 1;
                }
                assert_eq!(seen.len() as u64, lines / per_row);
                assert!(seen.values().all(|&n| n == per_row));
            }
        }
    }
}
