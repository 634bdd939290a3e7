//! Values of a hybrid server's description, and what follows from them by arithmetic.

use halfwink_engine::Law;
use halfwink_policy::steering::Side;
use halfwink_techniques::server::Fact;
use halfwink_techniques::Choice;

use super::ServerInfo;
use crate::error::StudyError;
use crate::table::{real, text, Kind, Table, Value};

impl ServerInfo {
    /// Values by name: numbers in `value`, words in `text`.
    ///
    /// # Errors
    /// The description is of no pair.
    pub fn facts(&self) -> Result<Table, StudyError> {
        let (s, study) = (self.model.spec(), self.study()?);
        let mut table = Table::new(&[text("fact"), real("value"), text("text")]);
        let mut push = |fact: &str, value: f64| table.push(number(fact, value));
        for (name, machine) in [("small", &s.small), ("big", &s.big)] {
            push(&format!("{name}.workers"), f64::from(machine.workers));
            push(&format!("{name}.idle_w"), machine.idle_w);
            push(&format!("{name}.max_w"), machine.max_w);
            push(&format!("{name}.sleep_share"), machine.sleep_share);
            push(&format!("{name}.wake_ms"), machine.wake_ms);
        }
        // Where the thesis puts the threshold is the default of its technique.
        let threshold =
            Choice::parse("server", "hybrid").map_or(f64::NAN, |c| c.number("threshold"));
        push("policy.threshold", threshold);
        for (n, ms) in study.transitions_ms.iter().enumerate() {
            push(&format!("study.transition_{n}_ms"), *ms);
        }
        for (n, share) in study.sleep_shares.iter().enumerate() {
            push(&format!("study.sleep_share_{n}"), *share);
        }
        push("worst_full_w", self.model.worst_w(1.0));
        push("worst_empty_w", self.model.worst_w(0.0));
        for (name, workload) in &s.workloads {
            if let Some(service) = self.model.service(name) {
                let [small, big] = Side::BOTH.map(|side| service.capacity(side));
                push(&format!("{name}.small_per_s"), small);
                push(&format!("{name}.big_per_s"), big);
                push(&format!("{name}.both_per_s"), service.whole_capacity());
                push(&format!("{name}.big_over_small"), big / small);
                push(&format!("{name}.mean_size"), service.mean_size());
            }
            if let Law::BoundedPareto { min, max, shape } = workload.size {
                push(&format!("{name}.smallest"), min);
                push(&format!("{name}.largest"), max);
                push(&format!("{name}.shape"), shape);
            }
        }
        let mut names: Vec<&str> = study.workloads.iter().map(String::as_str).collect();
        names.sort_unstable();
        table.push(words("workloads", names.join(", ")));
        let ratios: Vec<String> = study.speed_ratios.iter().map(u32::to_string).collect();
        table.push(words("study.speed_ratios", ratios.join(", ")));
        for (fact, value) in &s.facts {
            table.push(match value {
                Fact::Claim(claim) => number(fact, f64::from(u8::from(*claim))),
                Fact::Number(value) => number(fact, *value),
                Fact::Text(text) => words(fact, text.clone()),
            });
        }
        Ok(table)
    }
}

fn number(fact: &str, value: f64) -> Vec<Value> {
    vec![fact.into(), value.into(), Value::Missing(Kind::Text)]
}

fn words(fact: &str, text: String) -> Vec<Value> {
    vec![fact.into(), Value::Missing(Kind::Real), text.into()]
}
