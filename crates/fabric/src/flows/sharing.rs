//! Who gets how much of what is shared: max-min fair rates by progressive filling (Bertsekas and
//! Gallager, Data Networks, Sec 6.5.2).

/// Most things that one flow needs at a time: a server's port at either end, circuits between.
pub(super) const MOST_NEEDED: usize = 14;

/// What a flow needs, by number.
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
    /// What is left of each thing, and how many flows without a rate need it.
    left: Vec<f64>,
    users: Vec<u32>,
    /// Things that anybody needs, and who, all in one: those of thing `n` from `begins[n]` on.
    touched: Vec<u32>,
    begins: Vec<u32>,
    who: Vec<u32>,
}

impl Sharing {
    /// For so many things.
    pub(super) fn new(things: usize) -> Sharing {
        Sharing {
            left: vec![0.0; things],
            users: vec![0; things],
            begins: vec![0; things],
            ..Sharing::default()
        }
    }

    /// Rates of flows by what they need and what there is of it: no flow can have more without
    /// another that has no more than it having less.
    pub(super) fn rates(&mut self, capacity: &[f64], needs: &[Needs], rates: &mut Vec<f64>) {
        self.index(capacity, needs);
        rates.clear();
        rates.resize(needs.len(), f64::NAN);
        let mut open = needs.len();
        while open > 0 {
            let share =
                |&&n: &&u32| self.left[n as usize].max(0.0) / f64::from(self.users[n as usize]);
            let least = self.touched.iter().min_by(|a, b| share(a).total_cmp(&share(b)));
            let Some(&tight) = least else { break };
            let rate = share(&&tight);
            let (begin, count) = (self.begins[tight as usize] as usize, self.who_needs(tight));
            for n in begin..begin + count {
                let flow = self.who[n] as usize;
                if !rates[flow].is_nan() {
                    continue;
                }
                rates[flow] = rate;
                open -= 1;
                for &thing in needs[flow].as_slice() {
                    self.left[thing as usize] -= rate;
                    self.users[thing as usize] -= 1;
                }
            }
            let users = &self.users;
            self.touched.retain(|&n| users[n as usize] > 0);
        }
        debug_assert_eq!(open, 0, "a flow needs nothing");
    }

    /// How many flows needed a thing at first: up to where those of the next begin.
    fn who_needs(&self, thing: u32) -> usize {
        let begin = self.begins[thing as usize] as usize;
        self.who[begin..].iter().position(|&n| n == u32::MAX).unwrap_or(self.who.len() - begin)
    }

    fn index(&mut self, capacity: &[f64], needs: &[Needs]) {
        self.touched.clear();
        for &thing in needs.iter().flat_map(Needs::as_slice) {
            let n = thing as usize;
            if self.users[n] == 0 {
                self.touched.push(thing);
                self.left[n] = capacity[n];
            }
            self.users[n] += 1;
        }
        // Each thing has a place for all who need it, and one for the end.
        let mut next = 0;
        for &thing in &self.touched {
            self.begins[thing as usize] = next;
            next += self.users[thing as usize] + 1;
        }
        self.who.clear();
        self.who.resize(next as usize, u32::MAX);
        let mut filled = std::mem::take(&mut self.users);
        for &thing in &self.touched {
            filled[thing as usize] = 0;
        }
        for (flow, thing) in needs
            .iter()
            .enumerate()
            .flat_map(|(n, need)| need.as_slice().iter().map(move |&t| (n, t)))
        {
            let n = thing as usize;
            self.who[(self.begins[n] + filled[n]) as usize] = flow as u32;
            filled[n] += 1;
        }
        self.users = filled;
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

    proptest! {
        /// What defines max-min: nothing is given twice, and each flow has a thing that is used up
        /// and of which nobody has more than it.
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
