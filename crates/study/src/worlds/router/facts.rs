//! Values of a router's description, and its parts in the three scenarios of Fig 4.2.

use halfwink_policy::scaling::ENTRIES;
use halfwink_techniques::Choice;

use super::RouterInfo;
use crate::table::{real, text, Table};

impl RouterInfo {
    /// Returns values by name.
    #[must_use]
    pub fn facts(&self) -> Table {
        let s = self.model.spec();
        let mut table = Table::new(&[text("fact"), real("value")]);
        let mut push = |fact: &str, value: f64| table.push(vec![fact.into(), value.into()]);
        push("cores.count", f64::from(s.cores.count));
        push("cores.p_states", f64::from(self.model.steps()));
        push("cores.slowest_ghz", self.model.ghz(0));
        push("cores.fastest_ghz", self.model.ghz(self.model.steps() - 1));
        push("sleep.c1_exit_us", s.sleep.c1_exit_us);
        push("sleep.c3_exit_us", s.sleep.c3_exit_us);
        push("sleep.c6_exit_us", s.sleep.c6_exit_us);
        push("nic.ports", f64::from(s.nic.ports));
        push("nic.port_gbps", s.nic.port_gbps);
        push("nic.entries", f64::from(s.nic.entries));
        push("nic.hash_bits", (ENTRIES as f64).log2());
        // An entry is the number of a queue: a byte.
        push("nic.table_bytes", ENTRIES as f64);
        let technique = Choice::parse("router", "power-save");
        let published = |name: &str| technique.as_ref().map_or(f64::NAN, |t| t.number(name));
        push("power_save.q_high", published("q_high"));
        push("power_save.q_low", published("q_low"));
        push("loop.batch", f64::from(s.poll.batch));
        push("evaluation.mean_load", s.evaluation.mean_load);
        push("evaluation.sample_ms", s.evaluation.sample_ms);
        push("evaluation.statistics_s", s.evaluation.statistics_s);
        push("burst.port_gbps", s.burst.port_gbps);
        push("power.package_w", s.power.package_w);
        push("power.board_w", s.power.board_w);
        push("printed.dimms", f64::from(s.printed.dimms));
        push("printed.dimm_gb", s.printed.dimm_gb);
        push("printed.fans", f64::from(s.printed.fans));
        push("printed.shunt_ohm", s.printed.shunt_ohm);
        push("printed.supply_w", s.printed.supply_w);
        push("printed.supply_efficiency_low", s.printed.supply_efficiency_low);
        push("printed.supply_efficiency_high", s.printed.supply_efficiency_high);
        for (name, app) in &s.apps {
            push(
                &format!("apps.{name}.full_mpps"),
                self.model.rate_mpps(app, self.model.fastest()),
            );
            push(&format!("apps.{name}.bytes"), f64::from(app.bytes));
        }
        let core_mpps = s.apps.get("ipv4").map_or(0.0, |app| {
            1.0 / self.model.service_us(
                app,
                halfwink_techniques::router::Point { cores: 1, ..self.model.fastest() },
            )
        });
        push("core_mpps", core_mpps);
        push("queueing_us", published("q_high") / core_mpps);
        table
    }

    /// Parts of the router, in watts: idle; polling without traffic; forwarding at 40 Gb/s.
    #[must_use]
    pub fn parts(&self) -> Table {
        let (model, s) = (&self.model, self.model.spec());
        let step = model.fastest().step;
        let cores = f64::from(s.cores.count);
        let p = &s.power;
        let mut table = Table::new(&[text("scenario"), text("part"), real("watts")]);
        for (scenario, core_w, activity) in [
            ("idle", 0.0, 0.0),
            ("polling", model.spin_w(step), 0.0),
            ("forwarding", model.busy_w(step), 1.0),
        ] {
            let all = cores * core_w;
            let packages = f64::from(s.cores.packages) * p.package_w + all;
            for (part, watts) in [
                ("total", model.total_w(all, activity)),
                ("packages", packages),
                ("package", packages / f64::from(s.cores.packages)),
                ("board", p.board_w),
                ("memory", p.memory_idle_w + activity * p.memory_w),
                ("nic", p.nic_idle_w + activity * p.nic_w),
                ("fans", p.fans_w + all * p.fans_per_core_w),
            ] {
                table.push(vec![scenario.into(), part.into(), watts.into()]);
            }
        }
        table
    }
}
