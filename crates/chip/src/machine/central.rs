//! What a central wake-up controller has to know of a chip.

use halfwink_policy::wake_up::{Central, Mode, Neighbourhood};
use halfwink_units::Time;

use super::{Machine, SafeWakeUp, WakeUpKind};

/// Disturbances and shares are in millionths.
const PPM: f64 = 1e6;

impl Machine {
    /// Returns the wake-up time without a grant: in a fixed or distributed scheme always.
    pub(super) fn usual_wake_up(&self) -> Time {
        match self.wake_up.controller {
            WakeUpKind::Fixed | WakeUpKind::Distributed => Time::from_ns(self.gating.wake_up_ns),
            WakeUpKind::Central => self.slowest_mode(),
        }
    }

    /// The coefficients of the largest chip that is not larger than this one.
    fn safe_wake_up(&self) -> &SafeWakeUp {
        let all = &self.wake_up.equations;
        all.iter().rfind(|e| e.cores <= self.cores).unwrap_or(&all[0])
    }

    /// The slowest mode of the switches, or what is safe if all cores wake at once, if that is
    /// slower. A hundredth is added, since the controller rounds against itself.
    fn slowest_mode(&self) -> Time {
        let equation = self.safe_wake_up();
        let around = self.neighbourhood(self.cores);
        let all_at_once = (0..self.cores)
            .map(|a| {
                let weights: u64 = around.weights[a * self.cores..][..self.cores].iter().sum();
                let sum = (weights + around.places[a]) as f64 / PPM;
                equation.t0_ns * sum.powf(equation.alpha)
            })
            .fold(0.0, f64::max);
        self.wake_up.slowest.max(Time::from_ns(all_at_once * 1.01))
    }

    /// Eq 2.1's weights for the first `cores` cores, row after row of running cores.
    fn neighbourhood(&self, cores: usize) -> Neighbourhood {
        let equation = self.safe_wake_up();
        let grid = self.grid();
        let mut weights = Vec::with_capacity(cores * cores);
        for a in 0..cores {
            for c in 0..cores {
                let edge = if grid.is_edge(c) { equation.delta } else { 0.0 };
                let weight = match grid.apart(a, c) {
                    (0, 0) => 0.0,
                    (0, 1) | (1, 0) => 1.0 + edge,
                    (1, 1) => equation.beta,
                    _ => equation.gamma,
                };
                weights.push((weight * PPM).ceil() as u64);
            }
        }
        let own = |core| if grid.is_edge(core) { (equation.delta * PPM).ceil() as u64 } else { 0 };
        Neighbourhood { cores, weights, places: (0..cores).map(own).collect() }
    }

    /// The controller of the first `working` cores, if the machine has one.
    #[must_use]
    pub fn central_wake_up(&self, working: usize) -> Option<Central> {
        if self.wake_up.controller != WakeUpKind::Central {
            return None;
        }
        let equation = self.safe_wake_up();
        let (slow, fast) = (self.slowest_mode().as_ns(), self.wake_up.fastest.as_ns());
        let last = (self.wake_up.modes - 1) as f64;
        let modes = (0..self.wake_up.modes).map(|n| {
            let latency = slow + (fast - slow) * n as f64 / last;
            let noise = (equation.t0_ns / latency).powf(1.0 / equation.alpha);
            Mode { latency: Time::from_ns(latency), noise: (noise * PPM).ceil() as u64 }
        });
        // The slowest mode was chosen so that all cores may use it at once.
        Central::new(self.neighbourhood(working), modes.collect()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ev6;
    use super::*;

    #[test]
    fn sixteen_cores_at_once_need_what_the_thesis_states() {
        // Sec 2.5.5: 18.4 ns; Eq 2.1 with Table 2.2's coefficients gives 18.53 for an inner core
        // among fifteen waking ones, by hand 7.9 sqrt(4 + 4 * 0.2 + 7 * 0.1).
        let mut machine = ev6().with_cores(16);
        machine.wake_up.controller = WakeUpKind::Central;
        let around = machine.neighbourhood(16);
        let inner: u64 = around.weights[5 * 16..6 * 16].iter().sum();
        assert_eq!((inner, around.places[5]), (5_500_000 + 2 * 100_000, 0));
        let slowest = machine.slowest_mode().as_ns();
        assert!((18.4..19.5).contains(&slowest), "{slowest}");
        assert!(machine.central_wake_up(16).is_some());
    }

    #[test]
    fn five_slots_tell_a_core_from_its_neighbours() {
        let mut machine = ev6().with_cores(64);
        machine.wake_up.controller = WakeUpKind::Distributed;
        for core in [9, 42, 30] {
            let mut offsets: Vec<Time> = [core, core - 8, core - 1, core + 1, core + 8]
                .map(|n| machine.slots_of(n).offset)
                .to_vec();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), 5);
        }
    }

    #[test]
    fn few_cores_wake_faster_than_many() {
        let mut machine = ev6().with_cores(4);
        machine.wake_up.controller = WakeUpKind::Central;
        assert_eq!(machine.slowest_mode(), Time(16_900));
        assert!(machine.central_wake_up(4).is_some());
        machine.wake_up.controller = WakeUpKind::Fixed;
        assert!(machine.central_wake_up(4).is_none());
    }
}
