//! ICMP errors as values.

/// Reason of a rejection, as the ICMP error reports it to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpError {
    TimeExceeded,
    NoRoute,
    HostUnreachable,
    PortUnreachable,
    /// Forbidden by the router's tunnel settings.
    Prohibited,
    /// The MTU that would have done.
    TooBig(usize),
}

impl IcmpError {
    /// Type, code and the word behind the checksum (RFC 792, 1191).
    pub(crate) fn v4(self) -> (u8, u8, u32) {
        match self {
            IcmpError::TimeExceeded => (11, 0, 0),
            IcmpError::NoRoute => (3, 0, 0),
            IcmpError::HostUnreachable => (3, 1, 0),
            IcmpError::PortUnreachable => (3, 3, 0),
            IcmpError::Prohibited => (3, 13, 0),
            IcmpError::TooBig(mtu) => (3, 4, mtu as u32 & 0xffff),
        }
    }

    /// Returns type, code and value by RFC 4443.
    pub(crate) fn v6(self) -> (u8, u8, u32) {
        match self {
            IcmpError::TimeExceeded => (3, 0, 0),
            IcmpError::NoRoute => (1, 0, 0),
            IcmpError::HostUnreachable => (1, 3, 0),
            IcmpError::PortUnreachable => (1, 4, 0),
            IcmpError::Prohibited => (1, 1, 0),
            IcmpError::TooBig(mtu) => (2, 0, mtu as u32),
        }
    }
}

/// Errors of one worker that may go at once; then one more each millisecond (RFC 4443, 2.4 f).
pub(crate) const BURST: u64 = 50;
