//! Time and energy of what carries flows, and of the servers that wait for it.

use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, State};
use halfwink_units::{Power, Time};

use super::planes::Plane;
use super::Setting;

/// Resources that a run used, for the energy account.
pub(super) struct Used<'a> {
    /// Circuit switches, if any; each stands for so many.
    pub(super) planes: &'a [Plane],
    pub(super) each: u32,
    /// A rack's rate to packet switches, in gigabits per second.
    pub(super) packet_gbps: f64,
}

/// Posts rows; what meters say is power by the length of the run.
pub(super) fn close(setting: &Setting, used: &Used, end: Time) -> Result<Closed, Imbalance> {
    let (racks, power, mut books) = (setting.racks, &setting.racks.power, Ledger::new());
    let count = f64::from(racks.count);
    let ports = count * f64::from(used.each);
    for plane in used.planes {
        let number = plane.number();
        for (name, watts) in [
            (format!("circuits-{number}"), power.circuit_port_w),
            (format!("circuit-transceivers-{number}"), power.transceiver_w),
        ] {
            let power = Power::from_w(ports * watts);
            let component = books.component(&name, Row { time: end, energy: power * end });
            for (state, reason, mode, time) in [
                ("night", "reconfigures", Mode::Idle, plane.nights),
                ("day", "circuits", Mode::Kernel, plane.days),
            ] {
                let row = Row { time, energy: power * time };
                books.post(component, State(state), Cause { mode, reason }, row);
            }
        }
    }
    // Transceivers come whole: part of a port's rate lights one all the same.
    let links = (used.packet_gbps / setting.switch.port_gbps).ceil();
    for (name, watts, mode, reason) in [
        ("packets", count * used.packet_gbps * power.packet_w_per_gbps, Mode::Kernel, "packets"),
        ("packet-transceivers", count * links * power.transceiver_w, Mode::Kernel, "packets"),
        ("servers", f64::from(racks.all_servers()) * power.server_w, Mode::User, "wait"),
    ] {
        if watts > 0.0 {
            let row = Row { time: end, energy: Power::from_w(watts) * end };
            let component = books.component(name, row);
            books.post(component, State("on"), Cause { mode, reason }, row);
        }
    }
    books.close(end)
}
