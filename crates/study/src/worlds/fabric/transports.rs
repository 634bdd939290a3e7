//! How a day begins, the card's batch mode, packet switches, TCP: the rest of Strong 2013, Sec 4.4
//! and 4.5.

use halfwink_engine::Histogram;
use halfwink_fabric::tcp::Algorithm;
use halfwink_fabric::world::{packet_gbps, Run, Transport};
use halfwink_fabric::Hosts;
use halfwink_policy::circuits::host::Scheme;
use halfwink_units::Time;

use super::job::OWN;
use super::runs::{Played, DURATION_MS};
use super::FabricInfo;
use crate::error::StudyError;
use crate::table::{integer, real, text, Table, Value};
use crate::world::Tables;

/// Days of the morning rush, in microseconds (Sec 4.4.2).
const RUSH_US: [f64; 8] = [61.0, 100.0, 150.0, 200.0, 300.0, 500.0, 700.0, 1000.0];
/// Ends of Fig 4.18, in microseconds.
const ENDS_US: [f64; 2] = [61.0, 300.0];
/// Frames of Fig 4.15, in bytes.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 1..=9;

/// Transports with the words that choose them.
const KINDS: [(&str, &str, Transport); 3] = [
    ("udp", "off", Transport::Udp),
    ("tcp", "off", Transport::Tcp { algorithm: Algorithm::Cubic, offload: false }),
    ("tcp", "on", Transport::Tcp { algorithm: Algorithm::Cubic, offload: true }),
];

