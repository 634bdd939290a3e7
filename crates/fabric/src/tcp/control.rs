//! How many segments may be on their way.

use halfwink_units::Time;

/// A rule by which the window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A segment more each round trip, half after a loss (RFC 5681).
    Reno,
    /// A cubic function of the time since the last loss (RFC 9438); what Linux does by default.
    Cubic,
    /// Behaves as Reno, but shrinks the window by the share of segments that a queue marked (RFC
    /// 8257).
    Dctcp,
}

/// `C` and `beta` of RFC 9438, Sec 4.1.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Weight of a new share of marks: `g` of RFC 8257, Sec 3.3.
const G: f64 = 1.0 / 16.0;

/// A congestion window, in segments.
#[derive(Clone, Debug)]
pub struct Control {
    algorithm: Algorithm,
    window: f64,
    threshold: f64,
    /// `W_max`: where the last loss was.
    most: f64,
    epoch: Option<Epoch>,
    marks: Marks,
}

/// Growth since the last loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    origin: f64,
    /// Seconds until the window is `origin` again.
    k: f64,
    /// Window that Reno would have (`W_est`).
    friendly: f64,
    /// Window at which the epoch began to follow Reno.
    prior: f64,
}

/// Segments acknowledged and marked in this window.
#[derive(Clone, Copy, Debug)]
struct Marks {
    alpha: f64,
    acknowledged: u64,
    marked: u64,
    until: u64,
    /// First segment after the last shrink for marks; earlier ones do not shrink the window again.
    shrunk: u64,
}

impl Control {
    /// A window of so many segments, before any loss.
    #[must_use]
    pub fn new(algorithm: Algorithm, initial: f64) -> Control {
        // An alpha of 1 at first (Linux: `dctcp_alpha_on_init`): the first mark halves the window
        // like a loss.
        let marks = Marks { alpha: 1.0, acknowledged: 0, marked: 0, until: 0, shrunk: 0 };
        let (window, threshold) = (initial.max(1.0), f64::INFINITY);
        Control { algorithm, window, threshold, most: 0.0, epoch: None, marks }
    }

    /// Segments that may be on their way.
    #[must_use]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// DCTCP's estimate of the share of marked segments.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.marks.alpha
    }

    /// Segments were acknowledged while the window was full.
    pub fn grow(&mut self, now: Time, segments: u64, round_trip: Time) {
        let segments = segments as f64;
        if self.window < self.threshold {
            // Slow start ends exactly at the threshold and not beyond; a window above it does not
            // shrink.
            self.window = (self.window + segments).min(self.threshold.max(self.window));
        } else if self.algorithm == Algorithm::Cubic {
            self.grow_cubic(now, segments, round_trip);
        } else {
            // One segment more for each window that is acknowledged.
            self.window += segments / self.window;
        }
    }

    /// RFC 9438, Sec 4.2 to 4.5.
    fn grow_cubic(&mut self, now: Time, segments: f64, round_trip: Time) {
        let (window, most) = (self.window, self.most);
        let epoch = self.epoch.get_or_insert_with(|| {
            let k = if window < most { ((most - window) / C).cbrt() } else { 0.0 };
            Epoch { began: now, origin: most.max(window), k, friendly: window, prior: most }
        });
        let elapsed = now.saturating_sub(epoch.began).as_s();
        let at = |seconds: f64| epoch.origin + C * (seconds - epoch.k).powi(3);
        // The window one round trip ahead; the clamp is that of RFC 9438, Sec 4.2, which keeps
        // growth below half a window in a round trip.
        let target = at(elapsed + round_trip.as_s()).clamp(window, 1.5 * window);
        let slope =
            // Reno's slope for a decrease by `BETA` until the window of before is reached, then
            // one (Sec 4.3).
            if epoch.friendly < epoch.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        let friendly = epoch.friendly + slope * segments / window;
        self.window = if at(elapsed) < friendly {
            window.max(friendly)
        } else {
            window + segments * (target - window) / window
        };
        epoch.friendly = friendly;
    }

    /// Segments were lost, once in a window.
    pub fn lost(&mut self) {
        let share = if self.algorithm == Algorithm::Cubic { BETA } else { 0.5 };
        // Fast convergence (RFC 9438, Sec 4.7).
        let yields = self.window < self.most;
        self.most = if yields { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        // Two segments at least: RFC 5681, Eq 4, and RFC 9438, Sec 4.6.
        self.threshold = (share * self.window).max(2.0);
        self.window = self.threshold;
        self.epoch = None;
    }

    /// Reacts to a retransmission timeout.
    pub fn timed_out(&mut self) {
        self.lost();
        self.window = 1.0;
    }

    /// Reacts to marks on acknowledged segments. `next` is the first segment not yet sent, `una`
    /// the first that is not acknowledged.
    pub fn marked(&mut self, una: u64, next: u64, acknowledged: u64, marked: u32) {
        if self.algorithm != Algorithm::Dctcp {
            return;
        }
        let marks = &mut self.marks;
        marks.acknowledged += acknowledged;
        marks.marked += u64::from(marked);
        // The last segment that was sent before is acknowledged by its number.
        if marked > 0 && una > marks.shrunk {
            self.window = (self.window * (1.0 - marks.alpha / 2.0)).max(2.0);
            self.threshold = self.window;
            marks.shrunk = next;
        }
        if una >= marks.until && marks.acknowledged > 0 {
            let share = marks.marked as f64 / marks.acknowledged as f64;
            debug_assert!((0.0..=1.0).contains(&marks.alpha), "alpha is a share");
            // Marks may come with an acknowledgement of no new segments, so that the share may
            // exceed 1.
            marks.alpha += G * (share.min(1.0) - marks.alpha);
            (marks.acknowledged, marks.marked, marks.until) = (0, 0, next);
        }
    }

    /// Returns whether segments from `una` on were sent before the window shrank for marks: it does
    /// not grow for them.
    #[must_use]
    pub fn has_shrunk(&self, una: u64) -> bool {
        una < self.marks.shrunk
    }
}
