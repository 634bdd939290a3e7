//! What the driver of an interface can do with XDP, asked by generic netlink (family `netdev`,
//! since Linux 6.3; `Documentation/netlink/specs/netdev.yaml`).

use std::io;

use netlink_packet_core::NlasIterator;
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// Number of the family of families, and of its question for one by name.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The question for an interface, and its attributes.
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP: u16 = 3;
/// The driver takes frames from XDP programs (`NETDEV_XDP_ACT_NDO_XMIT`).
const TAKES_FRAMES: u64 = 1 << 2;
const REQUEST: u16 = 1;
/// Bytes of the heads of a message: of netlink, and of generic netlink.
const HEADS: usize = 20;
const VERSION: u8 = 1;

/// Returns whether XDP programs may send by an interface. Kernels that cannot say so are taken to
/// allow it.
pub(super) fn takes_frames(interface: u32) -> bool {
    features(interface).map_or(true, |features| features & TAKES_FRAMES != 0)
}

fn features(interface: u32) -> io::Result<u64> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let families = ask(&socket, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = attribute(&families, FAMILY_ID).and_then(|value| value.try_into().ok());
    let family = family.map(u16::from_ne_bytes).ok_or(io::ErrorKind::NotFound)?;
    let device = ask(&socket, family, GET_DEVICE, DEVICE_INDEX, &interface.to_ne_bytes())?;
    let features = attribute(&device, DEVICE_XDP).and_then(|value| value.try_into().ok());
    features.map(u64::from_ne_bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Asks one question with one attribute; the attributes of the answer.
fn ask(socket: &Socket, kind: u16, command: u8, name: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let attribute_bytes = 4 + value.len();
    let bytes = HEADS + attribute_bytes.next_multiple_of(4);
    let mut message = Vec::with_capacity(bytes);
    message.extend((bytes as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, VERSION, 0, 0]);
    message.extend((attribute_bytes as u16).to_ne_bytes());
    message.extend(name.to_ne_bytes());
    message.extend(value);
    message.resize(bytes, 0);
    socket.send(&message, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    // An error is a message of another kind than the question.
    let is_answer = answer.get(4..6) == Some(&kind.to_ne_bytes());
    match answer.get(HEADS..) {
        Some(attributes) if is_answer => Ok(attributes.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the value of an attribute; attributes that are cut off end the list.
fn attribute(all: &[u8], name: u16) -> Option<Vec<u8>> {
    let mut attributes = NlasIterator::new(all).map_while(Result::ok);
    attributes.find(|attribute| attribute.kind() == name).map(|found| found.value().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_name_whatever_stands_before() {
        let all = [6, 0, 1, 0, 9, 9, 0, 0, 8, 0, 3, 0, 1, 2, 3, 4];
        assert_eq!(attribute(&all, 1), Some(vec![9, 9]));
        assert_eq!(attribute(&all, 3), Some(vec![1, 2, 3, 4]));
        assert_eq!(attribute(&all, 4), None);
        for wrong in [&[0, 0, 1, 0][..], &[3, 0, 1, 0], &[200, 0, 1, 0, 1], &[8], &[]] {
            assert_eq!(attribute(wrong, 1), None, "{wrong:?}");
        }
    }

    #[test]
    fn loopback_takes_no_frames_or_the_kernel_cannot_say() {
        // The kernel numbers it 1 in each network namespace.
        assert!(features(1).map_or(true, |features| features & TAKES_FRAMES == 0));
        assert!(features(u32::MAX).is_err());
    }
}
