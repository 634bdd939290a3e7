//! Completes where it hears, and hears where it was issued.

use super::{Done, Hears, Mapping, Queues, Resting, Where};

/// Completion on the issuing CPU, by interrupts or polls, below one queue or a queue for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    hears: Hears,
    queues: Queues,
    rests: Resting,
}

impl Direct {
    /// Interrupts to who issued, below the one queue (MSI-X; Nellans 2014, Sec 6.5).
    pub const MSI_X: Direct =
        Direct { hears: Hears::Issuer, queues: Queues::One, rests: Resting::Interrupt };
    /// The block layer's rewrite: a queue and an interrupt for each CPU (blk-mq, Linux 3.13).
    pub const MULTI_QUEUE: Direct = Direct { queues: Queues::EachCpu, ..Direct::MSI_X };
    /// A queue for each CPU, which asks it for ever (SPDK; `io_uring`'s IOPOLL).
    pub const POLLED: Direct =
        Direct { hears: Hears::Polled, queues: Queues::EachCpu, rests: Resting::Spin };
    /// Polls, but sleeps for the first half of the expected time of an I/O (Linux 4.10 to 5.19,
    /// `io_poll_delay=0`).
    pub const HYBRID_POLL: Direct = Direct { rests: Resting::HalfWay, ..Direct::POLLED };
}

impl Mapping for Direct {
    fn place(&mut self, _done: &Done) -> Where {
        Where::Here
    }

    fn hears(&self) -> Hears {
        self.hears
    }

    fn queues(&self) -> Queues {
        self.queues
    }

    fn rests(&self) -> Resting {
        self.rests
    }
}
