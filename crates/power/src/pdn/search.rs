//! The shortest safe wake-up: of one critical core, of a case, of every set of cores.

use super::case::Case;
use super::grid::{Cores, Grid, Surroundings};
use super::response::Responses;
use super::spec::{Network, PdnError};
use super::wave::Triangle;

/// Most cores whose sets are all searched.
pub const MAX_SEARCHED_CORES: usize = 16;

/// Finds shortest safe wake-ups on a network.
#[derive(Clone, Debug)]
pub struct Search {
    network: Network,
    responses: Responses,
}

/// The shortest safe wake-up of one set of waking cores, as one other core sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wake {
    /// Set of waking cores.
    pub waking: Cores,
    /// Core whose droop decides.
    pub critical: usize,
    /// Surroundings of the critical core, as Eq 2.1 counts them.
    pub surroundings: Surroundings,
    /// Shortest wake-up, in nanoseconds, that keeps an active critical core within its limit.
    pub active_ns: f64,
    /// Shortest wake-up, in nanoseconds, that keeps a sleeping critical core within its limit.
    pub standby_ns: f64,
    /// Number of equal sets (turned, mirrored) that this one stands for.
    pub copies: usize,
}

/// Room for one rail's response and its droop, used again and again.
struct Scratch {
    response: Vec<f64>,
    droop: Vec<f64>,
}

/// Between wake-ups tried on the way from the longest to the shortest safe one.
const STRIDE: f64 = 0.92;
/// Halvings of the last stride: to a thousandth of it.
const HALVINGS: usize = 10;

impl Search {
    /// Solves the network.
    ///
    /// # Errors
    /// As [`Responses::new`].
    pub fn new(network: &Network) -> Result<Search, PdnError> {
        Ok(Search { network: network.clone(), responses: Responses::new(network)? })
    }

