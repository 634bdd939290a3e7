//! What the thesis reports about a chip's delivery network, computed (Strong 2013, Sec 2.2.3,
//! 2.2.4, 2.3.2, 2.5.5).

use super::fit::{fit, Equation, Fit, Point};
use super::grid::Cores;
use super::knobs::{beside_inner_ns, sensitivity};
use super::search::{Search, Wake};
use super::spec::{Network, PdnError};

/// First guess of every fit, and what a coefficient keeps that no set of a small chip can tell.
const GUESS: Equation = Equation { t0_ns: 8.0, alpha: 0.5, beta: 0.5, gamma: 0.5, delta: 0.0 };
/// Growth that counts as none.
const FLAT: f64 = 1.02;

/// All sets of a chip's cores, with what follows.
#[derive(Clone, Debug)]
pub struct Study {
    search: Search,
    /// Results of simultaneous wake-ups.
    pub wakes: Vec<Wake>,
    /// Results with the stagger of the description.
    pub staggered: Vec<Wake>,
}

/// The fits of Eq 2.1 to a chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fits {
    /// `T0` and `alpha` from sets that wake beside an inner core of a chip of 16, as Table 2.2 has
    /// one of each for all chips; the rest from all sets of this chip.
    pub staged: Fit,
    /// All coefficients from all sets of this chip, where they can be told apart.
    pub joint: Option<Fit>,
    /// `staged` with an `alpha` of its own for staggered wake-ups of up to three cores.
    pub staggered: Option<Fit>,
}

impl Study {
    /// Searches all sets of cores of a network.
    ///
    /// # Errors
    /// As [`Search::all`].
    pub fn new(network: &Network) -> Result<Study, PdnError> {
        let search = Search::new(network)?;
        let wakes = search.all(0.0)?;
        let staggered = search.all(network.spec().slots.stagger_ns)?;
        Ok(Study { search, wakes, staggered })
    }

    /// The search behind it.
    #[must_use]
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Points for a fit: sets whose shortest wake-up is not that of the fastest mode.
    fn points(&self, wakes: &[Wake], most_waking: usize) -> Vec<Point> {
        let clamp_ns = self.search.network().spec().wake_up.fastest_ns * (1.0 + 1e-6);
        wakes
            .iter()
            .filter(|w| w.active_ns > clamp_ns && w.waking.count() <= most_waking)
            .map(|w| Point { at: w.surroundings, wake_ns: w.active_ns, weight: w.copies as f64 })
            .collect()
    }

    /// The coefficients of Eq 2.1 (Strong 2013, Table 2.2).
    ///
    /// # Errors
    /// If the network cannot be solved as a chip of 16; or no wake-up is slower than the fastest
    /// mode, so that there is nothing to fit.
    pub fn fits(&self) -> Result<Fits, PdnError> {
        let network = self.search.network();
        let points = self.points(&self.wakes, usize::MAX);
        let root = square_root_law(network)?;
        let Some(staged) = fit(&points, root, [false, false, true, true, true]) else {
            let message = "every wake-up is safe in the fastest mode: there is nothing to fit";
            return Err(PdnError::at("wake_up.fastest_ns", message));
        };
        let tells_all = network.grid().cores() >= 16;
        let joint = if tells_all { fit(&points, staged.equation, [true; 5]) } else { None };
        let few = self.points(&self.staggered, 3);
        let staggered = fit(&few, staged.equation, [false, true, false, false, false]);
        Ok(Fits { staged, joint, staggered })
    }

    /// Longest shortest-safe wake-up of any set of `count` waking cores, in nanoseconds.
    #[must_use]
    pub fn worst_ns(wakes: &[Wake], count: usize) -> f64 {
        let of_count = wakes.iter().filter(|w| w.waking.count() == count);
        of_count.map(|w| w.active_ns).fold(0.0, f64::max)
    }