/// One thing of the hosts, changed.
type Change = (&'static str, fn(&mut Hosts));

/// Changes that might explain why TCP is slower than the model has it.
const CHANGES: [Change; 10] = [
    ("news of the switch waits for the processor", |hosts| hosts.processor.sync_waits = true),
    // What days of 300 us lack with datagrams, as work of the queues.
    ("0.39 us more work for each packet", |hosts| hosts.processor.packet_us += 0.39),
    ("2.7 times as many stalls", |hosts| {
        hosts.stalls.long_share *= 2.7;
        hosts.stalls.short_share *= 2.7;
    }),
    ("no stalls", |hosts| {
        (hosts.stalls.long_share, hosts.stalls.short_share) = (0.0, 0.0);
    }),
    ("no overdrawing", |hosts| hosts.overdraws = false),
    ("windows of one day", |hosts| hosts.tcp.window_days = 1.0),
    ("windows and queues of four days", |hosts| {
        (hosts.tcp.window_days, hosts.queue_days) = (4.0, 4.0);
    }),
    ("queues of one day", |hosts| hosts.queue_days = 1.0),
    ("timers of 5 ms", |hosts| hosts.tcp.least_timeout_ms = 5.0),
    ("every segment acknowledged", |hosts| hosts.tcp.segments_per_ack = 1),
];

impl FabricInfo {
    /// Tables of what is not in turns with datagrams.
    pub(super) fn transports(&self) -> Result<Tables, StudyError> {
        Ok(vec![
            ("turn", self.turn()?),
            ("rush", self.rush()?),
            ("packets", self.packets()?),
            ("mtu", self.mtu()?),
            ("tcp", self.tcp()?),
        ])
    }

    /// Measures how a day begins, in microseconds.
    fn turn(&self) -> Result<Table, StudyError> {
        let Run { counts, .. } = self.turns(&self.published()?)?;
        let mut table = Table::new(&[text("fact"), real("us")]);
        let share = |times: &Histogram, share: f64| times.quantile(share).unwrap_or_default();
        for (fact, time) in [
            ("news to first packet, mean", counts.reaction.mean().unwrap_or_default()),
            ("day to first packet, 1 %", share(&counts.first_handed, 0.01)),
            ("day to first packet, 99 %", share(&counts.first_handed, 0.99)),
            ("in cards, least", counts.least_in_cards),
        ] {
            table.push(vec![fact.into(), in_us(time).into()]);
        }
        Ok(table)
    }

    /// The card's batch mode alone, against tokens that do not know of it.
    fn rush(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[real("day_us"), real("loss_pct"), real("longest_pause_us")]);
        let mut hosts = self.hosts()?.clone();
        (hosts.stalls.long_share, hosts.stalls.short_share) = (0.0, 0.0);
        hosts.late_share = 0.0;
        for day_us in RUSH_US {
            let hosts = &hosts;
            let run =
                self.turns(&Played { hosts, tokens: Scheme::Naive, day_us, ..self.published()? })?;
            let loss = 100.0 * run.counts.lost as f64 / run.counts.sent as f64;
            table.push(vec![day_us.into(), loss.into(), in_us(run.counts.longest_pause).into()]);
        }
        Ok(table)
    }

    fn packets(&self) -> Result<Table, StudyError> {
        let heads = [integer("hosts"), text("transport"), text("offload"), real("host_gbps")];
        let mut table = Table::new(&heads);
        let (switch, mut hosts) = (&self.fabric.spec().switch, self.hosts()?.clone());
        for count in [2, hosts.count] {
            hosts.count = count;
            for (name, offload, transport) in KINDS {
                let gbps = packet_gbps(switch, &hosts, transport);
                table.push(vec![u64::from(count).into(), name.into(), offload.into(), gbps.into()]);
            }
        }
        Ok(table)
    }

    /// Measures what two hosts reach over a packet switch by size of frames (Fig 4.15).
    fn mtu(&self) -> Result<Table, StudyError> {
        let heads = [integer("mtu_bytes"), text("transport"), text("offload"), real("host_gbps")];
        let mut table = Table::new(&heads);
        let (switch, mut hosts) = (&self.fabric.spec().switch, self.hosts()?.clone());
        hosts.count = 2;
        for thousand in MTU_BYTES {
            hosts.frame_bytes = 1000 * thousand;
            for (name, offload, transport) in KINDS {
                let gbps = packet_gbps(switch, &hosts, transport);
                let mtu = u64::from(hosts.frame_bytes);
                table.push(vec![mtu.into(), name.into(), offload.into(), gbps.into()]);
            }
        }
        Ok(table)
    }

    fn tcp(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[&[text("congestion"), text("offload")], &OWN[1..]].concat());
        let days = &self.fabric.spec().days_us;
        let cases = [
            ("cubic", Algorithm::Cubic, false, &days[..]),
            ("reno", Algorithm::Reno, false, &ENDS_US),
            ("dctcp", Algorithm::Dctcp, false, &ENDS_US),
            ("cubic", Algorithm::Cubic, true, &ENDS_US),
        ];
        for (name, algorithm, offload, days) in cases {
            for &day_us in days {
                let transport = Transport::Tcp { algorithm, offload };
                let names = [name, if offload { "on" } else { "off" }].map(Value::from);
                let cells = self.cells(&Played { transport, day_us, ..self.published()? })?;
                table.push([names.to_vec(), cells].concat());
            }
        }
        Ok(table)
    }

    /// TCP at both ends with one thing changed: what of it could be why it misses. No target reads
    /// it, so that it is asked for by itself.
    ///
    /// # Errors
    /// If the fabric has no hosts.
    pub fn tcp_changed(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[&[text("changed")], &OWN[1..]].concat());
        let transport = Transport::Tcp { algorithm: Algorithm::Cubic, offload: false };
        for (changed, change) in CHANGES {
            let mut hosts = self.hosts()?.clone();
            change(&mut hosts);
            for day_us in ENDS_US {
                let (hosts, duration_ms) = (&hosts, DURATION_MS / 2.0);
                let cells = self.cells(&Played {
                    hosts,
                    transport,
                    day_us,
                    duration_ms,
                    ..self.published()?
                })?;
                table.push([vec![changed.into()], cells].concat());
            }
        }
        Ok(table)
    }
}

fn in_us(time: Time) -> f64 {
    time.as_ns() * 1e-3
}