    /// Returns the network that is searched.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the grid of the cores.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.network.grid()
    }

    /// Returns the network's responses.
    #[must_use]
    pub fn responses(&self) -> &Responses {
        &self.responses
    }

    /// Largest droop of a core, in volts, while others wake in `wake_ns` with these starts (core,
    /// nanoseconds).
    #[must_use]
    pub fn droop_v(&self, rail: usize, starts: &[(usize, f64)], wake_ns: f64) -> f64 {
        let mut scratch = self.scratch();
        self.gather(rail, starts, &mut scratch);
        self.peak(&mut scratch, wake_ns, last_start_s(starts))
    }

    /// Shortest wake-up, not below `floor_ns`, at which `rail` droops by at most `limit` of the
    /// supply: at it and at every longer one.
    ///
    /// # Errors
    /// If not even the longest wake-up is safe.
    pub fn shortest_ns(
        &self,
        rail: usize,
        starts: &[(usize, f64)],
        limit: &Limit,
        floor_ns: f64,
    ) -> Result<f64, PdnError> {
        let mut scratch = self.scratch();
        self.gather(rail, starts, &mut scratch);
        let from_ns = self.network.spec().wake_up.longest_ns;
        let found = self.descend(&mut scratch, limit, (from_ns, floor_ns), last_start_s(starts));
        found.map_err(|droop_v| self.unreachable(rail, starts, limit, droop_v))
    }

    /// Shortest wake-up that is safe for every active and every sleeping core of a case.
    ///
    /// # Errors
    /// If a limit cannot be kept.
    pub fn case_ns(&self, case: &Case) -> Result<f64, PdnError> {
        let floor_ns = self.network.spec().wake_up.fastest_ns;
        let mut longest = floor_ns;
        for core in (0..self.grid().cores()).filter(|&core| !case.waking().has(core)) {
            let active = case.active.has(core);
            let limit = if active { self.active_limit() } else { self.standby_limit() };
            longest = longest.max(self.shortest_ns(core, &case.starts, &limit, floor_ns)?);
        }
        Ok(longest)
    }

    /// Returns the time for which a wake-up has to be observed, in nanoseconds: until the rails
    /// have settled.
    #[must_use]
    pub fn span_ns(&self, starts: &[(usize, f64)], wake_ns: f64) -> f64 {
        let settled_s = last_start_s(starts) + self.responses.settle_s;
        (settled_s * 1e9 + wake_ns).ceil()
    }

    /// The limit on active cores.
    #[must_use]
    pub fn active_limit(&self) -> Limit {
        Limit { element: "limits.active_droop", share: self.network.spec().limits.active_droop }
    }

    /// The limit on sleeping cores.
    #[must_use]
    pub fn standby_limit(&self) -> Limit {
        Limit { element: "limits.standby_droop", share: self.network.spec().limits.standby_droop }
    }

    /// Every set of waking cores up to symmetry, as seen by each other core: all that is needed to
    /// know the shortest safe wake-up of any active, waking and sleeping sets, which is the longest
    /// of [`Wake::active_ns`] over the active and [`Wake::standby_ns`] over the sleeping cores.
    ///
    /// The waking cores start `stagger_ns` apart, those nearest to the critical core first.
    ///
    /// # Errors
    /// If the grid has too many cores to search, or a limit cannot be kept.
    pub fn all(&self, stagger_ns: f64) -> Result<Vec<Wake>, PdnError> {
        let grid = self.grid();
        if grid.cores() > MAX_SEARCHED_CORES {
            let message = format!(
                "{} cores have too many sets to search, expected at most {MAX_SEARCHED_CORES}",
                grid.cores()
            );
            return Err(PdnError::at("grid.rows", message));
        }
        let symmetries = grid.symmetries(self.network.supplied());
        let mut wakes = Vec::new();
        let mut scratch = self.scratch();
        for (waking, copies) in grid.sets_up_to(&symmetries) {
            for critical in (0..grid.cores()).filter(|&core| !waking.has(core)) {
                let starts = grid.nearest_first(critical, waking, stagger_ns);
                let last_s = last_start_s(&starts);
                self.gather(critical, &starts, &mut scratch);
                let wake = &self.network.spec().wake_up;
                let mut shortest = |limit: &Limit, from_ns: f64| {
                    let range = (from_ns, wake.fastest_ns);
                    let found = self.descend(&mut scratch, limit, range, last_s);
                    found.map_err(|droop_v| self.unreachable(critical, &starts, limit, droop_v))
                };
                let (active, standby) = (self.active_limit(), self.standby_limit());
                let active_ns = shortest(&active, wake.longest_ns)?;
                // What is safe for the tighter limit is safe for the looser one.
                let looser = standby.share >= active.share;
                let from_ns = if looser { active_ns } else { wake.longest_ns };
                let standby_ns = shortest(&standby, from_ns)?;
                wakes.push(Wake {
                    waking,
                    critical,
                    surroundings: grid.surroundings(critical, waking),
                    active_ns,
                    standby_ns,
                    copies,
                });
            }
        }
        Ok(wakes)
    }

    fn scratch(&self) -> Scratch {
        let room = self.responses.lead + self.responses.samples;
        Scratch { response: vec![0.0; room], droop: vec![0.0; self.responses.samples] }
    }

    /// Adds up the responses of a rail to ramps at the waking cores.
    fn gather(&self, rail: usize, starts: &[(usize, f64)], scratch: &mut Scratch) {
        let (lead, samples) = (self.responses.lead, self.responses.samples);
        scratch.response.fill(0.0);
        for &(core, start_ns) in starts {
            let ramp = self.responses.ramp(rail, core);
            let (whole, weights) = shift(start_ns * 1e-9 / self.responses.step_s);
            // A delay of whole steps needs no interpolation: one addition for each sample and not
            // four.
            if weights[1] == 1.0 {
                let sum = &mut scratch.response[lead + whole..];
                sum.iter_mut().zip(ramp).for_each(|(s, r)| *s += r);
                continue;
            }
            for at in 0..samples - whole {
                let value: f64 = (0..4)
                    .filter_map(|tap| Some(weights[tap] * ramp.get((at + 1).checked_sub(tap)?)?))
                    .sum();
                scratch.response[lead + whole + at] += value;
            }
        }
    }

    /// Largest droop for triangles of `wake_ns`, from the gathered responses.
    fn peak(&self, scratch: &mut Scratch, wake_ns: f64, last_start_s: f64) -> f64 {
        let wave = Triangle::new(&self.network, wake_ns, 0.0);
        let step_s = self.responses.step_s;
        let end_s = last_start_s + wave.wake_s + self.responses.settle_s;
        // Behind the end all rails have settled, and the highest droop lies before it.
        let count = ((end_s / step_s) as usize).min(self.responses.samples - 1);
        let [(up, _), (bend, bend_s), (stop, stop_s)] = wave.ramps();
        let lead = self.responses.lead;
        let shifted = |delay_s: f64, slope: f64| {
            let (whole, weights) = shift(delay_s / step_s);
            // `lead` is as many zeros as the longest wake-up has steps, and four more: a ramp that
            // begins late reads zeros before its start without a test for each sample.
            let from = lead - whole - 2;
            let taps: [&[f64]; 4] =
                [3, 2, 1, 0].map(|tap| &scratch.response[from + tap..from + tap + count]);
            (taps, weights.map(|w| w * slope))
        };
        let (a, p) = shifted(bend_s, bend);
        let (b, q) = shifted(stop_s, stop);
        let first = &scratch.response[lead..lead + count];
        for (t, droop) in scratch.droop[..count].iter_mut().enumerate() {
            let bent = a[0][t] * p[0] + a[1][t] * p[1] + a[2][t] * p[2] + a[3][t] * p[3];
            let stopped = b[0][t] * q[0] + b[1][t] * q[1] + b[2][t] * q[2] + b[3][t] * q[3];
            *droop = first[t] * up + bent + stopped;
        }
        crest(&scratch.droop[..count])
    }

    /// Searches from the longest wake-up of the range down to the first unsafe one, then bisects.
    /// `Err` holds the droop of the longest.
    fn descend(
        &self,
        scratch: &mut Scratch,
        limit: &Limit,
        (from_ns, floor_ns): (f64, f64),
        last_start_s: f64,
    ) -> Result<f64, f64> {
        let limit_v = limit.share * self.network.spec().core.supply_v;
        let mut safe = from_ns;
        let slowest_v = self.peak(scratch, safe, last_start_s);
        if slowest_v > limit_v {
            return Err(slowest_v);
        }
        // Droop does not fall steadily with longer wake-ups, as rails ring: from above, the first
        // unsafe one ends the range in which all longer ones are safe.
        let mut unsafe_ns = loop {
            if safe <= floor_ns {
                return Ok(floor_ns);
            }
            let next = (safe * STRIDE).max(floor_ns);
            if self.peak(scratch, next, last_start_s) > limit_v {
                break next;
            }
            safe = next;
        };
        for _ in 0..HALVINGS {
            let middle = 0.5 * (safe + unsafe_ns);
            if self.peak(scratch, middle, last_start_s) > limit_v {
                unsafe_ns = middle;
            } else {
                safe = middle;
            }
        }
        Ok(safe)
    }

    fn unreachable(
        &self,
        rail: usize,
        starts: &[(usize, f64)],
        limit: &Limit,
        droop_v: f64,
    ) -> PdnError {
        let spec = self.network.spec();
        let message = format!(
            "{} cannot be kept: with {} waking, core {rail} droops by {:.3} of the supply even in \
             the {} ns of wake_up.longest_ns",
            limit.share,
            if starts.len() == 1 { "a core".into() } else { format!("{} cores", starts.len()) },
            droop_v / spec.core.supply_v,
            spec.wake_up.longest_ns,
        );
        PdnError::at(limit.element, message)
    }
}

