//! A fabric's hosts by length of day and tokens: the experiments of Strong 2013, Sec 4.4 and 4.5.

use halfwink_engine::RunControl;
use halfwink_fabric::world::{play, Run, Setting, Transport};
use halfwink_fabric::{CircuitSwitch, Hosts};
use halfwink_policy::circuits::Turns as RoundRobin;
use halfwink_units::Time;

use super::job::{cells_of, failed, scheme, transport, DAY_US, OWN, SEED};
use super::FabricInfo;
use crate::error::StudyError;
use crate::table::{integer, real, text, Table, Value};
use crate::world::Tables;

/// Tokens of Fig 4.14.
const TOKENS: [&str; 3] = ["naive", "aging", "pacing"];
/// Length of each run. The work sent 506 GB, 50 s or so.
pub(super) const DURATION_MS: f64 = 2_000.0;
/// The times by which hosts stop early, in microseconds (PT-4.18).
const MARGINS_US: [f64; 9] = [20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0];
/// Night and day for which the work measured when sync frames come (Fig 4.19): 106 us together.
const JITTER_US: [f64; 2] = [6.0, 100.0];

/// The runs to play: a row for each kind of tokens and length of day.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    /// Lengths of days, in microseconds.
    pub days_us: &'a [f64],
    /// Kinds of tokens to play.
    pub tokens: &'a [&'a str],
    /// Transport, congestion control, and whether cards cut segments: words of the world's options.
    pub transport: [&'a str; 3],
    /// Length of each run, in milliseconds.
    pub duration_ms: f64,
    /// The seed of all random streams.
    pub seed: u64,
}

/// The transport that the work measured with: datagrams.
const UDP: [&str; 3] = ["udp", "cubic", "off"];

/// A single run.
#[derive(Clone, Copy)]
pub(super) struct Played<'a> {
    pub(super) switch: &'a CircuitSwitch,
    pub(super) hosts: &'a Hosts,
    pub(super) tokens: &'a str,
    pub(super) transport: Transport,
    pub(super) day_us: f64,
    pub(super) duration_ms: f64,
    pub(super) seed: u64,
}

impl FabricInfo {
    /// Plays traffic from all to all in turns.
    ///
    /// # Errors
    /// If there are no hosts, no such tokens or transport, or a day is shorter than the switch
    /// allows.
    pub fn runs(&self, asked: &Turns) -> Result<Table, StudyError> {
        let heads = [&[text("tokens"), real("day_us")], &OWN[1..]].concat();
        let mut table = Table::new(&heads);
        let (duration_ms, transport) = (asked.duration_ms, transport(asked.transport)?);
        if !(duration_ms.is_finite() && duration_ms > 0.0) {
            let message = format!("duration of {duration_ms} ms: expected more than 0");
            return Err(StudyError::Usage(message));
        }
        for &tokens in asked.tokens {
            for &day_us in asked.days_us {
                let seed = asked.seed;
                let run = self.turns(&Played {
                    tokens,
                    transport,
                    day_us,
                    duration_ms,
                    seed,
                    ..self.published()?
                })?;
                let names: [Value; 2] = [tokens.into(), day_us.into()];
                table.push([names.to_vec(), cells_of(&run, self.hosts()?)].concat());
            }
        }
        Ok(table)
    }

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
        let runs = self.runs(&Turns {
            days_us: &self.fabric.spec().days_us,
            tokens: &TOKENS,
            transport: UDP,
            duration_ms: DURATION_MS,
            seed: SEED,
        })?;
        let mut tables = vec![("runs", runs), ("margins", self.margins()?), ("sync", self.sync()?)];
        tables.extend(self.transports()?);
        Ok(tables)
    }

    /// Hosts as they are described, with pacing and datagrams.
    pub(super) fn published(&self) -> Result<Played<'_>, StudyError> {
        Ok(Played {
            switch: &self.fabric.spec().switch,
            hosts: self.hosts()?,
            tokens: "pacing",
            transport: Transport::Udp,
            day_us: DAY_US,
            duration_ms: DURATION_MS,
            seed: SEED,
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
        let (hosts, day) = (played.hosts, Time::from_ns(1e3 * played.day_us));
        let setting = Setting {
            switch: played.switch,
            hosts,
            scheme: scheme(played.tokens)?,
            transport: played.transport,
            duration: Time::from_ns(1e6 * played.duration_ms),
            day,
            seed: played.seed,
        };
        let policy = Box::new(RoundRobin::round_robin(hosts.count, day));
        play(&setting, policy, &RunControl::new()).map_err(failed)
    }
}
