//! A fabric's hosts by length of day and tokens: the experiments of Strong 2013, Sec 4.4 and 4.5.

use halfwink_engine::RunControl;
use halfwink_fabric::world::{play, Run, Setting};
use halfwink_fabric::{CircuitSwitch, Hosts};
use halfwink_policy::circuits::Turns;
use halfwink_units::Time;

use super::job::{cells_of, failed, scheme, OWN, SEED};
use super::FabricInfo;
use crate::error::StudyError;
use crate::table::{integer, real, text, Table, Value};
use crate::world::Tables;

/// Tokens of Fig 4.14.
const TOKENS: [&str; 3] = ["naive", "aging", "pacing"];
/// How long each is played. The work sent 506 GB, 50 s or so.
const DURATION_MS: f64 = 2_000.0;
/// By how long hosts stop early, in microseconds (PT-4.18).
const MARGINS_US: [f64; 9] = [20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0];
/// Night and day for which the work measured when sync frames come (Fig 4.19): 106 us together.
const JITTER_US: [f64; 2] = [6.0, 100.0];

impl FabricInfo {
    /// Plays all-to-all datagrams in turns, a row for each length of day in microseconds and each
    /// kind of tokens.
    ///
    /// # Errors
    /// If there are no hosts or no such tokens, or a day is shorter than the switch allows.
    pub fn runs(
        &self,
        days_us: &[f64],
        tokens: &[&str],
        duration_ms: f64,
        seed: u64,
    ) -> Result<Table, StudyError> {
        let heads = [&[text("tokens"), real("day_us")], &OWN[1..]].concat();
        let mut table = Table::new(&heads);
        let (switch, hosts) = (&self.fabric.spec().switch, self.hosts()?);
        if !(duration_ms.is_finite() && duration_ms > 0.0) {
            let message = format!("duration of {duration_ms} ms: expected more than 0");
            return Err(StudyError::Usage(message));
        }
        for name in tokens {
            for &day_us in days_us {
                let run = self.turns(switch, hosts, name, day_us, duration_ms, seed)?;
                let names: [Value; 2] = [(*name).into(), day_us.into()];
                table.push([names.to_vec(), cells_of(&run, hosts)].concat());
            }
        }
        Ok(table)
    }

    /// What the work measured of its hosts: tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `runs` | tokens and a length of day |
    /// | `margins` | a margin: mean loss over days, with pacing |
    /// | `sync` | a class of gaps between sync frames |
    ///
    /// # Errors
    /// If the fabric has no hosts.
    pub fn experiments(&self) -> Result<Tables, StudyError> {
        let runs = self.runs(&self.fabric.spec().days_us, &TOKENS, DURATION_MS, SEED)?;
        Ok(vec![("runs", runs), ("margins", self.margins()?), ("sync", self.sync()?)])
    }

    fn margins(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[real("margin_us"), real("loss_pct")]);
        let mut hosts = self.hosts()?.clone();
        let spec = self.fabric.spec();
        for margin_us in MARGINS_US {
            hosts.margin_us = margin_us;
            let mut sum = 0.0;
            for &day_us in &spec.days_us {
                let ms = DURATION_MS / 4.0;
                let run = self.turns(&spec.switch, &hosts, "pacing", day_us, ms, SEED)?;
                sum += 100.0 * run.counts.lost as f64 / run.counts.sent as f64;
            }
            table.push(vec![margin_us.into(), (sum / spec.days_us.len() as f64).into()]);
        }
        Ok(table)
    }

    fn sync(&self) -> Result<Table, StudyError> {
        let mut switch = self.fabric.spec().switch.clone();
        let [night_us, day_us] = JITTER_US;
        switch.reconfiguration_us = night_us;
        let run = self.turns(&switch, self.hosts()?, "pacing", day_us, DURATION_MS, SEED)?;
        let mut table = Table::new(&[text("gap"), integer("frames"), real("share_pct")]);
        let gaps = run.gaps;
        for (gap, frames) in [
            ("on-time", gaps.on_time),
            ("zero", gaps.zero),
            ("long", gaps.long),
            ("other", gaps.other),
        ] {
            let share = 100.0 * frames as f64 / gaps.total() as f64;
            table.push(vec![gap.into(), frames.into(), share.into()]);
        }
        Ok(table)
    }

    fn turns(
        &self,
        switch: &CircuitSwitch,
        hosts: &Hosts,
        tokens: &str,
        day_us: f64,
        duration_ms: f64,
        seed: u64,
    ) -> Result<Run, StudyError> {
        if !(day_us.is_finite() && day_us > 0.0 && day_us >= switch.shortest_day_us) {
            let least = switch.shortest_day_us;
            let message =
                format!("day of {day_us} us: {} has days of {least} us or more", self.name);
            return Err(StudyError::Usage(message));
        }
        let day = Time::from_ns(1e3 * day_us);
        let duration = Time::from_ns(1e6 * duration_ms);
        let setting = Setting { switch, hosts, scheme: scheme(tokens)?, duration, day, seed };
        let policy = Box::new(Turns::round_robin(hosts.count, day));
        play(&setting, policy, &RunControl::new()).map_err(failed)
    }
}
