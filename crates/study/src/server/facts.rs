//! Values of a hybrid server's description, and what follows from them by arithmetic.

use halfwink_policy::steering::Side;
use halfwink_server::{Fact, Law};

use super::{capacity, ServerInfo};
use crate::table::{Table, Value};

impl ServerInfo {
    /// Values by name: numbers in `value`, words in `text`.
    #[must_use]
    pub fn facts(&self) -> Table {
        let s = self.model.spec();
        let mut table = Table::new(&["fact", "value", "text"]);
        let mut push = |fact: &str, value: f64| {
            table.push(vec![fact.into(), value.into(), Value::Missing]);
        };
        for (name, machine) in [("small", &s.small), ("big", &s.big)] {
            push(&format!("{name}.workers"), f64::from(machine.workers));
            push(&format!("{name}.idle_w"), machine.idle_w);
            push(&format!("{name}.max_w"), machine.max_w);
            push(&format!("{name}.sleep_share"), machine.sleep_share);
            push(&format!("{name}.wake_ms"), machine.wake_ms);
        }
        push("policy.threshold", f64::from(s.policy.threshold));
        for (n, ms) in s.study.transitions_ms.iter().enumerate() {
            push(&format!("study.transition_{n}_ms"), *ms);
        }
        for (n, share) in s.study.sleep_shares.iter().enumerate() {
            push(&format!("study.sleep_share_{n}"), *share);
        }
        push("worst_full_w", self.model.worst_w(1.0));
        push("worst_empty_w", self.model.worst_w(0.0));
        for (name, workload) in &s.workloads {
            if let Some(service) = self.model.service(name) {
                let [small, big] = Side::BOTH.map(|side| service.capacity(side));
                push(&format!("{name}.small_per_s"), small);
                push(&format!("{name}.big_per_s"), big);
                push(&format!("{name}.both_per_s"), capacity(&service));
                push(&format!("{name}.big_over_small"), big / small);
                push(&format!("{name}.mean_size"), service.mean_size());
            }
            if let Law::BoundedPareto { min, max, shape } = workload.size {
                push(&format!("{name}.smallest"), min);
                push(&format!("{name}.largest"), max);
                push(&format!("{name}.shape"), shape);
            }
        }
        let names: Vec<&str> = s.workloads.keys().map(String::as_str).collect();
        let text = |table: &mut Table, fact: &str, text: String| {
            table.push(vec![fact.into(), Value::Missing, text.into()]);
        };
        text(&mut table, "workloads", names.join(", "));
        let ratios: Vec<String> = s.study.speed_ratios.iter().map(u32::to_string).collect();
        text(&mut table, "study.speed_ratios", ratios.join(", "));
        for (fact, value) in &s.facts {
            match value {
                Fact::Claim(claim) => {
                    table.push(vec![fact.as_str().into(), u64::from(*claim).into(), Value::Missing])
                }
                Fact::Number(number) => {
                    table.push(vec![fact.as_str().into(), (*number).into(), Value::Missing]);
                }
                Fact::Text(words) => text(&mut table, fact, words.clone()),
            }
        }
        table
    }
}