    /// Shortest and longest safe wake-up of chips on which no core is idle: each is active or
    /// wakes.
    #[must_use]
    pub fn none_idle_ns(wakes: &[Wake]) -> (f64, f64) {
        let mut range = (f64::INFINITY, 0.0f64);
        for set in wakes.chunk_by(|a, b| a.waking == b.waking) {
            let longest = set.iter().map(|w| w.active_ns).fold(0.0, f64::max);
            range = (range.0.min(longest), range.1.max(longest));
        }
        range
    }

    /// Returns the range of wake-ups with one core active, one waking and the others asleep.
    #[must_use]
    pub fn two_left_ns(wakes: &[Wake]) -> (f64, f64) {
        let pairs = wakes.iter().filter(|w| w.waking.count() == 1);
        pairs.fold((f64::INFINITY, 0.0), |range, w| {
            (range.0.min(w.active_ns), range.1.max(w.active_ns))
        })
    }

    /// Number of waking cores beyond which the worst staggered wake-up no longer grows.
    #[must_use]
    pub fn stops_growing_at(&self) -> usize {
        let cores = self.search.grid().cores();
        let worst: Vec<f64> = (1..cores).map(|n| Study::worst_ns(&self.staggered, n)).collect();
        let flat = |n: &usize| worst[*n..].iter().all(|&later| later <= FLAT * worst[*n]);
        (0..worst.len()).find(flat).map_or(cores, |n| n + 1)
    }

    /// Longest shortest-safe wake-up of two cores, one beside and one diagonal to the critical
    /// core; none where no core has both.
    #[must_use]
    pub fn beside_and_diagonal_ns(&self) -> Option<f64> {
        let pairs = self.wakes.iter().filter(|wake| {
            let at = wake.surroundings;
            (at.w, at.x, at.y) == (1, 1, 0)
        });
        pairs.map(|wake| wake.active_ns).reduce(f64::max)
    }

