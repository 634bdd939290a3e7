//! Fabrics of circuits by name, their closed forms as tables, and the world of their hosts.

mod job;
mod runs;
mod schedule;
mod transports;

pub use job::Fabric;
pub use schedule::{schedule, Scheduler};

use halfwink_engine::Input;
use halfwink_fabric::scale_out::Tree;
use halfwink_fabric::Fabric as Described;

use crate::error::StudyError;
use crate::library::Library;
use crate::table::{integer, real, text, Table};
use crate::world::Tables;

/// The folder of fabrics in the library.
const FOLDER: &str = "machines/fabric";
/// Longest frames of Strong 2013, in bytes (Sec 4.5.1).
const JUMBO_BYTES: f64 = 9000.0;
/// Utilisations of Fig 4.2, in tenths.
const TENTHS: std::ops::RangeInclusive<u32> = 0..=10;
/// Scale-out networks: levels and radices of Sec 4.2.1.
const LEVELS: std::ops::RangeInclusive<u32> = 2..=5;
const RADICES: [u64; 6] = [4, 16, 24, 48, 64, 96];

/// A fabric, read from the library.
#[derive(Clone, Debug)]
pub struct FabricInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The described fabric.
    pub fabric: Described,
    /// The description as it is used.
    text: String,
}

impl Library {
    /// Reads a fabric: `mordia`, or a file ending in `.toml`; then sets `values` (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn fabric(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<FabricInfo, StudyError> {
        let path = self.find_named(FOLDER, "fabric", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input: Input = self.described(&path, values, &[])?;
        let fabric = Described::new(input.parse()?)
            .map_err(|error| input.error_at_key(&error.element, &error.message))?;
        let text = input.text.clone();
        Ok(FabricInfo { name: name.to_owned(), fabric, text })
    }

