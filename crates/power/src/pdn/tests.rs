//! Closed forms first, then what must hold of any network.

use super::*;

pub(crate) fn spec(rows: usize, columns: usize) -> NetworkSpec {
    NetworkSpec {
        schema: 1,
        description: "test".into(),
        calibrated: vec![],
        grid: GridSpec { rows, columns, supply: None },
        core: CoreCircuit {
            supply_v: 1.0,
            c_core_nf: 28.8,
            c_decap_nf: 5.76,
            r_pdn_mohm: 18.3,
            i_active_a: 2.0,
        },
        package: Some(Package { l_ph: 68.0, r_mohm: 1.0, r_shared_mohm: 200.0 }),
        mesh: None,
        wake_up: WakeUp { rise_share: 0.2, fastest_ns: 4.5, longest_ns: 40.0 },
        limits: Limits { active_droop: 0.05, standby_droop: 0.4 },
        slots: Slots { count: 5, stagger_ns: 0.9 },
        sheet: None,
    }
}

pub(crate) fn network(rows: usize, columns: usize) -> Network {
    Network::new(spec(rows, columns)).unwrap()
}

fn close(ours: f64, theirs: f64, relative: f64) {
    assert!((ours - theirs).abs() <= relative * theirs.abs(), "{ours} {theirs}");
}

#[test]
fn a_ramp_into_resistance_and_capacitance() {
    // With hardly any inductance the core is R and C: droop(t) = R (t - tau (1 - e^(-t/tau))).
    let mut spec = spec(1, 1);
    spec.package = Some(Package { l_ph: 1e-3, r_mohm: 50.0, r_shared_mohm: 1.0 });
    spec.core.r_pdn_mohm = 50.0;
    let responses = Responses::new(&Network::new(spec).unwrap()).unwrap();
    let tau = 0.1 * 5.76e-9;
    for sample in [10, 100, 1000] {
        let t = sample as f64 * responses.step_s;
        let expected = 0.1 * (t - tau * (1.0 - (-t / tau).exp()));
        close(responses.ramp(0, 0)[sample], expected, 1e-4);
    }
}

#[test]
fn a_ramp_into_inductance_and_capacitance_rings() {
    // Underdamped series R-L with C: droop(s) = (R + sL) / (s^2 (1 + sRC + s^2 LC)). With hardly
    // any resistance: L (1 - cos(w t)), w = 1 / sqrt(LC).
    let mut spec = spec(1, 1);
    spec.package = Some(Package { l_ph: 70.0, r_mohm: 0.0, r_shared_mohm: 1.0 });
    spec.core.r_pdn_mohm = 1e-4;
    let responses = Responses::new(&Network::new(spec).unwrap()).unwrap();
    let omega = 1.0 / (70e-12 * 5.76e-9f64).sqrt();
    for sample in [3, 17, 40, 200] {
        let t = sample as f64 * responses.step_s;
        let expected = 70e-12 * (1.0 - (omega * t).cos());
        assert!((responses.ramp(0, 0)[sample] - expected).abs() < 1e-3 * 70e-12);
    }
}

#[test]
fn search_and_transient_droops_agree() {
    let network = network(3, 3);
    let search = Search::new(&network).unwrap();
    let case = Case::parse("waw/.aa/wa.", network.grid(), 8.37, 0.9).unwrap();
    let played = transient(&network, &case, 0.005, 30.0);
    for core in 0..9 {
        let theirs = played.droop_v[core].iter().fold(0.0f64, |m, &v| m.max(v));
        close(search.droop_v(core, &case.starts, case.wake_ns), theirs, 1e-3);
    }
}

#[test]
fn no_energy_comes_from_nowhere() {
    let network = network(2, 3);
    let case = Case::parse("waa/w.a", network.grid(), 6.0, 0.3).unwrap();
    let played = transient(&network, &case, 0.01, 40.0);
    assert!(played.dissipated_j > 0.0 && played.stored_j >= 0.0);
    close(played.given_j, played.dissipated_j + played.stored_j, 1e-9);
}

#[test]
fn responses_superpose_and_are_reciprocal() {
    let search = Search::new(&network(2, 3)).unwrap();
    let responses = search.responses();
    for (a, b) in [(0, 1), (0, 5), (2, 3), (1, 4)] {
        for (ours, theirs) in responses.ramp(a, b).iter().zip(responses.ramp(b, a)) {
            assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1e-15));
        }
    }
    // The sum of two cores' droop, sample by sample, is that of both: so peaks never exceed sums.
    let both = search.droop_v(0, &[(1, 0.0), (4, 0.0)], 9.0);
    let sum = search.droop_v(0, &[(1, 0.0)], 9.0) + search.droop_v(0, &[(4, 0.0)], 9.0);
    assert!(both <= sum * (1.0 + 1e-9), "{both} {sum}");
}

