//! Energy and figures of merit of a run, as they were published and otherwise. The report prints
//! assumptions and results; these formulas are the ones that lead from the first to the second
//! (Mogul 2007, Sec 7.3 and Tables 5 to 7).

/// Measured times and energy of a run that an account needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metered {
    /// Elapsed time, in seconds.
    pub elapsed_s: f64,
    /// Idle time of the application core, in seconds, as the account takes it.
    pub idle_app_s: f64,
    /// The same of the OS core.
    pub idle_os_s: f64,
    /// Idle time of the OS core, in seconds, as the account takes it.
    pub wakes: f64,
}

/// Power, and what powering up costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watts {
    /// Application core, when on.
    pub app_w: f64,
    /// OS core, when on.
    pub os_w: f64,
    /// Time to leave the powered-down state at full power, in seconds.
    pub power_up_s: f64,
}

/// Rule by which the OS core is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OsCore {
    /// Charges the whole run, as published.
    AlwaysOn,
    /// While it is not idle.
    Gated,
}

impl OsCore {
    /// Returns the name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OsCore::AlwaysOn => "os-core-always-on",
            OsCore::Gated => "os-core-gated",
        }
    }
}

/// One core at full power for the whole run, in joules (E4.1, as published).
#[must_use]
pub fn single_always_on_j(watts: Watts, elapsed_s: f64) -> f64 {
    watts.app_w * elapsed_s
}

/// One core that powers down when idle, in joules: the rival that the report names and does not
/// count (Sec 3.4).
#[must_use]
pub fn single_gated_j(watts: Watts, run: Metered) -> f64 {
    watts.app_w * (run.elapsed_s - run.idle_app_s + watts.power_up_s * run.wakes)
}

/// Two cores of the application kind, each powered down when idle, in joules: run as with an OS
/// core that draws what the application core draws.
#[must_use]
pub fn dual_gated_j(watts: Watts, run: Metered) -> f64 {
    with_os_core_j(Watts { os_w: watts.app_w, ..watts }, run, OsCore::Gated)
}

/// Application core off when idle, OS core charged as `os` says, in joules (E4.2).
#[must_use]
pub fn with_os_core_j(watts: Watts, run: Metered, os: OsCore) -> f64 {
    let os_s = match os {
        OsCore::AlwaysOn => run.elapsed_s,
        OsCore::Gated => run.elapsed_s - run.idle_os_s,
    };
    let app_s = run.elapsed_s - run.idle_app_s + watts.power_up_s * run.wakes;
    watts.app_w * app_s + watts.os_w * os_s
}

/// The published figure of merit: rate per joule of the whole run (E4.3). Energy grows with time,
/// so on fixed work speed counts twice.
#[must_use]
pub fn merit(rate: f64, energy_j: f64) -> f64 {
    rate / energy_j
}

/// Work per joule, with the rate per `rate_unit_s` seconds.
#[must_use]
pub fn work_per_joule(rate: f64, rate_unit_s: f64, elapsed_s: f64, energy_j: f64) -> f64 {
    rate * elapsed_s / rate_unit_s / energy_j
}

/// Elapsed time of a single-core run whose merit and rate are printed, in seconds (E4.1 and E4.3
/// solved for the time).
#[must_use]
pub fn elapsed_of_single_s(rate: f64, printed_merit: f64, app_w: f64) -> f64 {
    rate / printed_merit / app_w
}

/// Elapsed time of a run with an OS core from one printed merit, in seconds (E4.2 without the term
/// of wake-ups, and E4.3, solved for the time).
#[must_use]
pub fn elapsed_of_os_core_s(rate: f64, merit: f64, idle_app_s: f64, app_w: f64, os_w: f64) -> f64 {
    (rate / merit + app_w * idle_app_s) / (app_w + os_w)
}

/// Estimates the elapsed time from several powers and energies (watts, joules), by least squares on
/// the energies.
#[must_use]
pub fn elapsed_by_least_squares_s(energies: &[(f64, f64)], idle_app_s: f64, app_w: f64) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for &(os_w, energy_j) in energies {
        let slope = app_w + os_w;
        above += slope * (energy_j + app_w * idle_app_s);
        below += slope * slope;
    }
    above / below
}

/// OS-core power at which the figure of merit is that of the single core, in watts (E4.10).
#[must_use]
pub fn break_even_merit_w(rate_ratio: f64, single_j: f64, app_w: f64, run: Metered) -> f64 {
    (rate_ratio * single_j - app_w * (run.elapsed_s - run.idle_app_s)) / run.elapsed_s
}

/// OS-core power at which the energy is that of the single core, in watts (E4.10).
#[must_use]
pub fn break_even_energy_w(single_j: f64, app_w: f64, run: Metered) -> f64 {
    break_even_merit_w(1.0, single_j, app_w, run)
}

/// Shortest call, in seconds on the application core, whose offload saves energy while nothing else
/// could run there (E4.11); infinite if the OS core, `slowdown` times slower, spends as much.
#[must_use]
pub fn break_even_call_s(watts: Watts, switch_s: f64, slowdown: f64) -> f64 {
    let gain_w = watts.app_w - slowdown * watts.os_w;
    if gain_w <= 0.0 {
        return f64::INFINITY;
    }
    (watts.app_w * (switch_s + watts.power_up_s) + watts.os_w * switch_s) / gain_w
}

