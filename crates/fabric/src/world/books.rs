//! Time and energy of switch and transceivers, twice: by meters that run along, and by rows with
//! their reasons.

use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, State};
use halfwink_units::{Energy, Power, Time};

use super::Setting;

/// Times in each state of the switch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Books {
    night: Time,
    day: Time,
}

impl Books {
    pub(super) fn slot(&mut self, night: Time, day: Time) {
        self.night += night;
        self.day += day;
    }

    /// Posts rows; what meters say is power by the length of the run.
    pub(super) fn close(self, setting: &Setting, duration: Time) -> Result<Closed, Imbalance> {
        let (hosts, mut books) = (setting.hosts, Ledger::new());
        let count = f64::from(hosts.count);
        let components = [
            ("switch", Power::from_w(count * hosts.power.circuit_port_w)),
            ("transceivers", Power::from_w(count * hosts.power.transceiver_w)),
        ];
        for (name, power) in components {
            let energy: Energy = power * duration;
            let component = books.component(name, Row { time: duration, energy });
            for (state, reason, mode, time) in [
                ("night", "reconfigures", Mode::Idle, self.night),
                ("day", "circuits", Mode::Kernel, self.day),
            ] {
                let row = Row { time, energy: power * time };
                books.post(component, State(state), Cause { mode, reason }, row);
            }
        }
        books.close(duration)
    }
}

/// The books of a packet switch, whose ports draw what they draw.
pub(super) fn packet_books(setting: &Setting, duration: Time) -> Result<Closed, Imbalance> {
    let (power, mut books) = (&setting.hosts.power, Ledger::new());
    let count = f64::from(setting.hosts.count);
    for (name, watts) in [("switch", power.packet_port_w), ("transceivers", power.transceiver_w)] {
        let row = Row { time: duration, energy: Power::from_w(count * watts) * duration };
        let component = books.component(name, row);
        let cause = Cause { mode: Mode::Kernel, reason: "packets" };
        books.post(component, State("on"), cause, row);
    }
    books.close(duration)
}
