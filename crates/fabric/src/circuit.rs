//! An optical circuit switch: what taking turns leaves, and what it takes (Sec 4.2.3).

use serde::{Deserialize, Serialize};

/// A switch that joins each input to one output at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CircuitSwitch {
    /// Ports of the device.
    pub ports: u32,
    /// Ports that can be used.
    pub usable_ports: u32,
    /// Rate of a port, in gigabits per second.
    pub port_gbps: f64,
    /// Time from the end of one day to the begin of the next (the night), in microseconds.
    pub reconfiguration_us: f64,
    /// Shortest day, in microseconds.
    pub shortest_day_us: f64,
    /// Circuits that share a port in a week, each a day (`2 W` of Eq 4.3).
    pub circuits_per_port: f64,
    /// Propagation delay from an input to its output, in microseconds.
    #[serde(default)]
    pub propagation_us: f64,
}

impl CircuitSwitch {
    /// Share of time in which circuits are up: `D = T_day / (T_day + C)`, 0 to 1.
    #[must_use]
    pub fn duty(&self, day_us: f64) -> f64 {
        day_us / (day_us + self.reconfiguration_us)
    }

    /// Bandwidth of all ports that can be used, in gigabits per second (Eq 4.2).
    #[must_use]
    pub fn bandwidth_gbps(&self, day_us: f64) -> f64 {
        self.duty(day_us) * self.port_gbps * f64::from(self.usable_ports)
    }

    /// Mean round trip of a message, in microseconds (Eq 4.3): it is sent and answered, and waits
    /// for its circuit, on average half a week, both ways. Time to process packets is left out.
    #[must_use]
    pub fn round_trip_us(&self, day_us: f64, message_bytes: f64, sharers: f64) -> f64 {
        // Gb/s are 1000 bit/us.
        let sent = 4.0 * 8.0 * message_bytes / (1e3 * self.port_gbps);
        // C / (1 - D) is a slot.
        let slot = day_us + self.reconfiguration_us;
        // Half a week of waiting each way is one week in both: `sharers` slots.
        sent + 2.0 * self.propagation_us + sharers * slot
    }

    /// Time of a frame on a port's wire, in microseconds.
    #[must_use]
    pub fn wire_us(&self, frame_bytes: f64) -> f64 {
        8.0 * frame_bytes / (1e3 * self.port_gbps)
    }
}

#[cfg(test)]
mod tests {
    use super::CircuitSwitch;

    /// The switch of Fig 4.3.
    fn switch() -> CircuitSwitch {
        CircuitSwitch {
            ports: 100,
            usable_ports: 100,
            port_gbps: 100.0,
            reconfiguration_us: 10.0,
            shortest_day_us: 0.0,
            circuits_per_port: 22.0,
            propagation_us: 0.0,
        }
    }

    #[test]
    fn the_ends_of_figure_4_3() {
        let (switch, no_message) = (switch(), 0.0);
        assert_eq!(switch.bandwidth_gbps(1000.0).round(), 9901.0);
        assert_eq!(switch.bandwidth_gbps(10.0), 5000.0);
        assert_eq!(switch.round_trip_us(1000.0, no_message, 22.0), 22_220.0);
        assert_eq!(switch.round_trip_us(10.0, no_message, 22.0), 440.0);
        assert_eq!(switch.round_trip_us(1000.0, no_message, 99.0), 99_990.0);
        assert_eq!(switch.round_trip_us(10.0, no_message, 1.0), 20.0);
    }

    #[test]
    fn messages_and_propagation_add() {
        let mut switch = switch();
        switch.propagation_us = 3.0;
        // 125 kB are 1 Mbit, 10 us at 100 Gb/s; four times that, and twice 3 us.
        assert_eq!(switch.round_trip_us(10.0, 125_000.0, 1.0), 40.0 + 6.0 + 20.0);
        assert_eq!(switch.wire_us(9000.0), 0.72);
    }
}
