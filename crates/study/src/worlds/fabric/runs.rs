//! A fabric's hosts by length of day and tokens: the experiments of Strong 2013, Sec 4.4 and 4.5.

use halfwink_engine::RunControl;
use halfwink_fabric::world::{play, Run, Setting, Transport};
use halfwink_fabric::{CircuitSwitch, Hosts};
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::Turns;
use halfwink_units::Time;

use super::job::{cells_of, failed, DAY_US, OWN, SEED};
use super::FabricInfo;
use crate::error::StudyError;
use crate::table::{integer, real, text, Table, Value};
use crate::world::Tables;

/// Length of each run. The work sent 506 GB, 50 s or so.
pub(super) const DURATION_MS: f64 = 2_000.0;
/// The times by which hosts stop early, in microseconds (PT-4.18).
const MARGINS_US: [f64; 9] = [20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0];
/// Night and day for which the work measured when sync frames come (Fig 4.19): 106 us together.
const JITTER_US: [f64; 2] = [6.0, 100.0];

/// A single run.
#[derive(Clone, Copy)]
pub(super) struct Played<'a> {
    pub(super) switch: &'a CircuitSwitch,
    pub(super) hosts: &'a Hosts,
    pub(super) tokens: Scheme,
    pub(super) transport: Transport,
    pub(super) day_us: f64,
    pub(super) duration_ms: f64,
}

impl Played<'_> {
    fn setting(&self) -> Setting<'_> {
        Setting {
            switch: self.switch,
            hosts: self.hosts,
            scheme: self.tokens,
            transport: self.transport,
            duration: Time::from_ns(1e6 * self.duration_ms),
            day: Time::from_ns(1e3 * self.day_us),
            seed: SEED,
        }
    }
}

impl FabricInfo {
    /// Returns what the work measured of its hosts, as tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `runs` | tokens and a length of day |
    /// | `margins` | a margin: mean loss over days, with pacing |
    /// | `sync` | a class of gaps between sync frames |
    /// | `turn` | a value of how a day begins, with pacing: see its names |
    /// | `rush` | a length of day: loss by the card's batch mode alone |
    /// | `packets` | hosts on a packet switch, and what carries their data |
    /// | `mtu` | the same of two hosts, and a size of frames |
    /// | `tcp` | TCP in turns: a length of day, congestion control, offload |
    ///
    /// # Errors
    /// If the fabric has no hosts.
    pub fn experiments(&self) -> Result<Tables, StudyError> {
        let mut runs = Table::new(&OWN[1..]);
        for tokens in Scheme::ALL {
            for &day_us in &self.fabric.spec().days_us {
                runs.push(self.cells(&Played { tokens, day_us, ..self.published()? })?);
            }
        }
        let mut tables = vec![("runs", runs), ("margins", self.margins()?), ("sync", self.sync()?)];
        tables.extend(self.transports()?);
        Ok(tables)
    }

    /// Hosts as they are described, with pacing and datagrams.
    pub(super) fn published(&self) -> Result<Played<'_>, StudyError> {
        Ok(Played {
            switch: &self.fabric.spec().switch,
            hosts: self.hosts()?,
            tokens: Scheme::Pacing,
            transport: Transport::Udp,
            day_us: DAY_US,
            duration_ms: DURATION_MS,
        })
    }

    fn margins(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[real("margin_us"), real("loss_pct")]);
        let mut hosts = self.hosts()?.clone();
        let spec = self.fabric.spec();
        for margin_us in MARGINS_US {
            hosts.margin_us = margin_us;
            let mut sum = 0.0;
            for &day_us in &spec.days_us {
                let duration_ms = DURATION_MS / 4.0;
                let hosts = &hosts;
                let run =
                    self.turns(&Played { hosts, day_us, duration_ms, ..self.published()? })?;
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
        let run = self.turns(&Played { switch: &switch, day_us, ..self.published()? })?;
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

    pub(super) fn turns(&self, played: &Played) -> Result<Run, StudyError> {
        self.check_day(played.day_us)?;
        let setting = played.setting();
        let policy = Box::new(Turns::round_robin(setting.hosts.count, setting.day));
        play(&setting, policy, &RunControl::new()).map_err(failed)
    }

    /// Plays a run, and returns the columns of [`OWN`] behind the seed.
    pub(super) fn cells(&self, played: &Played) -> Result<Vec<Value>, StudyError> {
        let mut cells = cells_of(&self.turns(played)?, &played.setting(), Some(played.day_us));
        // Every run has the same seed here, so that its column would say nothing.
        cells.remove(0);
        Ok(cells)
    }
}
