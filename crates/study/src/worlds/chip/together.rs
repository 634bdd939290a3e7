//! Jobs that share one run of the chip: those that differ in techniques which keep its pace.

use halfwink_chip::{run_together, CodeCache, Follower, Machine, Options};
use halfwink_engine::RunControl;
use halfwink_policy::gating::GatingPolicy;
use halfwink_techniques::{Delays, Plan};

use super::{ChipJob, Memory};
use crate::error::StudyError;
use crate::world::Tables;

impl ChipJob {
    /// Returns a text for what decides when something happens, if its technique may have that in
    /// common with others. Those that delay cores after halts share a run of their own, if there
    /// are halts.
    pub(super) fn shared_pace(&self) -> Option<String> {
        let takes_turns = self.workload.cores() > self.machine.machine.cores;
        let joint = &self.joint;
        let moves = joint.offload().is_some() || joint.segregation().is_some();
        if joint.plan().1 != Plan::Once || moves || takes_turns || self.memory != Memory::Apart {
            return None;
        }
        let delays = joint.delays();
        if delays == Delays::Anywhere || self.workload.halts() && delays == Delays::AfterSomeHalts {
            return None;
        }
        // Who gates in a halt loses caches there, and goes on with others than the rest.
        let loses = !self.machine.machine.gating.loses.is_empty();
        if loses && self.workload.halts() && delays != Delays::Never {
            return None;
        }
        // What goes wrong with one technique does not with another.
        if self.machine.machine.faults.any() {
            return None;
        }
        // Without halts both kinds keep one pace, so that they may share a run.
        let is_late = self.workload.halts() && delays == Delays::AfterHalts;
        let machine = self.alone();
        // A central controller lets cores wait for each other: then a wake-up of one technique
        // delays another core.
        if machine.central_wake_up(self.workload.cores()).is_some() {
            return None;
        }
        Some(format!("{}\n{}\n{is_late}", self.workload.identity(), machine.pace()))
    }

    /// Returns the machine as its technique has it, without the unused cores for the kernel.
    fn alone(&self) -> Machine {
        let mut machine = self.joint.adapted(self.machine.machine.clone());
        machine.faults.seed = self.seed;
        machine.without_os_cores()
    }

    fn policy(&self, machine: &Machine, core: usize) -> GatingPolicy {
        self.joint.policy(machine, core)
    }

    /// Plays it together with others of its pace.
    pub(super) fn play_together(
        &self,
        others: &[&ChipJob],
        control: &RunControl,
    ) -> Result<(Tables, Vec<Option<Tables>>), StudyError> {
        let machine = self.alone();
        let policy = |core: usize| self.policy(&machine, core);
        let options = Options {
            retention: self.joint.retention(),
            timeline: self.timeline(),
            ..Options::new(&policy)
        };
        let machines: Vec<Machine> = others.iter().map(|other| other.alone()).collect();
        let policies: Vec<_> = others
            .iter()
            .zip(&machines)
            .map(|(other, machine)| move |core: usize| other.policy(machine, core))
            .collect();
        let follower = |n: usize| Follower {
            machine: &machines[n],
            policy: &policies[n],
            retention: others[n].joint.retention(),
        };
        let followers: Vec<Follower<'_>> = (0..others.len()).map(follower).collect();
        let tasks = self.workload.tasks(self.instructions)?;
        let mut codes = CodeCache::new();
        let (result, followed) =
            run_together(&machine, tasks, &options, &followers, &mut codes, control)?;
        let tables = |n: usize, result| others[n].tables(&machines[n], 1.0, result);
        let followed = followed.iter().enumerate();
        let followed = followed.map(|(n, result)| result.as_ref().map(|r| tables(n, r)));
        Ok((self.tables(&machine, 1.0, &result), followed.collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job::Job;
    use crate::prepared::{run_together, PreparedJob};
    use crate::shipped::library;
    use crate::world::Control;
    use crate::worlds::chip::adapt::Joint;
    use halfwink_techniques::{techniques, Choice, Gating, Make};

    fn job(workload: &str, machine: &str, technique: &str) -> PreparedJob {
        let options = [("instructions", "30000"), ("timeline_ns", "0..20000")];
        let job = Job {
            world: "chip".into(),
            workload: workload.into(),
            machine: machine.into(),
            technique: technique.into(),
            set: Vec::new(),
            options: options.map(|(name, value)| (name.into(), value.into())).to_vec(),
        };
        job.prepare(&library()).unwrap()
    }

    /// All techniques of a chip that stand alone, by pace.
    fn by_pace(workload: &str, machine: &str) -> BTreeMap<String, Vec<PreparedJob>> {
        let mut paces: BTreeMap<String, Vec<PreparedJob>> = BTreeMap::new();
        for technique in techniques().filter(|t| t.worlds.contains(&"chip")) {
            let Make::Gating(Gating { needs_os_cores: false, .. }) = technique.make else {
                continue;
            };
            let found = library().machine(machine, &[]).unwrap();
            let choice = Choice::parse("chip", technique.name).unwrap();
            if Joint::of(&choice).unwrap().lacking(&found.machine).is_some() {
                continue;
            }
            let prepared = job(workload, machine, technique.name);
            if let Some(pace) = prepared.pace() {
                paces.entry(pace).or_default().push(prepared);
            }
        }
        paces
    }

    /// Tables as text: real numbers to their last bit, and nothing of the host.
    fn text(tables: &Tables) -> String {
        let of = |(name, table): &(&str, crate::table::Table)| format!("{name} {table:?}\n");
        tables.iter().filter(|(name, _)| *name != "host").map(of).collect()
    }

    /// Every technique that is said to keep a pace does, on whatever was recorded; and what it has
    /// from a run of others is what it has from a run of its own.
    fn shares_give_what_runs_of_their_own_give(machine: &str, copies: usize) {
        let mut shared = 0;
        for workload in library().workloads().unwrap() {
            let name = format!("{}*{copies}", workload.name);
            for jobs in by_pace(&name, machine).into_values() {
                let all: Vec<&PreparedJob> = jobs.iter().collect();
                let others: Vec<_> = all[1..].iter().map(|job| &*job.prepared).collect();
                let (_, followed) =
                    all[0].prepared.run_together(&others, &RunControl::new()).unwrap();
                for (job, followed) in all[1..].iter().zip(&followed) {
                    let technique = job.technique();
                    assert!(followed.is_some(), "{name}: {technique} parted on {machine}");
                }
                for (job, together) in all.iter().zip(run_together(&all, &RunControl::new())) {
                    let alone = job.run(&Control::default()).unwrap();
                    let (alone, together) = (text(&alone), text(&together.unwrap()));
                    assert!(alone == together, "{name}, {machine}: {}", job.technique());
                }
                shared += others.len();
            }
        }
        assert!(shared > 60, "{shared}");
    }

    #[test]
    fn in_order_cores_that_share_a_run_lose_nothing() {
        shares_give_what_runs_of_their_own_give("in-order-2", 2);
    }

    #[test]
    fn out_of_order_cores_that_share_a_run_lose_nothing() {
        shares_give_what_runs_of_their_own_give("ev6-1", 1);
    }
}
