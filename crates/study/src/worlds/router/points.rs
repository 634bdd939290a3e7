//! Operating points in closed form: rates, power, packets per joule, the ladder (Niccolini 2012,
//! Sec 4.3, 4.4).

use halfwink_policy::scaling::Rung;
use halfwink_techniques::router::{App, Point};

use super::RouterInfo;
use crate::table::{integer, real, text, Table};

/// Rates of the ladder are this far apart, in million packets per second.
const FINE_MPPS: f64 = 0.05;

impl RouterInfo {
    /// IPv4 routing of 64-byte packets: what Sec 4.3 measures.
    pub(super) fn small(&self) -> App {
        let spec = self.model.spec();
        let app = spec.apps.get("ipv4").or_else(|| spec.apps.values().next());
        App { bytes: 64, ..app.expect("a description has an application").clone() }
    }

    fn all_points(&self) -> impl Iterator<Item = Point> + '_ {
        (1..=self.model.spec().cores.count)
            .flat_map(|cores| (0..self.model.steps()).map(move |step| Point { cores, step }))
    }

    /// Cores x P-state x application at the highest rate that they sustain: no core rests.
    /// Applications with 64-byte packets, whatever their mean.
    #[must_use]
    pub fn points(&self) -> Table {
        let mut table = Table::new(&[
            text("app"),
            integer("cores"),
            integer("step"),
            real("ghz"),
            real("mpps"),
            real("power_w"),
            real("kpackets_per_j"),
        ]);
        for (name, app) in &self.model.spec().apps {
            let small = App { bytes: 64, ..app.clone() };
            for point in self.all_points() {
                let mpps = self.model.rate_mpps(&small, point);
                let cores_w = f64::from(point.cores) * self.model.busy_w(point.step);
                let power_w = self.model.total_w(cores_w, self.model.activity(mpps, 64));
                table.push(vec![
                    name.as_str().into(),
                    u64::from(point.cores).into(),
                    u64::from(point.step).into(),
                    self.model.ghz(point.step).into(),
                    mpps.into(),
                    power_w.into(),
                    (1e3 * mpps / power_w).into(),
                ]);
            }
        }
        table
    }

    /// Cores x P-state at rates below their highest: idle cores nap in C1. The rates are whole
    /// millions and the highest ones of each number of cores at the slowest P-state.
    #[must_use]
    pub fn partial(&self) -> Table {
        let small = self.small();
        let mut table = Table::new(&[
            integer("cores"),
            integer("step"),
            real("ghz"),
            real("mpps"),
            real("power_w"),
        ]);
        let peak = self.model.rate_mpps(&small, self.model.fastest());
        let whole = (1..=peak as u64).map(|n| n as f64);
        let slow = (1..=self.model.spec().cores.count)
            .map(|cores| self.model.rate_mpps(&small, Point { cores, step: 0 }));
        for mpps in whole.chain(slow).collect::<Vec<_>>() {
            for point in self.all_points() {
                if self.model.rate_mpps(&small, point) >= mpps {
                    table.push(vec![
                        u64::from(point.cores).into(),
                        u64::from(point.step).into(),
                        self.model.ghz(point.step).into(),
                        mpps.into(),
                        self.model.napping_w(&small, point, mpps).into(),
                    ]);
                }
            }
        }
        table
    }

    /// Rates: the operating point that draws least, and the first rung that carries them.
    #[must_use]
    pub fn ladder(&self) -> Table {
        let small = self.small();
        let (count, steps) = (self.model.spec().cores.count, self.model.steps());
        let rungs: Vec<Point> = (0..)
            .map_while(|n| Rung::nth(n, count, steps))
            .map(|rung| Point { cores: rung.cores, step: rung.step })
            .collect();
        let mut table = Table::new(&[
            real("mpps"),
            integer("best_cores"),
            real("best_ghz"),
            real("best_w"),
            integer("rung_cores"),
            real("rung_ghz"),
            real("rung_w"),
            real("gap_w"),
        ]);
        let peak = self.model.rate_mpps(&small, self.model.fastest());
        let rates = (1..).map(|n| f64::from(n) * FINE_MPPS).take_while(|&r| r <= peak);
        for mpps in rates {
            let carries = |point: &&Point| self.model.rate_mpps(&small, **point) >= mpps;
            let rung = rungs.iter().find(carries);
            let (Some((best, best_w)), Some(&rung)) = (self.model.optimum(&small, mpps), rung)
            else {
                break;
            };
            let rung_w = self.model.napping_w(&small, rung, mpps);
            table.push(vec![
                mpps.into(),
                u64::from(best.cores).into(),
                self.model.ghz(best.step).into(),
                best_w.into(),
                u64::from(rung.cores).into(),
                self.model.ghz(rung.step).into(),
                rung_w.into(),
                (rung_w - best_w).into(),
            ]);
        }
        table
    }
}
