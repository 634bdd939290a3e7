//! What goes wrong between hosts and their switch: frames that are lost, sync frames that are lost,
//! links that go down, hosts that fall silent.

use halfwink_engine::draw::comes;
use halfwink_engine::{stream, Outages, Stream};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, wrong, DescriptionError};

/// Faults that are injected into each host; the default is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of frames that a host sends and a link loses, 0 to 1.
    pub frame_lost: f64,
    /// Share of sync frames that do not reach a host, 0 to 1: news of a day, or of a night.
    pub sync_lost: f64,
    /// Mean time that a host's link to the switch is up, in seconds; exponential. 0 means for ever.
    pub link_down_every_s: f64,
    /// Mean time that the link is then down and loses every frame, in milliseconds; exponential.
    pub link_down_ms: f64,
    /// Mean time that a host responds, in seconds; exponential. 0 means for ever.
    pub silent_every_s: f64,
    /// Mean time that the host then handles nothing, in milliseconds; exponential.
    pub silent_ms: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            frame_lost: 0.0,
            sync_lost: 0.0,
            link_down_every_s: 0.0,
            link_down_ms: 10.0,
            silent_every_s: 0.0,
            silent_ms: 10.0,
        }
    }
}

/// Number of faults injected, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that a link lost, up or down.
    pub frames: u64,
    /// Number of these frames that were lost while the link was down.
    pub link_down: u64,
    /// Sync frames that did not reach their host.
    pub sync: u64,
    /// Sync frames that waited for a host that was silent.
    pub silent: u64,
}

/// A violated invariant, which holds under any faults: an error of the policy or of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Packets were sent and neither arrived nor were lost.
    #[error("{0} packets were sent, {1} arrived or were lost")]
    Unbalanced(u64, u64),
    /// A connection has delivered what it did not send.
    #[error("host {0} sent host {1} {2} segments, {3} arrived in order")]
    Invented(usize, usize, u64, u64),
    /// A connection has lost data in flight, and no timer would detect the loss.
    #[error("the connection from host {0} to host {1} waits for ever")]
    Stranded(usize, usize),
}

impl FaultCounts {
    pub(crate) fn add(&mut self, other: FaultCounts) {
        self.frames += other.frames;
        self.link_down += other.link_down;
        self.sync += other.sync;
        self.silent += other.silent;
    }
}

impl Faults {
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        for (name, share) in [("frame_lost", self.frame_lost), ("sync_lost", self.sync_lost)] {
            if !(0.0..=1.0).contains(&share) {
                let message = format!("found {share}, expected 0 to 1");
                return Err(wrong(&format!("hosts.faults.{name}"), message));
            }
        }
        at_least("hosts.faults.link_down_every_s", self.link_down_every_s, 0.0)?;
        positive("hosts.faults.link_down_ms", self.link_down_ms)?;
        at_least("hosts.faults.silent_every_s", self.silent_every_s, 0.0)?;
        positive("hosts.faults.silent_ms", self.silent_ms)
    }

    /// Returns whether any fault is enabled.
    #[must_use]
    pub fn any(&self) -> bool {
        self.frame_lost > 0.0
            || self.sync_lost > 0.0
            || self.link_down_every_s > 0.0
            || self.silent_every_s > 0.0
    }

    /// Creates the fault streams of a host, if any fault is enabled.
    pub(crate) fn of(&self, seed: u64, host: u16) -> Option<Box<Fate>> {
        // A stream for each host and fault: more of one fault leaves the times of all others as
        // they were.
        let stream = |what: &str| stream(seed, &format!("{what} of host {host}"));
        let outages = |what, every_s: f64, ms: f64| {
            Outages::new(stream(what), Time::from_ns(every_s * 1e9), Time::from_ns(ms * 1e6))
        };
        self.any().then(|| {
            Box::new(Fate {
                faults: *self,
                frames: stream("frames"),
                sync: stream("lost news"),
                link: outages("link", self.link_down_every_s, self.link_down_ms),
                silences: outages("silences", self.silent_every_s, self.silent_ms),
                counts: FaultCounts::default(),
            })
        })
    }
}

/// Fault streams of a host.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    faults: Faults,
    frames: Stream,
    sync: Stream,
    link: Outages,
    silences: Outages,
    pub(crate) counts: FaultCounts,
}

impl Fate {
    /// Draws whether the link loses a frame whose transmission begins at `now`.
    pub(crate) fn loses_frame(&mut self, now: Time) -> bool {
        let is_down = self.link.until(now).is_some();
        // Drawn also while the link is down, so that an outage does not shift the losses behind it.
        let is_lost = comes(&mut self.frames, self.faults.frame_lost) || is_down;
        self.counts.frames += u64::from(is_lost);
        self.counts.link_down += u64::from(is_down);
        is_lost
    }

    /// Draws whether a sync frame is lost.
    pub(crate) fn loses_sync(&mut self) -> bool {
        let is_lost = comes(&mut self.sync, self.faults.sync_lost);
        self.counts.sync += u64::from(is_lost);
        is_lost
    }

    /// Returns the end of a silence at `now` in which a sync frame waits, and counts it.
    pub(crate) fn keeps_waiting(&mut self, now: Time) -> Option<Time> {
        let until = self.silent_until(now);
        self.counts.silent += u64::from(until.is_some());
        until
    }

    /// Returns the end of a silence at `now`, during which the host handles no frames.
    pub(crate) fn silent_until(&mut self, now: Time) -> Option<Time> {
        self.silences.until(now)
    }
}