#[test]
fn bad_elements_are_named() {
    let fails = |change: &dyn Fn(&mut NetworkSpec)| {
        let mut spec = spec(2, 2);
        change(&mut spec);
        Network::new(spec).unwrap_err().to_string()
    };
    assert_eq!(
        fails(&|s| s.package.as_mut().unwrap().r_mohm = -1.0),
        "package.r_mohm: -1, expected 0 to 10000000"
    );
    assert_eq!(
        fails(&|s| s.core.c_decap_nf = f64::NAN),
        "core.c_decap_nf: NaN, expected 0.0001 to 1000000"
    );
    assert_eq!(
        fails(&|s| s.grid.supply = Some(vec!["..".into(), "..".into()])),
        "grid.supply: no core has a path to the regulator"
    );
    assert!(fails(&|s| s.grid.rows = 0).starts_with("grid.rows: 0, expected"));
    assert!(fails(&|s| s.calibrated = vec!["core.q".into()]).starts_with("calibrated: no element"));
}

#[test]
fn a_limit_out_of_reach_is_an_error() {
    let mut spec = spec(2, 2);
    spec.limits.active_droop = 1e-4;
    let error = Search::new(&Network::new(spec).unwrap()).unwrap().all(0.0).unwrap_err();
    assert_eq!(error.element, "limits.active_droop");
    assert!(error.message.contains("cannot be kept"), "{error}");
}

/// Every set of waking cores of a grid with every other core.
fn sets(grid: Grid) -> impl Iterator<Item = (Cores, usize)> {
    let sets = 1..(1u64 << grid.cores());
    sets.flat_map(move |bits| {
        let others = (0..grid.cores()).filter(move |&core| !Cores(bits).has(core));
        others.map(move |core| (Cores(bits), core))
    })
}

fn at_once(waking: Cores) -> Vec<(usize, f64)> {
    waking.iter().map(|core| (core, 0.0)).collect()
}

#[test]
fn one_more_waking_core_never_makes_less_droop() {
    let search = Search::new(&network(2, 3)).unwrap();
    for wake_ns in [5.0, 8.0, 12.0, 18.0] {
        for (waking, rail) in sets(search.grid()) {
            let droop = search.droop_v(rail, &at_once(waking), wake_ns);
            for fewer in waking.iter().map(|core| waking.without(core)) {
                let less = search.droop_v(rail, &at_once(fewer), wake_ns);
                assert!(less <= droop * (1.0 + 1e-9), "{waking:?} {fewer:?} {rail} {wake_ns}");
            }
        }
    }
}

/// Droop of every set and rail for wake-ups from 4.5 ns, half a nanosecond apart.
fn slowing(network: &Network, mut judge: impl FnMut(&[f64])) {
    let search = Search::new(network).unwrap();
    for (waking, rail) in sets(search.grid()) {
        let droop = |half_ns| search.droop_v(rail, &at_once(waking), 0.5 * f64::from(half_ns));
        judge(&(9..70).map(droop).collect::<Vec<f64>>());
    }
}

#[test]
fn a_slower_wake_up_never_makes_more_droop_where_nothing_rings() {
    let mut spec = spec(2, 3);
    spec.core.r_pdn_mohm = 400.0;
    slowing(&Network::new(spec).unwrap(), |droop| {
        assert!(droop.is_sorted_by(|faster, slower| slower <= &(faster * (1.0 + 1e-9))));
    });
}

#[test]
fn where_it_rings_a_wake_up_slower_than_a_safe_one_is_safe() {
    // Ringing makes droop rise here and there by some thousandths, far below the limit.
    slowing(&network(2, 3), |droop| {
        let safe = droop.iter().position(|&v| v <= 0.05).unwrap();
        assert!(droop[safe..].iter().all(|&v| v <= 0.05));
    });
}

