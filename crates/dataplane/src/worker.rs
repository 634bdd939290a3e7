//! What a worker has for itself, and what the elements on a packet's way hand on.
//!
//! Elements add their steps to [`Worker`] in their own files and know each other only by its
//! methods: an ICMP error is itself a packet that is routed, encrypted and counted, so calls go
//! round while imports do not.

use halfwink_units::Time;

use crate::counters::Counters;
use crate::frame::Frame;
use crate::icmp_error;
use crate::limiter::Limiter;
use crate::neighbours::{Cache, Key};
use crate::netflow::NetFlow;
use crate::redundancy::Encoder;
use crate::shared::Shared;
use crate::tables::{App, Tables};
use crate::verdict::{Out, Verdict};
use crate::wire;

/// Offset of a frame in a worker's own memory. The memory holds the longest IP packet, with room on
/// both sides.
const SCRATCH_START: usize = 128;
const SCRATCH: usize = SCRATCH_START + wire::ETHERNET + 65_536 + 128;

/// State of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u16,
    pub(crate) counters: Counters,
    pub(crate) cache: Cache,
    pub(crate) limiter: Limiter,
    /// Identification of its last own IPv4 packet.
    pub(crate) identification: u16,
    pub(crate) scratch: Box<[u8]>,
    /// The packet at hand has come out of a tunnel: it enters none.
    pub(crate) inside: bool,
    /// The packet at hand has left in pieces, and has been counted.
    pub(crate) in_pieces: bool,
    pub(crate) flows: Option<NetFlow>,
    pub(crate) encoder: Option<Encoder>,
}

/// Next hop of a packet and the constraints on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) to: Key,
    /// The longest packet that the way takes, in bytes.
    pub(crate) mtu: usize,
    /// The association that encrypts it first, as its place in the list.
    pub(crate) tunnel: Option<usize>,
}

/// Context of a step in the processing of a packet.
pub(crate) struct Cx<'a> {
    pub(crate) now: Time,
    pub(crate) tables: &'a Tables,
    pub(crate) shared: &'a Shared,
    pub(crate) out: &'a mut dyn Out,
}

impl Worker {
    /// Number `number` of a router that does this.
    pub(crate) fn new(number: u16, app: &App) -> Worker {
        let mut worker = Worker {
            number,
            counters: Counters::default(),
            cache: Cache::default(),
            limiter: Limiter::new(icmp_error::BURST),
            identification: 0,
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            inside: false,
            in_pieces: false,
            flows: None,
            encoder: None,
        };
        worker.begin_app(app);
        worker
    }

    /// Creates the worker's own state for an application.
    fn begin_app(&mut self, app: &App) {
        if let App::NetFlow(settings) = app {
            self.flows = Some(NetFlow::new(settings.clone(), self.number));
        }
        if let App::Redundancy(redundancy) = app {
            self.encoder = Some(Encoder::new(redundancy.settings().clone()));
        }
    }

    /// After a reload: what is there goes on unless its settings have changed.
    pub(crate) fn change_app(&mut self, app: &App, now: Time, out: &mut dyn Out) {
        let same = match (app, &self.flows) {
            (App::NetFlow(settings), Some(flows)) => settings == flows.settings(),
            (App::NetFlow(_), None) => false,
            _ => self.flows.is_none(),
        };
        let same = same
            && match (app, &self.encoder) {
                (App::Redundancy(redundancy), Some(encoder)) => {
                    redundancy.settings() == encoder.settings()
                }
                (App::Redundancy(_), None) => false,
                _ => self.encoder.is_none(),
            };
        if !same {
            if let Some(mut flows) = self.flows.take() {
                flows.flush(now, out, &mut self.counters);
            }
            self.encoder = None;
            self.begin_app(app);
        }
    }

    pub(crate) fn count(&mut self, verdict: Verdict, len: usize) {
        self.counters.received += 1;
        match verdict {
            Verdict::Send { .. } => {
                self.counters.forwarded += 1;
                self.counters.forwarded_bytes += len as u64;
            }
            Verdict::Consumed if std::mem::take(&mut self.in_pieces) => {}
            Verdict::Consumed => self.counters.consumed += 1,
            Verdict::Held => self.counters.held += 1,
            Verdict::Drop(reason) => self.counters.drop_one(reason),
        }
    }

    /// A frame of `len` bytes in the worker's own memory, with room around it.
    pub(crate) fn with_scratch<T>(
        &mut self,
        len: usize,
        work: impl FnOnce(&mut Worker, &mut Frame<'_>) -> T,
    ) -> Option<T> {
        // Taken out, so that the work may use the worker. If that needs the scratch again, it is
        // not there and there is no frame: an error about an error is not sent.
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = Frame::new(&mut scratch, SCRATCH_START, len).map(|mut f| work(self, &mut f));
        self.scratch = scratch;
        done
    }
}
