//! A body on its way from one connection to another.

use std::task::{Context, Poll};

use super::body::{BadBody, Decoder, Encoder, Framing};
use super::memory::Hold;
use super::stream::{Buffer, Conn};

/// A body on its way.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    /// Decoder that finds its end.
    pub decoder: Decoder,
    encoder: Encoder,
    total: u64,
    most: u64,
    finished: bool,
    /// The machine waits for the client alone: nothing more may be held for it.
    pub blocked: bool,
}

/// Error of a transfer, by side.
#[derive(Debug)]
pub enum Broken {
    /// The body is none, or was cut off.
    Body,
    /// The body is longer than is allowed.
    TooLong,
    /// Reading has failed.
    Read,
    /// Writing has failed.
    Write,
}

impl From<BadBody> for Broken {
    fn from(_: BadBody) -> Broken {
        Broken::Body
    }
}

/// Bytes that wait to be written, at most.
const WINDOW: usize = 64 << 10;
/// Bytes that are read at a time.
pub const READ: usize = 16 << 10;
/// Size of a read of a body that is known to be long.
const READ_MORE: usize = 64 << 10;
/// Number of bytes that are worth a system call of their own; fewer are copied behind the waiting
/// ones.
const STRAIGHT: usize = 4 << 10;

impl Pipe {
    /// At the start of a body, of so many bytes at most.
    #[must_use]
    pub fn new(framing: Framing, encoder: Encoder, most: u64) -> Pipe {
        let decoder = Decoder::new(framing);
        let finished = framing == Framing::None;
        Pipe { decoder, encoder, total: 0, most, finished, blocked: false }
    }

    /// Bytes of the body that have been taken.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All has been taken from where it comes.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.finished
    }

    /// Moves what has been read to where it is written.
    ///
    /// # Errors
    /// It is no body, or too long.
    #[inline]
    pub fn step(&mut self, from: &mut Buffer, out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.finished {
            return Ok(());
        }
        let encoder = self.encoder;
        self.total += self.decoder.take(from, WINDOW, |piece| encoder.piece(piece, out))? as u64;
        if self.total > self.most {
            return Err(Broken::TooLong);
        }
        self.finish(out);
        Ok(())
    }

    /// Handles the end of the source.
    ///
    /// # Errors
    /// It is cut off.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.decoder.close()?;
        self.finish(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.decoder.is_done() && !self.finished {
            self.finished = true;
            self.encoder.end(out);
        }
    }

    /// Writes a long piece from where it was read, without a copy: whether it did.
    fn poll_straight(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Buffer,
        to: &mut Conn,
    ) -> Poll<Result<bool, Broken>> {
        let count = self.decoder.straight(from.len());
        if self.finished || self.encoder != Encoder::Plain || count < STRAIGHT {
            return Poll::Ready(Ok(false));
        }
        match to.poll_pass(cx, &from.get()[..count]) {
            Poll::Ready(Ok(count)) => {
                from.take(count);
                self.decoder.pass(count);
                self.total += count as u64;
                if self.total > self.most {
                    return Poll::Ready(Err(Broken::TooLong));
                }
                self.finish(to.output.end());
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Write)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Goes on as far as it can; ready once all has been taken and written. With `hold` ready as
    /// soon as all has been taken: what cannot be written waits, as far as `hold` has room.
    ///
    /// # Errors
    /// As [`Broken`] says.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Conn,
        to: &mut Conn,
        mut hold: Option<&mut Hold>,
    ) -> Poll<Result<(), Broken>> {
        self.blocked = false;
        loop {
            if to.output.is_empty() {
                match self.poll_straight(cx, &mut from.input, to) {
                    Poll::Ready(Ok(true)) => continue,
                    Poll::Ready(Ok(false)) => {}
                    Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
                    Poll::Pending if hold.is_none() => return Poll::Pending,
                    // It is copied, so that more can be read.
                    Poll::Pending => {}
                }
            }
            let room = hold.as_ref().map_or(to.output.len() < WINDOW, |hold| {
                // A body without bytes ends here, too.
                let fits = hold.bytes().max(WINDOW);
                from.input.is_empty() || to.output.len() + from.input.len() <= fits
            });
            let room = room || to.output.is_empty();
            if room {
                self.step(&mut from.input, to.output.end())?;
            }
            if self.finished && hold.is_some() {
                return Poll::Ready(Ok(()));
            }
            if !to.output.is_empty() {
                if let Poll::Ready(Err(_)) = to.poll_drain(cx) {
                    return Poll::Ready(Err(Broken::Write));
                }
                if let Some(hold) = hold.as_deref_mut() {
                    let left = to.output.len();
                    let more = from.input.len().max(READ_MORE);
                    if left == 0 {
                        hold.keep(0);
                    } else if !hold.ask_for_answer(left + more) {
                        hold.keep(left);
                        self.blocked = true;
                        return Poll::Pending;
                    }
                } else if to.output.len() >= WINDOW || (self.finished && !to.output.is_empty()) {
                    return Poll::Pending;
                }
            }
            if self.finished {
                return Poll::Ready(Ok(()));
            }
            if !from.input.is_empty() {
                continue;
            }
            let more = self.decoder.straight(READ_MORE).max(READ);
            match from.poll_fill(cx, more) {
                Poll::Ready(Ok(0)) => self.close(to.output.end())?,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Read)),
                Poll::Pending => {
                    // What TLS holds back goes on meanwhile; nothing else is left.
                    return match to.poll_drain(cx) {
                        Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Write)),
                        _ => Poll::Pending,
                    };
                }
            }
        }
    }
}