#[test]
fn turned_and_mirrored_sets_are_equal() {
    let search = Search::new(&network(3, 3)).unwrap();
    let (waking, rail) = (Cores::of([0, 1, 5]), 4);
    let droop = search.droop_v(rail, &at_once(waking), 9.0);
    for image in search.grid().symmetries(Cores::first(9)) {
        let turned = Cores::of(waking.iter().map(|core| image[core]));
        close(search.droop_v(image[rail], &at_once(turned), 9.0), droop, 1e-9);
    }
}

#[test]
fn a_chip_with_few_supply_paths_is_solved_as_it_is() {
    let mut spec = spec(2, 3);
    spec.grid.supply = Some(vec!["#..".into(), "..#".into()]);
    let network = Network::new(spec).unwrap();
    let search = Search::new(&network).unwrap();
    let case = Case::parse("waa/aaw", network.grid(), 15.0, 0.0).unwrap();
    let played = transient(&network, &case, 0.005, 40.0);
    for core in 0..6 {
        let theirs = played.droop_v[core].iter().fold(0.0f64, |m, &v| m.max(v));
        close(search.droop_v(core, &case.starts, case.wake_ns), theirs, 1e-3);
    }
}

#[test]
fn the_shortest_safe_wake_up_is_safe_and_shortest() {
    let search = Search::new(&network(4, 4)).unwrap();
    let limit = search.active_limit();
    for waking in [&[6][..], &[6, 9], &[0, 15], &[1, 4, 6, 9, 10]] {
        let starts = at_once(Cores::of(waking.iter().copied()));
        let found = search.shortest_ns(5, &starts, &limit, 0.5).unwrap();
        assert!(search.droop_v(5, &starts, found) <= 0.05);
        assert!(search.droop_v(5, &starts, 0.99 * found) > 0.05, "{waking:?} {found}");
    }
}

#[test]
fn charge_of_a_wake_up_is_that_of_the_core() {
    let network = network(1, 1);
    let wave = Triangle::new(&network, 7.3, 0.4);
    let charge: f64 = (0..10_000).map(|n| wave.at(f64::from(n) * 1e-12) * 1e-12).sum();
    close(charge, 28.8e-9, 1e-4);
}

/// A package whose every element tells.
fn mesh() -> Mesh {
    Mesh {
        die: DieGrid { r_mohm: 900.0 },
        bump: Path { l_ph: 60.0, r_mohm: 1.0 },
        plane: Plane { l_ph: 20.0, r_mohm: 10.0, c_nf: 0.0 },
        ball: Path { l_ph: 15.0, r_mohm: 4.0 },
        board: Board { c_uf: 5.0, esr_mohm: 0.5, esl_ph: 3.0 },
        regulator: Path { l_ph: 100.0, r_mohm: 1.0 },
    }
}

fn meshed(rows: usize, columns: usize, change: impl Fn(&mut Mesh)) -> Network {
    let mut mesh = mesh();
    change(&mut mesh);
    Network::new(NetworkSpec { package: None, mesh: Some(mesh), ..spec(rows, columns) }).unwrap()
}

#[test]
fn a_mesh_without_its_own_elements_is_the_lumped_package() {
    // No grid on the die, no bumps, a plane of resistors, and a board as stiff as a regulator.
    let bare = |mesh: &mut Mesh| {
        mesh.die.r_mohm = 1e9;
        mesh.bump = Path { l_ph: 0.0, r_mohm: 0.0 };
        mesh.plane = Plane { l_ph: 0.0, r_mohm: 200.0, c_nf: 0.0 };
        mesh.ball = Path { l_ph: 68.0, r_mohm: 1.0 };
        mesh.board = Board { c_uf: 1e6, esr_mohm: 1e-4, esl_ph: 0.0 };
    };
    for (rows, columns) in [(2, 3), (4, 4)] {
        let ours = Responses::new(&meshed(rows, columns, bare)).unwrap();
        let lumped = Responses::new(&network(rows, columns)).unwrap();
        for (rail, source) in [(0, 0), (1, 0), (4, 1), (5, 0)] {
            for sample in [200, 400, 800] {
                let (a, b) = (ours.ramp(rail, source)[sample], lumped.ramp(rail, source)[sample]);
                // The board's least resistance is shared by what the regulator keeps apart.
                let shared = 2e-7 * sample as f64 * ours.step_s;
                assert!((a - b).abs() < 1e-3 * b.abs() + shared, "{a} {b}");
            }
        }
    }
}