    /// Names of the fabrics.
    #[must_use]
    pub fn fabrics(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

impl FabricInfo {
    /// Returns its description as it is used.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the results of closed forms for it (Strong 2013, Sec 4.2), as tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `facts` | a value of its switch |
    /// | `days` | a length of day, a number of circuits on a port: duty, bandwidth, round trip |
    /// | `savings` | a demand and a utilisation of servers: power for each with either core |
    /// | `trees` | levels and radix of a scale-out network: servers, switches |
    #[must_use]
    pub fn tables(&self) -> Tables {
        vec![
            ("facts", self.facts()),
            ("days", self.days()),
            ("savings", self.savings()),
            ("trees", trees()),
        ]
    }

    fn facts(&self) -> Table {
        let mut table = Table::new(&[text("fact"), real("value")]);
        let switch = &self.fabric.spec().switch;
        let mut facts = vec![
            ("ports", f64::from(switch.ports)),
            ("usable_ports", f64::from(switch.usable_ports)),
            ("reconfiguration_us", switch.reconfiguration_us),
            ("shortest_day_us", switch.shortest_day_us),
            ("jumbo_frame_us", switch.wire_us(JUMBO_BYTES)),
        ];
        if let Some(centre) = &self.fabric.spec().data_centre {
            facts.push(("servers", centre.servers() as f64));
            facts.push(("circuit_port_w", centre.circuit_port_w));
        }
        for (fact, value) in facts {
            table.push(vec![fact.into(), value.into()]);
        }
        table
    }

    fn days(&self) -> Table {
        let mut table = Table::new(&[
            real("day_us"),
            real("sharers"),
            real("duty_pct"),
            real("bandwidth_gbps"),
            real("round_trip_us"),
        ]);
        let spec = self.fabric.spec();
        let switch = &spec.switch;
        let sharers = match &spec.sharers[..] {
            [] => &[switch.circuits_per_port][..],
            some => some,
        };
        for &day in &spec.days_us {
            for &sharers in sharers {
                table.push(vec![
                    day.into(),
                    sharers.into(),
                    (100.0 * switch.duty(day)).into(),
                    switch.bandwidth_gbps(day).into(),
                    // Messages of no length: what turns alone cost (Fig 4.3).
                    switch.round_trip_us(day, 0.0, sharers).into(),
                ]);
            }
        }
        table
    }

    fn savings(&self) -> Table {
        let mut table = Table::new(&[
            real("demand_gbps"),
            real("utilisation_pct"),
            real("packets_w"),
            real("circuits_w"),
            real("saved_pct"),
            real("port_ratio"),
        ]);
        let Some(centre) = &self.fabric.spec().data_centre else { return table };
        let mut ports: Vec<_> = centre.packet_ports.values().collect();
        ports.sort_by(|a, b| a.gbps.total_cmp(&b.gbps));
        for port in ports {
            for tenth in TENTHS {
                let power = centre.power(*port, f64::from(tenth) / 10.0);
                table.push(vec![
                    port.gbps.into(),
                    (10.0 * f64::from(tenth)).into(),
                    power.packets_w.into(),
                    power.circuits_w.into(),
                    power.saved_pct().into(),
                    (port.w / centre.circuit_port_w).into(),
                ]);
            }
        }
        table
    }
}

fn trees() -> Table {
    let mut table = Table::new(&[
        integer("levels"),
        integer("radix"),
        integer("servers"),
        integer("switches"),
        integer("top_switches"),
    ]);
    for levels in LEVELS {
        for radix in RADICES {
            let tree = Tree { levels, radix };
            table.push(vec![
                u64::from(levels).into(),
                radix.into(),
                tree.servers().into(),
                tree.switches().into(),
                tree.top_switches().into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::shipped::library;

    #[test]
    fn every_fabric_fills_its_tables() {
        let library = library();
        let all = ["hybrid-648", "mordia", "opera-648", "optical-core", "training-64"];
        assert_eq!(library.fabrics(), all);
        for name in library.fabrics() {
            for (table, content) in library.fabric(&name, &[]).unwrap().tables() {
                let expected = table != "savings" || name == "optical-core";
                assert_ne!(content.is_empty(), expected, "{name}: {table}");
            }
        }
    }

    #[test]
    fn impossible_values_are_named_with_their_line() {
        let set = [("switch.usable_ports".to_owned(), "25".to_owned())];
        let error = library().fabric("mordia", &set).unwrap_err().to_string();
        assert!(error.ends_with(":8: switch.usable_ports: 25 of 24 ports"), "{error}");
    }

    fn job(technique: &str, options: &[(&str, &str)]) -> crate::Job {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let [world, workload, machine, technique] =
            ["fabric", "all-to-all", "mordia", technique].map(str::to_owned);
        let options = options.iter().map(own).collect();
        crate::Job { world, workload, machine, technique, set: vec![], options }
    }

    #[test]
    fn days_that_the_switch_cannot_keep_are_refused() {
        let prepare = |technique| job(technique, &[]).prepare(&library());
        for technique in ["round-robin:day_us=60", "most-needed:day_us=1"] {
            let error = prepare(technique).map(|_| ()).unwrap_err().to_string();
            assert!(error.ends_with("mordia has days of 61 us or more"), "{error}");
        }
        assert!(prepare("round-robin:day_us=61").is_ok() && prepare("packet-switch").is_ok());
    }

    #[test]
    fn latency_exists_for_tcp_only() {
        let control = crate::Control::default();
        for (transport, waits) in [("udp", false), ("tcp", true)] {
            let asked = job("round-robin", &[("transport", transport), ("duration_ms", "30")]);
            let tables = asked.prepare(&library()).unwrap().run(&control).unwrap();
            let run = &tables.iter().find(|(name, _)| *name == "run").unwrap().1;
            for name in ["latency_mean_us", "latency_p99_us", "resent_pct"] {
                let column = run.columns.iter().find(|column| column.name == name).unwrap();
                let is_there = !matches!(column.values[0], crate::table::Value::Missing(_));
                assert_eq!(is_there, waits, "{transport}: {name}");
            }
        }
    }
}

#[cfg(test)]
mod fault_tests;