/// Joules that the whole system gains, the rest of it drawing `rest_w` for as long as the run lasts
/// (E4.9); the OS core pays off if this is above zero.
#[must_use]
pub fn system_gain_j(cores_gain_j: f64, rest_w: f64, longer_s: f64) -> f64 {
    cores_gain_j - rest_w * longer_s
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Watts = Watts { app_w: 27.0, os_w: 1.0, power_up_s: 1000.0 / 3.0e9 };

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} beside {expected}");
    }

    /// Rows of Tables 5 and 6: rates, recorded idle time of the application core, merits of the
    /// single core and with an OS core of 1, 5, 10 W.
    const ROWS: [(f64, f64, f64, f64, [f64; 3]); 8] = [
        (2738.0, 3091.0, 5.93, 7.88, [18.44, 14.41, 11.32]),
        (7468.0, 7598.0, 3.53, 15.50, [19.14, 16.26, 13.68]),
        (1501.0, 1498.0, 15.45, 2.43, [6.68, 4.74, 3.48]),
        (5552.0, 5489.0, 14.04, 8.37, [17.39, 13.23, 10.19]),
        (941.5, 941.37, 37.34, 0.58, [1.40, 1.03, 0.78]),
        (941.38, 941.42, 40.20, 0.58, [1.58, 1.13, 0.83]),
        (11312.4, 11329.9, 37.95, 6.55, [14.76, 11.07, 8.43]),
        (4895.40, 4877.19, 37.49, 2.83, [6.25, 4.71, 3.60]),
    ];

    #[test]
    fn the_published_merits_follow_from_one_of_them() {
        for (_, rate, idle_app_s, _, merits) in ROWS {
            let elapsed_s = elapsed_of_os_core_s(rate, merits[0], idle_app_s, 27.0, 1.0);
            let run = Metered { elapsed_s, idle_app_s, idle_os_s: 0.0, wakes: 0.0 };
            for (os_w, printed) in [1.0, 5.0, 10.0].into_iter().zip(merits) {
                let energy_j = with_os_core_j(Watts { os_w, ..W }, run, OsCore::AlwaysOn);
                close(merit(rate, energy_j), printed, 0.0101);
            }
        }
    }

    #[test]
    fn the_compile_follows_too() {
        let (idle_app_s, printed) = (5.21, [8797.0, 10073.0, 11669.0]);
        let elapsed_s = (printed[0] + 27.0 * idle_app_s) / 28.0;
        let run = Metered { elapsed_s, idle_app_s, idle_os_s: 225.12, wakes: 0.0 };
        for (os_w, printed) in [1.0, 5.0, 10.0].into_iter().zip(printed) {
            close(with_os_core_j(Watts { os_w, ..W }, run, OsCore::AlwaysOn), printed, 2.0);
        }
        close(break_even_energy_w(8412.0, 27.0, run), -0.2, 0.05);
        // With the OS core charged for what it was not recorded idle: 8572, 8948, 9419 J.
        close(with_os_core_j(W, run, OsCore::Gated), 8572.0, 2.0);
        close(with_os_core_j(Watts { os_w: 10.0, ..W }, run, OsCore::Gated), 9419.0, 2.0);
    }

    #[test]
    fn least_squares_find_the_metered_time() {
        let energies = [(1.0, 3091.0 / 18.44), (5.0, 3091.0 / 14.41), (10.0, 3091.0 / 11.32)];
        close(elapsed_by_least_squares_s(&energies, 5.93, 27.0), 11.71, 0.005);
        close(elapsed_of_single_s(2738.0, 7.88, 27.0), 12.87, 0.005);
    }

    #[test]
    fn short_calls_do_not_pay() {
        // E4.11 with 2.05 us a switch, power-up 333 ns: microseconds on the application core.
        for (os_w, slowdown, us) in [
            (1.0, 1.0, 2.55),
            (1.0, 2.14, 2.67),
            (5.0, 1.3, 3.64),
            (5.0, 1.87, 4.23),
            (10.0, 1.0, 4.99),
            (10.0, 2.14, 15.2),
        ] {
            let found = break_even_call_s(Watts { os_w, ..W }, 2.05e-6, slowdown) * 1e6;
            close(found, us, 0.006 * us);
        }
        assert!(break_even_call_s(Watts { os_w: 27.0, ..W }, 2.05e-6, 1.0).is_infinite());
    }

    #[test]
    fn a_gated_single_core_is_below_one_that_is_always_on() {
        let run = Metered { elapsed_s: 60.0, idle_app_s: 40.0, idle_os_s: 43.0, wakes: 1e5 };
        assert!(single_gated_j(W, run) < single_always_on_j(W, 60.0));
        close(single_gated_j(W, run), 27.0 * (20.0 + 1e5 / 3e6), 1e-9);
        close(dual_gated_j(W, run), single_gated_j(W, run) + 27.0 * 17.0, 1e-9);
        close(work_per_joule(60.0, 60.0, 10.0, 5.0), 2.0, 1e-12);
        close(system_gain_j(100.0, 10.0, 2.0), 80.0, 1e-12);
    }
}
