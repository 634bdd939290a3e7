//! Rows of the ledger of a live router.

use halfwink_engine::{Cause, Mode, Row, State};
use halfwink_units::{Energy, Power, Time};

use super::{CoreTimes, Model};

/// The measured times of a live router.
#[derive(Clone, Debug)]
pub struct Times {
    /// Times of each core.
    pub cores: Vec<CoreTimes>,
    /// The length of the measurement, by another clock than the cores'.
    pub wall: Time,
    /// Number of packets received.
    pub packets: u64,
    /// Mean length of a packet, in bytes.
    pub bytes: f64,
}

/// State, cause, time and energy.
pub type Posting = (State, Cause, Row);

/// Components with their rows, and energy by the model's own formula, in joules.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// `core0` on, `package0` on, `board`, `memory`, `nic`, `fans`.
    pub components: Vec<(String, Vec<Posting>)>,
    /// See [`Model::virtual_meter`].
    pub modelled_j: f64,
}

const ON: State = State("on");
const ALWAYS: Cause = Cause { mode: Mode::Idle, reason: "always" };
const PACKETS: Cause = Cause { mode: Mode::Kernel, reason: "packets" };
const HEAT: Cause = Cause { mode: Mode::Kernel, reason: "core-heat" };
const SPIN: Cause = Cause { mode: Mode::Idle, reason: "empty-loop" };
const EMPTY: Cause = Cause { mode: Mode::Idle, reason: "empty-queue" };

impl Model {
    /// What cores, packages, board, memory, ports and fans of this router would have drawn.
    #[must_use]
    pub fn accounts(&self, times: &Times) -> Accounts {
        let p = &self.spec().power;
        let mut components: Vec<_> =
            times.cores.iter().map(|core| self.core_rows(core)).enumerate().map(named).collect();
        let of_cores: Energy =
            components.iter().flat_map(|(_, rows)| rows).map(|(_, _, row)| row.energy).sum();
        let idle = |watts: f64| {
            let energy = Power::from_w(watts) * times.wall;
            (ON, ALWAYS, Row { time: times.wall, energy })
        };
        // What costs energy and no time of its own: its component is on all the time anyhow.
        let more = |cause, energy| (ON, cause, Row { time: Time::ZERO, energy });
        for n in 0..self.spec().cores.packages {
            components.push((format!("package{n}"), vec![idle(p.package_w)]));
        }
        components.push(("board".to_owned(), vec![idle(p.board_w)]));
        let ns = p.activity_packet_ns + p.activity_byte_ns * times.bytes;
        let active = Time::from_ns(times.packets as f64 * ns).min(times.wall);
        for (name, rest_w, peak_w) in
            [("memory", p.memory_idle_w, p.memory_w), ("nic", p.nic_idle_w, p.nic_w)]
        {
            let rows = vec![idle(rest_w), more(PACKETS, Power::from_w(peak_w) * active)];
            components.push((name.to_owned(), rows));
        }
        let fans_ppm = (p.fans_per_core_w * 1e6).round() as u128;
        let heat = Energy(of_cores.0 * fans_ppm / 1_000_000);
        components.push(("fans".to_owned(), vec![idle(p.fans_w), more(HEAT, heat)]));
        let meter = self.virtual_meter(&times.cores, times.wall.as_s(), times.packets, times.bytes);
        Accounts { components, modelled_j: meter.energy_j }
    }

    /// The highest P-state: nothing here sets the clock of a real core.
    fn core_rows(&self, core: &CoreTimes) -> Vec<Posting> {
        let p = &self.spec().power;
        let step = self.steps() - 1;
        [
            ("c0", PACKETS, core.busy_s, self.busy_w(step)),
            ("c0", SPIN, core.spin_s, self.spin_w(step)),
            ("c1", EMPTY, core.c1_s, p.c1_w),
            ("c3", EMPTY, core.c3_s, p.c3_w),
            ("c6", EMPTY, core.c6_s, 0.0),
        ]
        .into_iter()
        .map(|(state, cause, s, watts)| {
            let time = Time::from_ns(s * 1e9);
            (State(state), cause, Row { time, energy: Power::from_w(watts) * time })
        })
        .collect()
    }
}

fn named<T>((n, rows): (usize, T)) -> (String, T) {
    (format!("core{n}"), rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{live_values, read};
    use crate::Descriptions;

    #[test]
    fn rows_hold_what_the_model_says() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let library = Descriptions::new(root);
        let values = live_values(&read(&library, "westmere", &[]).unwrap().model, 3, &[]);
        let live = read(&library, "westmere", &values).unwrap().model;
        let cores = vec![
            CoreTimes { busy_s: 0.5, spin_s: 1.5, ..CoreTimes::default() },
            CoreTimes { busy_s: 0.25, c1_s: 1.0, c3_s: 0.75, ..CoreTimes::default() },
            CoreTimes { c6_s: 2.0, ..CoreTimes::default() },
        ];
        for packets in [0, 1_000_000, u64::MAX / 2] {
            let times =
                Times { cores: cores.clone(), wall: Time::from_ns(2e9), packets, bytes: 400.0 };
            let accounts = live.accounts(&times);
            let rows_j: f64 = accounts
                .components
                .iter()
                .flat_map(|(_, rows)| rows)
                .map(|(_, _, row)| row.energy.as_j())
                .sum();
            let differ = (rows_j - accounts.modelled_j).abs();
            assert!(differ < 1e-6 * rows_j, "{rows_j} of {}", accounts.modelled_j);
            for (component, rows) in &accounts.components {
                let time: f64 = rows.iter().map(|(_, _, row)| row.time.as_s()).sum();
                assert!((time - 2.0).abs() < 1e-9, "{component}: {time}");
            }
        }
    }
}