    /// Different surroundings (`w`, `x`, `y`, `z`) of active cores: entries of a lookup table with
    /// one for each (Strong 2013, Sec 2.3.1).
    #[must_use]
    pub fn lookup_entries(&self) -> usize {
        let mut all: Vec<_> = self.wakes.iter().map(|w| w.surroundings).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Shortest wake-up that is safe for any core while all others wake, each in its slot (Strong
    /// 2013, Sec 2.3.2).
    ///
    /// # Errors
    /// If the limit cannot be kept.
    pub fn slotted_ns(&self) -> Result<f64, PdnError> {
        let slots = &self.search.network().spec().slots;
        let grid = self.search.grid();
        self.all_others_ns(|core| grid.slot(core, slots.count) as f64 * slots.stagger_ns)
    }

    /// Returns the shortest wake-up if a central controller starts each core on its own, in the
    /// order of the slots.
    ///
    /// # Errors
    /// If the limit cannot be kept.
    pub fn central_ns(&self) -> Result<f64, PdnError> {
        let slots = &self.search.network().spec().slots;
        let grid = self.search.grid();
        let mut order: Vec<usize> = (0..grid.cores()).collect();
        order.sort_by_key(|&core| grid.slot(core, slots.count));
        let rank = |core| order.iter().position(|&c| c == core).expect("every core has a rank");
        self.all_others_ns(|core| rank(core) as f64 * slots.stagger_ns)
    }

    fn all_others_ns(&self, start_ns: impl Fn(usize) -> f64) -> Result<f64, PdnError> {
        let grid = self.search.grid();
        let floor_ns = self.search.network().spec().wake_up.fastest_ns;
        let mut longest = 0.0f64;
        for critical in 0..grid.cores() {
            let others = Cores::first(grid.cores()).without(critical);
            let starts: Vec<(usize, f64)> =
                others.iter().map(|core| (core, start_ns(core))).collect();
            let limit = self.search.active_limit();
            let ours = self.search.shortest_ns(critical, &starts, &limit, floor_ns)?;
            longest = longest.max(ours);
        }
        Ok(longest)
    }
}

/// `T0` and `alpha` from one to four cores that wake beside an inner core.
fn square_root_law(network: &Network) -> Result<Equation, PdnError> {
    let mut points = Vec::new();
    for w in 1..=4 {
        let at = super::Surroundings { w, ..Default::default() };
        points.push(Point { at, wake_ns: beside_inner_ns(network, w)?, weight: 1.0 });
    }
    let free = [true, true, false, false, false];
    Ok(fit(&points, GUESS, free).expect("four points").equation)
}

/// Everything that the targets ask of a network: names and values, with units in the names.
/// Coefficients that the sets of a small chip cannot tell are left out.
///
/// # Errors
/// As [`Study::new`] and [`Study::fits`].
pub fn facts(network: &Network) -> Result<Vec<(String, f64)>, PdnError> {
    let spec = network.spec();
    let mut facts: Vec<(String, f64)> = spec.sheet.iter().flat_map(|s| s.facts()).collect();
    let mut add = |name: &str, value: f64| facts.push((name.to_owned(), value));
    let study = Study::new(network)?;
    let cores = network.grid().cores();
    for count in 1..cores {
        let (plain, apart) =
            (Study::worst_ns(&study.wakes, count), Study::worst_ns(&study.staggered, count));
        add(&format!("worst.{count}_ns"), plain);
        add(&format!("stagger.worst.{count}_ns"), apart);
        add(&format!("stagger.cut.{count}_pct"), 100.0 * (1.0 - apart / plain));
    }
    add("stagger.stops_growing_at", study.stops_growing_at() as f64);
    for (prefix, wakes) in [("", &study.wakes), ("stagger.", &study.staggered)] {
        let (none, two) = (Study::none_idle_ns(wakes), Study::two_left_ns(wakes));
        add(&format!("{prefix}none_idle.min_ns"), none.0);
        add(&format!("{prefix}none_idle.max_ns"), none.1);
        add(&format!("{prefix}two_left.min_ns"), two.0);
        add(&format!("{prefix}two_left.max_ns"), two.1);
    }
    let slots = spec.slots.count as f64 * spec.slots.stagger_ns;
    add("slots.wake_up_ns", study.slotted_ns()?);
    add("slots.central_wake_up_ns", study.central_ns()?);
    // A need that is uniform over the slots (Strong 2013, Sec 2.3.2).
    add("slots.loss_mean_ns", slots / 2.0);
    add("slots.loss_sd_ns", slots / 12f64.sqrt());
    if let Some(pair_ns) = study.beside_and_diagonal_ns() {
        add("beside_and_diagonal_ns", pair_ns);
    }
    add("wake_up.fastest_ns", spec.wake_up.fastest_ns);
    add("lookup.entries", study.lookup_entries() as f64);
    // A network whose every wake-up is safe has nothing to fit.
    if let Ok(fits) = study.fits() {
        facts.extend(fits.facts());
    }
    let scaled = sensitivity(network)?;
    let t0s = scaled.iter().filter_map(|row| row.t0_ns);
    facts.push(("sensitivity.t0_max_ns".into(), t0s.clone().fold(0.0, f64::max)));
    facts.push(("sensitivity.t0_min_ns".into(), t0s.fold(f64::INFINITY, f64::min)));
    Ok(facts)
}

impl Fits {
    fn facts(&self) -> Vec<(String, f64)> {
        let mut facts = Vec::new();
        let all =
            [("fit", Some(self.staged)), ("joint", self.joint), ("staggered", self.staggered)];
        for (name, fit) in all {
            let Some(fit) = fit else { continue };
            let Equation { t0_ns, alpha, beta, gamma, delta } = fit.equation;
            let mut add = |what: &str, value: f64| facts.push((format!("{name}.{what}"), value));
            add("t0_ns", t0_ns);
            add("alpha", alpha);
            for (n, (what, value)) in
                [("beta", beta), ("gamma", gamma), ("delta", delta)].into_iter().enumerate()
            {
                if self.staged.told[2 + n] {
                    add(what, value);
                }
            }
            add("error_mean_pct", fit.error_mean_pct);
            add("error_max_pct", fit.error_max_pct);
            add("error_max_ns", fit.error_max_ns);
        }
        facts
    }
}