#[test]
fn both_solvers_agree_on_a_mesh_with_and_without_capacitance_in_its_plane() {
    for c_nf in [0.0, 0.3, 20.0] {
        let network = meshed(2, 3, |mesh| mesh.plane.c_nf = c_nf);
        let search = Search::new(&network).unwrap();
        let case = Case::parse("waw/aaw", network.grid(), 7.3, 0.6).unwrap();
        let played = transient(&network, &case, 0.002, 40.0);
        for core in 0..6 {
            let theirs = played.droop_v[core].iter().fold(0.0f64, |m, &v| m.max(v));
            close(search.droop_v(core, &case.starts, case.wake_ns), theirs, 1e-3);
        }
        close(played.given_j, played.dissipated_j + played.stored_j, 1e-9);
    }
}

#[test]
fn a_mesh_is_reciprocal_and_alike_when_turned() {
    let search = Search::new(&meshed(3, 3, |_| {})).unwrap();
    for (a, b) in [(0, 1), (0, 8), (2, 3)] {
        for (ours, theirs) in
            search.responses().ramp(a, b).iter().zip(search.responses().ramp(b, a))
        {
            assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1e-15));
        }
    }
    let (waking, rail) = (Cores::of([0, 1, 5]), 4);
    let droop = search.droop_v(rail, &at_once(waking), 9.0);
    for image in search.grid().symmetries(Cores::first(9)) {
        let turned = Cores::of(waking.iter().map(|core| image[core]));
        close(search.droop_v(image[rail], &at_once(turned), 9.0), droop, 1e-9);
    }
}

#[test]
fn cores_of_one_quadrant_share_its_board() {
    // A core droops more for a far one of its own quadrant than for one as far in the next.
    let shared = meshed(4, 4, |mesh| mesh.board.esl_ph = 30.0);
    let search = Search::new(&shared).unwrap();
    let droop = |rail, source| search.droop_v(rail, &[(source, 0.0)], 9.0);
    assert!(droop(1, 0) > 1.2 * droop(1, 2), "{} {}", droop(1, 0), droop(1, 2));
}

#[test]
fn a_voltage_that_nothing_determines_is_an_error() {
    // The plane's resistors tie its nodes to one another, and only inductances to all else.
    let network = meshed(2, 2, |mesh| mesh.plane.l_ph = 0.0);
    let error = Responses::new(&network).unwrap_err();
    assert_eq!(error.element, "mesh.plane.c_nf");
    assert!(error.message.contains("not determined"), "{error}");
    assert!(Responses::new(&meshed(2, 2, |mesh| {
        mesh.plane.l_ph = 0.0;
        mesh.plane.c_nf = 0.1;
    }))
    .is_ok());
}

#[test]
fn a_description_has_one_package() {
    let both = NetworkSpec { mesh: Some(mesh()), ..spec(2, 2) };
    let neither = NetworkSpec { package: None, ..spec(2, 2) };
    for spec in [both, neither] {
        let error = Network::new(spec).unwrap_err().to_string();
        assert_eq!(error, "package: expected either [package] or [mesh]");
    }
    let mut other = NetworkSpec { package: None, mesh: Some(mesh()), ..spec(2, 2) };
    other.calibrated = vec!["package.l_ph".into()];
    assert!(Network::new(other).unwrap_err().to_string().contains("no element `package.l_ph`"));
}

#[test]
fn a_calibration_finds_the_elements_that_made_the_wake_ups() {
    // What the circuit itself says of a chip, written as Eq 2.1, is found again from values aside.
    let names = vec!["mesh.bump.l_ph".to_owned(), "mesh.die.r_mohm".to_owned()];
    let mut spec = meshed(2, 3, |_| {}).spec().clone();
    spec.calibrated = names;
    let fits = Study::new(&Network::new(spec.clone()).unwrap()).unwrap().fits().unwrap();
    let chips = [PrintedChip { grid: (2, 3), equation: fits.staged.equation }];
    let from = |l_ph: f64, r_mohm: f64| {
        let mut spec = spec.clone();
        let mesh = spec.mesh.as_mut().unwrap();
        (mesh.bump.l_ph, mesh.die.r_mohm) = (l_ph, r_mohm);
        calibrate(&Network::new(spec).unwrap(), &chips).unwrap()
    };
    let (near, far) = (from(60.0, 900.0), from(45.0, 1500.0));
    for (a, b) in near.fitted.iter().zip(&far.fitted) {
        assert_eq!(a.element, b.element);
        close(a.value, b.value, 0.02);
    }
    assert!(near.error_pct < 5.0 && (near.error_pct - far.error_pct).abs() < 0.01);
}
