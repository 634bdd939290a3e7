//! Ways to share a cache: what static ones set, and what adaptive ones are made of.

use halfwink_policy::segregation::{
    Allocator, AllocatorParameters, BankChoice, BankChoiceParameters, Fixed, LookUp, Replacement,
    Route, Rule, SegregationPolicy, UtilityBased, PUBLISHED_EPOCH_CYCLES,
};

use super::SegregationSweep;

/// The kinds of schemes, by name.
pub(super) const KINDS: [&str; 10] = [
    "lru",
    "bank-partition",
    "bank-choice",
    "way-partition",
    "way-allocator",
    "ucp",
    "drrip",
    "ship",
    "insertion",
    BY_SHARE,
];
/// The points of the grid that Fig 5.7 seems to show, whose axis is that of the way partitions
/// (assumption: a share of `s` of 16 ways is the rank 16 - s). Only if asked for.
pub(super) const BY_SHARE: &str = "insertion-by-share";

/// A way to share the cache.
pub(super) struct Scheme {
    pub(super) name: &'static str,
    /// The rule that a static scheme sets. An adaptive one is confined to its route and look-up.
    pub(super) rule: Rule,
    pub(super) replacement: Replacement,
    pub(super) adaptive: Option<fn(&SegregationSweep, Rule) -> SegregationPolicy>,
}

impl Scheme {
    const fn fixed(name: &'static str, rule: Rule) -> Scheme {
        Scheme { name, rule, replacement: Replacement::Lru, adaptive: None }
    }

    pub(super) fn policy(&self, sweep: &SegregationSweep) -> SegregationPolicy {
        match self.adaptive {
            Some(make) => make(sweep, self.rule),
            None => Box::new(Fixed::new(self.rule)),
        }
    }
}

pub(super) fn schemes(sweep: &SegregationSweep, ways: u8) -> Vec<Scheme> {
    let mut list = vec![Scheme::fixed("lru", Rule::LRU)];
    for look_up in [LookUp::Parallel, LookUp::Serial] {
        let banks = Route::ALL.map(|route| Rule::banks(route, look_up));
        list.extend(banks.map(|rule| Scheme::fixed("bank-partition", rule)));
        list.push(Scheme {
            adaptive: Some(|sweep, rule| {
                let parameters = BankChoiceParameters::published(rule.look_up);
                Box::new(BankChoice::new(parameters.shortened(sweep.epochs_shortened_by)))
            }),
            ..Scheme::fixed("bank-choice", Rule { look_up, ..Rule::LRU })
        });
    }
    for route in Route::ALL {
        let split = |kernel| Scheme::fixed("way-partition", Rule::ways(route, kernel));
        list.extend((1..ways).map(split));
    }
    list.push(Scheme {
        adaptive: Some(|sweep, _| {
            let published = AllocatorParameters::published();
            Box::new(Allocator::new(published.shortened(sweep.epochs_shortened_by)))
        }),
        ..Scheme::fixed("way-allocator", Rule::LRU)
    });
    list.push(Scheme {
        adaptive: Some(|sweep, _| {
            Box::new(UtilityBased::new(PUBLISHED_EPOCH_CYCLES / sweep.epochs_shortened_by.max(1)))
        }),
        ..Scheme::fixed("ucp", Rule::LRU)
    });
    let blind = [("drrip", Replacement::Drrip), ("ship", Replacement::Ship)];
    list.extend(
        blind.map(|(name, replacement)| Scheme { replacement, ..Scheme::fixed(name, Rule::LRU) }),
    );
    // All pairs, also those of equal rank: they are one stack with another place of insertion,
    // which tells what segregation adds to that.
    let ranks = (0..ways).flat_map(|user| (0..ways).map(move |kernel| (user, kernel)));
    list.extend(ranks.map(|(u, k)| Scheme::fixed("insertion", Rule::insertion(u, k))));
    let shares = (1..ways).map(|kernel| Rule::insertion(kernel, ways - kernel));
    list.extend(shares.map(|rule| Scheme::fixed(BY_SHARE, rule)));
    let asked = |name: &str| sweep.only.is_empty() || sweep.only.iter().any(|kind| kind == name);
    let by_share = sweep.only.iter().any(|kind| kind == BY_SHARE);
    list.retain(|scheme| match scheme.name {
        "lru" => true,
        // Not among "all kinds": its points lie on the grid of `insertion`, and would be counted
        // twice.
        BY_SHARE => by_share,
        name => asked(name),
    });
    list
}
