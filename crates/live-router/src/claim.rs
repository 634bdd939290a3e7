//! The right to an interface. Two routers on one interface would both forward each packet.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A claim on an interface, until it is dropped or the process ends.
///
/// It is an abstract socket: its name belongs to the network namespace, as that of the interface
/// does, and the kernel frees it however the process ends.
#[derive(Debug)]
pub struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Claims an interface of this network namespace.
    ///
    /// # Errors
    /// Another router has it.
    pub fn new(interface: &str) -> Result<Claim, String> {
        let wrong = |e: io::Error| match e.kind() {
            io::ErrorKind::AddrInUse => format!(
                "interface {interface}: another router of halfwink has it, expected one that none \
                 has; stop that router first"
            ),
            _ => format!("interface {interface}: {e}"),
        };
        let name = format!("halfwink-router/{interface}");
        let address = SocketAddr::from_abstract_name(name).map_err(wrong)?;
        Ok(Claim { _socket: UnixDatagram::bind_addr(&address).map_err(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_claimed_once_and_freed_by_a_drop() {
        let name = format!("hw-{}", std::process::id());
        let claim = Claim::new(&name).unwrap();
        let error = Claim::new(&name).unwrap_err();
        assert!(error.starts_with(&format!("interface {name}: another router")), "{error}");
        assert!(Claim::new(&format!("{name}x")).is_ok());
        drop(claim);
        assert!(Claim::new(&name).is_ok());
    }
}
