//! A description, checked, and what follows from it without a simulation.

use halfwink_units::Time;

use super::{check, App, Spec};

/// A value of a description that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct ModelError {
    /// Path of the value (`cores.count`).
    pub element: String,
    /// Message with the value found and the values allowed.
    pub message: String,
}

impl ModelError {
    pub(crate) fn at(element: impl Into<String>, message: impl Into<String>) -> ModelError {
        ModelError { element: element.into(), message: message.into() }
    }
}

/// An operating point: cores that forward, and the P-state of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Cores that forward, 1 at least.
    pub cores: u8,
    /// P-state; zero is the slowest.
    pub step: u8,
}

/// Model of a router, with a checked description.
#[derive(Clone, Debug)]
pub struct Model {
    spec: Spec,
}

impl Model {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn new(spec: Spec) -> Result<Model, ModelError> {
        check::spec(&spec)?;
        Ok(Model { spec })
    }

    /// Returns the description of the router.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// An application by name.
    #[must_use]
    pub fn app(&self, name: &str) -> Option<&App> {
        self.spec.apps.get(name)
    }

    /// Returns the number of P-states.
    #[must_use]
    pub fn steps(&self) -> u8 {
        (self.spec.cores.fastest - self.spec.cores.slowest + 1) as u8
    }

    /// All cores at full speed.
    #[must_use]
    pub fn fastest(&self) -> Point {
        Point { cores: self.spec.cores.count, step: self.steps() - 1 }
    }

    /// Frequency of a P-state, in GHz.
    #[must_use]
    pub fn ghz(&self, step: u8) -> f64 {
        let c = &self.spec.cores;
        f64::from(c.slowest + u32::from(step)) * c.clock_step_mhz * 1e-3
    }

    /// Time of one packet on one core, in microseconds: the part that scales with the clock, and
    /// memory and I/O, which do not and are shared (Niccolini 2012, Sec 4.3.1; the form is an
    /// assumption).
    #[must_use]
    pub fn service_us(&self, app: &App, point: Point) -> f64 {
        let all = f64::from(self.spec.cores.count.max(2) - 1);
        let crowd = (f64::from(point.cores) - 1.0).max(0.0) / all;
        let memory = app.memory_one_us + (app.memory_all_us - app.memory_one_us) * crowd;
        app.cycles_us / self.ghz(point.step) + memory
    }

    /// Returns the service time in whole picoseconds.
    #[must_use]
    pub fn service(&self, app: &App, point: Point) -> Time {
        Time::from_ns(self.service_us(app, point) * 1e3)
    }

    /// Highest rate of an operating point, in million packets per second: what its cores can do, or
    /// what its ports can carry.
    #[must_use]
    pub fn rate_mpps(&self, app: &App, point: Point) -> f64 {
        let cores = f64::from(point.cores) / self.service_us(app, point);
        cores.min(self.line_mpps(app.bytes))
    }

    /// Highest rate of all ports with frames of so many bytes, in million packets per second.
    #[must_use]
    pub fn line_mpps(&self, bytes: u32) -> f64 {
        f64::from(self.spec.nic.ports) * 1e3 / self.wire_ns(bytes)
    }

    /// Time of a frame on the wire of a port, in nanoseconds.
    #[must_use]
    pub fn wire_ns(&self, bytes: u32) -> f64 {
        f64::from(bytes + self.spec.nic.frame_overhead_bytes) * 8.0 / self.spec.nic.port_gbps
    }

    /// Shares of its time that a core spends with a clock on, and of that in the handler or with
    /// packets, if each of `rate_mpps` random packets that finds it napping in C1 interrupts it.
    ///
    /// A queue with a set-up: idle for 1/λ, then `d` until the core hears of it, `D` in the
    /// handler, then (1 + λ(d + D)) packets and those that come meanwhile (M/G/1 with set-up).
    #[must_use]
    pub fn busy_share(&self, rate_mpps: f64, service_us: f64) -> f64 {
        let rho = rate_mpps * service_us;
        if rho >= 1.0 {
            return 1.0;
        }
        let delivery = self.spec.sleep.c1_exit_us + self.spec.wake.delivery_us;
        let wake = delivery + self.spec.wake.handler_us;
        1.0 - (1.0 + rate_mpps * delivery) * (1.0 - rho) / (1.0 + rate_mpps * wake)
    }

    /// Share of the time that memory and ports are at their peak.
    #[must_use]
    pub fn activity(&self, rate_mpps: f64, bytes: u32) -> f64 {
        let p = &self.spec.power;
        rate_mpps * 1e-3 * (p.activity_packet_ns + p.activity_byte_ns * f64::from(bytes))
    }

    /// Mean power of the router at a rate, in watts: the point's cores share it evenly and nap in
    /// C1; the others are in C6.
    #[must_use]
    pub fn napping_w(&self, app: &App, point: Point, rate_mpps: f64) -> f64 {
        let each = rate_mpps / f64::from(point.cores);
        let busy = self.busy_share(each, self.service_us(app, point));
        let core = busy * self.busy_w(point.step) + (1.0 - busy) * self.spec.power.c1_w;
        self.total_w(f64::from(point.cores) * core, self.activity(rate_mpps, app.bytes))
    }

    /// Power of a core that forwards, in watts.
    #[must_use]
    pub fn busy_w(&self, step: u8) -> f64 {
        let p = &self.spec.power;
        p.busy_w * (self.ghz(step) / self.ghz(0)).powf(p.busy_exponent)
    }

    /// Power of a core in an empty loop, in watts.
    #[must_use]
    pub fn spin_w(&self, step: u8) -> f64 {
        let p = &self.spec.power;
        p.spin_w * (self.ghz(step) / self.ghz(0)).powf(p.spin_exponent)
    }

    /// Power of the router, in watts, with so much for its cores above the deepest sleep.
    #[must_use]
    pub fn total_w(&self, cores_w: f64, activity: f64) -> f64 {
        let p = &self.spec.power;
        let idle = f64::from(self.spec.cores.packages) * p.package_w
            + p.board_w
            + p.memory_idle_w
            + p.nic_idle_w
            + p.fans_w;
        idle + cores_w * (1.0 + p.fans_per_core_w) + (p.memory_w + p.nic_w) * activity
    }

    /// The operating point that draws least among those that carry a rate, and its watts.
    #[must_use]
    pub fn optimum(&self, app: &App, rate_mpps: f64) -> Option<(Point, f64)> {
        let points = (1..=self.spec.cores.count)
            .flat_map(|cores| (0..self.steps()).map(move |step| Point { cores, step }));
        points
            .filter(|&point| self.rate_mpps(app, point) >= rate_mpps)
            .map(|point| (point, self.napping_w(app, point, rate_mpps)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }
}
