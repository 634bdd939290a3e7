//! The frames that a generator sends, one after the other.

use halfwink_engine::{stream, Stream};

use super::capture::Replay;
use super::flows::Sizes;
use super::frame::{Stamp, Template, FRAME_BYTES};
use super::generator::{Load, Options};
use super::socket::{mac, Sender};
use super::Error;

/// Frames one after the other.
pub(super) enum Source {
    Stamped {
        templates: Vec<Template>,
        flow_sequences: Vec<u32>,
        sizes: Sizes,
        random: Stream,
        flow: usize,
        sequence: u32,
    },
    Replayed(Box<Replay>, Vec<([u8; 6], [u8; 6])>, usize),
}

impl Source {
    pub(super) fn open(options: &Options) -> Result<Source, Error> {
        let macs: Vec<([u8; 6], [u8; 6])> = options
            .ports
            .iter()
            .map(|port| Ok((mac(&port.interface)?, port.to_mac)))
            .collect::<Result<_, Error>>()?;
        match &options.load {
            Load::Flows(flows, sizes) => {
                let sockets = flows.sockets()?.into_iter().enumerate();
                let template =
                    |(n, (from, to))| Template::new(macs[n % macs.len()], from, to, options.tag);
                Ok(Source::Stamped {
                    templates: sockets.map(template).collect::<Result<_, Error>>()?,
                    flow_sequences: vec![0; flows.count],
                    sizes: sizes.clone(),
                    random: stream(options.seed, "sizes"),
                    flow: 0,
                    sequence: 0,
                })
            }
            Load::Replay(path, times) => {
                Ok(Source::Replayed(Box::new(Replay::open(path, *times)?), macs, 0))
            }
        }
    }

    pub(super) fn most_bytes(&self) -> usize {
        match self {
            Source::Stamped { templates, sizes, .. } => {
                let least = templates.iter().map(Template::least_bytes).max().unwrap_or(0);
                sizes.most_bytes().max(least)
            }
            Source::Replayed(..) => *FRAME_BYTES.end(),
        }
    }

    /// Makes the next frame ready: when it was captured, in nanoseconds from the first, and 0 of
    /// stamped ones; `None` after the last.
    pub(super) fn advance(&mut self) -> Result<Option<u64>, Error> {
        match self {
            Source::Stamped { .. } => Ok(Some(0)),
            Source::Replayed(replay, ..) => replay.advance(),
        }
    }

    /// Port and length of the frame that is ready, which `put` writes where it is told.
    #[inline]
    pub(super) fn put(&mut self, scheduled_ns: u64, senders: &mut [Sender]) -> (usize, usize) {
        match self {
            Source::Stamped { templates, flow_sequences, sizes, random, flow, sequence } => {
                let port = *flow % senders.len();
                let stamp = Stamp {
                    flow: *flow as u16,
                    flow_sequence: flow_sequences[*flow],
                    sequence: *sequence,
                    scheduled_ns,
                };
                let template = &templates[*flow];
                let size = sizes.draw(random);
                let bytes = senders[port].add(|out| template.write(stamp, size, out));
                flow_sequences[*flow] = flow_sequences[*flow].wrapping_add(1);
                *sequence = sequence.wrapping_add(1);
                *flow = if *flow + 1 == templates.len() { 0 } else { *flow + 1 };
                (port, bytes)
            }
            Source::Replayed(replay, macs, turn) => {
                let port = *turn % senders.len();
                *turn += 1;
                let (from, to) = macs[port];
                let bytes = senders[port].add(|out| {
                    let frame = replay.frame();
                    out[..frame.len()].copy_from_slice(frame);
                    out[..6].copy_from_slice(&to);
                    out[6..12].copy_from_slice(&from);
                    frame.len()
                });
                (port, bytes)
            }
        }
    }
}
