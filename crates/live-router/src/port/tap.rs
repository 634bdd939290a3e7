//! TAP: a device whose wire ends in this process. The kernel is the neighbour at its other end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::{Interface, Io, Lane, Opened, Receive, Transmit};
use crate::pool::{Pool, Slot, LONGEST, MTU};

/// Chunks taken from the pool at a time.
const AT_ONCE: usize = 32;

pub(super) fn open(name: &str, _pool: &Pool) -> io::Result<Opened> {
    let builder = DeviceBuilder::new().name(name).layer(Layer::L2).mtu(MTU);
    let device = Arc::new(builder.build_sync()?);
    device.set_nonblocking(true)?;
    let mut interface = Interface::find(name)?;
    // The device's own address is the kernel's end; ours differs in the last bit, and is nobody's
    // by the "locally administered" bit.
    interface.mac[0] = (interface.mac[0] | 2) & !1;
    interface.mac[5] ^= 1;
    let receiver = Receiver { device: device.clone(), spare: Vec::new() };
    let lanes = vec![Lane { receiver: Box::new(receiver), sender: Box::new(Sender { device }) }];
    Ok(Opened { lanes, io: Io::Tap, interface, keep: None })
}

struct Receiver {
    device: Arc<SyncDevice>,
    spare: Vec<Slot>,
}

impl Receive for Receiver {
    fn receive(
        &mut self,
        pool: &Pool,
        most: usize,
        into: &mut VecDeque<Slot>,
    ) -> io::Result<usize> {
        for n in 0..most {
            if self.spare.is_empty() {
                pool.take(AT_ONCE, &mut self.spare);
            }
            let Some(mut slot) = self.spare.pop() else { return Ok(n) };
            slot.set_len(LONGEST);
            match self.device.recv(slot.bytes_mut()) {
                Ok(len) => {
                    slot.set_len(len);
                    into.push_back(slot);
                }
                Err(e) => {
                    self.spare.push(slot);
                    return if would_block(&e) { Ok(n) } else { Err(e) };
                }
            }
        }
        Ok(most)
    }

    fn descriptor(&self) -> RawFd {
        self.device.as_raw_fd()
    }

    fn lost(&mut self) -> u64 {
        0
    }

    fn close(self: Box<Self>) -> Vec<Slot> {
        self.spare
    }
}

struct Sender {
    device: Arc<SyncDevice>,
}

impl Transmit for Sender {
    fn send(&mut self, pool: &Pool, slots: &mut VecDeque<Slot>) -> io::Result<()> {
        let mut done = Vec::with_capacity(slots.len());
        let mut result = Ok(());
        while let Some(slot) = slots.pop_front() {
            match self.device.send(slot.bytes()) {
                Err(e) if would_block(&e) => {
                    slots.push_front(slot);
                    break;
                }
                // A frame that is refused must not stop those behind it.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => done.push(slot),
                Err(e) => {
                    result = Err(e);
                    done.push(slot);
                    break;
                }
                Ok(_) => done.push(slot),
            }
        }
        pool.free(&mut done);
        result
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
