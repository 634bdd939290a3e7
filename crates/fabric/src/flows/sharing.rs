//! Who gets how much of what is shared: max-min fair rates by progressive filling (Bertsekas and
//! Gallager, Data Networks, Sec 6.5.2).
//!
//! The tightest thing is the first of a heap of shares, which only grow: a thing whose share has
//! grown goes back when it is first. What rates cost grows with what flows need, and not with
//! things by bottlenecks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most things that one flow needs at a time: a server's port at either end, circuits between.
pub(super) const MOST_NEEDED: usize = 14;

/// Resources that a flow needs, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    items: [u32; MOST_NEEDED],
    count: u8,
}

impl Needs {
    /// Adds one; false if there is no room for it.
    pub(super) fn push(&mut self, item: u32) -> bool {
        let Some(free) = self.items.get_mut(usize::from(self.count)) else { return false };
        *free = item;
        self.count += 1;
        true
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.items[..usize::from(self.count)]
    }
}

/// Shares things among flows. Keeps its memory from one time to the next.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Capacity left of each resource, and the number of flows without a rate that need it.
    left: Vec<f64>,
    users: Vec<u32>,
    /// Resources in use and their flows, in one flat list: the flows of the resource at a place are
    /// those from its begin to the next one's. `places` gives the place of each resource.
    touched: Vec<u32>,
    begins: Vec<u32>,
    next: Vec<u32>,
    who: Vec<u32>,
    places: Vec<u32>,
    /// Shares of things that have users, the least first, then that of the thing that was touched
    /// first. Shares grow as flows get their rates, but for rounding: what stands here may be less
    /// than a thing's share, never more. What is first and less is put back.
    tightest: BinaryHeap<Reverse<(u64, u32)>>,
    /// A share of each thing that stands there, and is not more than its share now.
    entered: Vec<u64>,
    /// Resources that changed since the last bottleneck.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl Sharing {
    /// Creates the state for this number of resources.
    pub(super) fn new(things: usize) -> Sharing {
        Sharing {
            left: vec![0.0; things],
            users: vec![0; things],
            places: vec![0; things],
            is_changed: vec![false; things],
            entered: vec![0; things],
            ..Sharing::default()
        }
    }

    /// Rates of flows by what they need and what there is of it: no flow can have more without
    /// another that has no more than it having less.
    pub(super) fn rates(&mut self, capacity: &[f64], needs: &[Needs], rates: &mut Vec<f64>) {
        self.index(capacity, needs);
        rates.clear();
        // NaN says that a flow has no rate yet; 0 is a rate, of a link that is down.
        rates.resize(needs.len(), f64::NAN);
        self.fill_heap();
        let mut open = needs.len();
        while let (true, Some(Reverse((bits, place)))) = (open > 0, self.tightest.pop()) {
            let tight = self.touched[place as usize];
            if self.users[tight as usize] == 0 {
                continue;
            }
            // Entries are not updated in place: one that is behind is put back with its share of
            // now.
            let share = self.share(tight);
            if share != bits {
                self.entered[tight as usize] = share;
                self.tightest.push(Reverse((share, place)));
                continue;
            }
            let rate = f64::from_bits(bits);
            let (begin, end) = (self.begins[place as usize], self.begins[place as usize + 1]);
            for n in begin as usize..end as usize {
                let flow = self.who[n] as usize;
                if !rates[flow].is_nan() {
                    continue;
                }
                rates[flow] = rate;
                open -= 1;
                for &thing in needs[flow].as_slice() {
                    let thing = thing as usize;
                    debug_assert!(self.users[thing] > 0, "a flow gets its rate once");
                    self.left[thing] -= rate;
                    self.users[thing] -= 1;
                    if !std::mem::replace(&mut self.is_changed[thing], true) {
                        self.changed.push(thing as u32);
                    }
                }
            }
            self.put_changed();
        }
        debug_assert_eq!(open, 0, "a flow needs nothing");
    }

    /// Returns the fair share of a resource's remaining capacity, as bits: for numbers that are not
    /// negative the bits have the same order.
    fn share(&self, thing: u32) -> u64 {
        let (left, users) = (self.left[thing as usize], self.users[thing as usize]);
        // Never minus nothing, whose bits are those of a large number.
        (left.max(0.0) / f64::from(users) + 0.0).to_bits()
    }

    fn fill_heap(&mut self) {
        let mut entries = std::mem::take(&mut self.tightest).into_vec();
        entries.clear();
        for (&thing, place) in self.touched.iter().zip(0..) {
            let share = self.share(thing);
            self.entered[thing as usize] = share;
            entries.push(Reverse((share, place)));
        }
        self.tightest = BinaryHeap::from(entries);
    }

    fn put_changed(&mut self) {
        for n in 0..self.changed.len() {
            let thing = self.changed[n];
            self.is_changed[thing as usize] = false;
            if self.users[thing as usize] > 0 {
                let share = self.share(thing);
                if share < self.entered[thing as usize] {
                    self.entered[thing as usize] = share;
                    self.tightest.push(Reverse((share, self.places[thing as usize])));
                }
            }
        }
        self.changed.clear();
    }

    /// Finds who needs what. A thing is touched when a flow is the first that needs it.
    fn index(&mut self, capacity: &[f64], needs: &[Needs]) {
        self.touched.clear();
        for &thing in needs.iter().flat_map(Needs::as_slice) {
            let n = thing as usize;
            if self.users[n] == 0 {
                self.places[n] = self.touched.len() as u32;
                self.touched.push(thing);
                self.left[n] = capacity[n];
            }
            self.users[n] += 1;
        }
        // Where the flows of each thing begin; until all are there, where its next one goes.
        let mut sum = 0;
        self.begins.clear();
        for &thing in &self.touched {
            self.begins.push(sum);
            sum += self.users[thing as usize];
        }
        self.next.clone_from(&self.begins);
        self.begins.push(sum);
        self.who.clear();
        self.who.resize(sum as usize, 0);
        for (needs, flow) in needs.iter().zip(0..) {
            for &thing in needs.as_slice() {
                let next = &mut self.next[self.places[thing as usize] as usize];
                self.who[*next as usize] = flow;
                *next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(things: &[u32]) -> Needs {
        let mut needs = Needs::default();
        assert!(things.iter().all(|&n| needs.push(n)));
        needs
    }

    fn rates(capacity: &[f64], flows: &[&[u32]]) -> Vec<f64> {
        let flows: Vec<Needs> = flows.iter().map(|things| needs(things)).collect();
        let (mut sharing, mut rates) = (Sharing::new(capacity.len()), vec![]);
        sharing.rates(capacity, &flows, &mut rates);
        let again = rates.clone();
        sharing.rates(capacity, &flows, &mut rates);
        assert_eq!(again, rates, "memory of the time before shows");
        rates
    }

    #[test]
    fn the_text_books_example() {
        // Fig 6.12 of the source: three flows on the first link, one on both, one on the second.
        assert_eq!(rates(&[1.0, 1.0], &[&[0], &[0], &[0, 1], &[1]]).len(), 4);
        let third = 1.0 / 3.0;
        assert_eq!(
            rates(&[1.0, 1.0], &[&[0], &[0], &[0, 1], &[1]]),
            [third, third, third, 1.0 - third]
        );
        assert_eq!(rates(&[4.0], &[&[0], &[0]]), [2.0, 2.0]);
        assert_eq!(rates(&[4.0], &[]), []);
    }

    #[test]
    fn paths_have_an_end() {
        let mut needs = Needs::default();
        assert!((0..MOST_NEEDED as u32).all(|n| needs.push(n)));
        assert!(!needs.push(99));
    }

    /// Reference implementation by the definition: searches all resources for the tightest, again
    /// for each bottleneck.
    fn by_looking_at_all(capacity: &[f64], flows: &[&[u32]]) -> Vec<f64> {
        let (mut left, mut rates) = (capacity.to_vec(), vec![f64::NAN; flows.len()]);
        let mut touched: Vec<u32> = vec![];
        for &thing in flows.iter().copied().flatten() {
            if !touched.contains(&thing) {
                touched.push(thing);
            }
        }
        while rates.iter().any(|rate| rate.is_nan()) {
            let users = |thing: u32, rates: &[f64]| {
                let open = flows.iter().zip(rates).filter(|(_, rate)| rate.is_nan());
                open.filter(|(flow, _)| flow.contains(&thing)).count()
            };
            let share = |thing: u32| left[thing as usize].max(0.0) / users(thing, &rates) as f64;
            let used = touched.iter().copied().filter(|&thing| users(thing, &rates) > 0);
            let tight = used.min_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap();
            let rate = share(tight);
            for (flow, own) in flows.iter().zip(&mut rates) {
                if own.is_nan() && flow.contains(&tight) {
                    *own = rate;
                    flow.iter().for_each(|&thing| left[thing as usize] -= rate);
                }
            }
        }
        rates
    }

    #[test]
    fn a_share_that_falls_by_rounding_is_found() {
        // Found by the property below with nothing put back where a share falls.
        let capacity = [0.3, 0.3, 0.3, 0.3, 0.0, 0.3];
        #[rustfmt::skip]
        let flows: [&[u32]; 16] = [
            &[3], &[5], &[0], &[3], &[5], &[0, 5], &[0, 3], &[3, 5],
            &[0, 3], &[5], &[5], &[0], &[0, 3], &[5], &[3], &[0],
        ];
        assert_eq!(rates(&capacity, &flows), by_looking_at_all(&capacity, &flows));
    }

    proptest! {
        /// Checks that the heap gives the reference's rates to the bit, ties included, so that runs
        /// stay the same.
        #[test]
        fn a_heap_finds_what_looking_at_all_finds(
            capacity in prop::collection::vec(
                prop::sample::select(vec![0.0, 0.3, 1.0, 1.0, 7.7]), 6,
            ),
            flows in prop::collection::vec(prop::collection::btree_set(0_u32..6, 1..4), 1..30),
        ) {
            let flows: Vec<Vec<u32>> =
                flows.into_iter().map(|set| set.into_iter().collect()).collect();
            let lines: Vec<&[u32]> = flows.iter().map(Vec::as_slice).collect();
            let bits = |rates: Vec<f64>| -> Vec<u64> {
                rates.into_iter().map(|rate| (rate + 0.0).to_bits()).collect()
            };
            prop_assert_eq!(
                bits(rates(&capacity, &lines)),
                bits(by_looking_at_all(&capacity, &lines))
            );
        }

        /// Checks the definition of max-min fairness: no resource is overcommitted, and each flow
        /// has a saturated resource on which no flow gets more.
        #[test]
        fn every_flow_has_a_bottleneck(
            capacity in prop::collection::vec(0.1..9.0, 6),
            flows in prop::collection::vec(prop::collection::btree_set(0_u32..6, 1..4), 1..20),
        ) {
            let flows: Vec<Vec<u32>> =
                flows.into_iter().map(|set| set.into_iter().collect()).collect();
            let lines: Vec<&[u32]> = flows.iter().map(Vec::as_slice).collect();
            let rates = rates(&capacity, &lines);
            let used = |thing: u32| -> f64 {
                let users = flows.iter().zip(&rates).filter(|(needs, _)| needs.contains(&thing));
                users.map(|(_, rate)| rate).sum()
            };
            for thing in 0..6 {
                prop_assert!(used(thing) <= capacity[thing as usize] + 1e-9);
            }
            for (needs, rate) in flows.iter().zip(&rates) {
                let is_tight = |&&thing: &&u32| {
                    let others =
                        flows.iter().zip(&rates).filter(|(needs, _)| needs.contains(&thing));
                    used(thing) >= capacity[thing as usize] - 1e-9
                        && others.into_iter().all(|(_, other)| *other <= rate + 1e-9)
                };
                prop_assert!(needs.iter().find(is_tight).is_some());
            }
        }
    }
}