/// Droop limit of a rail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Path of the limit in the description.
    pub element: &'static str,
    /// Limit as a share of the supply voltage.
    pub share: f64,
}

fn last_start_s(starts: &[(usize, f64)]) -> f64 {
    starts.iter().map(|&(_, start_ns)| start_ns * 1e-9).fold(0.0, f64::max)
}

/// A delay in steps as whole steps and the weights of the samples one after, at, one and two
/// before: cubic interpolation.
fn shift(steps: f64) -> (usize, [f64; 4]) {
    // Delays that are whole numbers of steps but for rounding must not be split.
    let rounded = steps.round();
    if (steps - rounded).abs() < 1e-9 {
        return (rounded as usize, [0.0, 1.0, 0.0, 0.0]);
    }
    let whole = steps.floor();
    let x = whole - steps;
    let weights = [
        x * (x + 1.0) * (x + 2.0) / 6.0,
        -(x - 1.0) * (x + 1.0) * (x + 2.0) / 2.0,
        (x - 1.0) * x * (x + 2.0) / 2.0,
        -(x - 1.0) * x * (x + 1.0) / 6.0,
    ];
    (whole as usize, weights)
}

/// The highest value, on a parabola through the highest sample and its neighbours.
fn crest(droop: &[f64]) -> f64 {
    // Eight maxima side by side do not wait for one another, so the compiler can use vectors.
    let mut lanes = [0.0f64; 8];
    let chunks = droop.chunks_exact(8);
    let rest = chunks.remainder().iter().fold(0.0f64, |m, &v| m.max(v));
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    let highest = lanes.iter().fold(rest, |m, &v| m.max(v));
    let Some(at) = droop.iter().position(|&v| v == highest) else { return highest };
    if at == 0 || at + 1 >= droop.len() {
        return highest;
    }
    let (before, after) = (droop[at - 1], droop[at + 1]);
    let bend = before - 2.0 * highest + after;
    // Only a parabola that opens downwards has a highest point.
    if bend < 0.0 {
        highest - (after - before) * (after - before) / (8.0 * bend)
    } else {
        highest
    }
}
