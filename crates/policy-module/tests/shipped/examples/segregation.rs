//! The shipped segregation policies as a module: those without monitors, with their usual
//! parameters and some others.

use halfwink_policy::record::Fields;
use halfwink_policy::segregation::{
    Allocator, AllocatorParameters, BankChoice, BankChoiceParameters, Fixed, LookUp, Route, Rule,
    SegregationPolicy,
};

shipped::exports!("segregation", 6, SegregationPolicy, policy_of);

/// Epochs are this much shorter than published, as in the list of techniques.
const EPOCHS_SHORTENED_BY: u64 = 50;

fn policy_of(number: u32, start: &Fields) -> SegregationPolicy {
    let ways = start[0] as u8;
    let banks = |look_up| {
        let published = BankChoiceParameters::published(look_up);
        Box::new(BankChoice::new(published.shortened(EPOCHS_SHORTENED_BY))) as SegregationPolicy
    };
    match number {
        0 => Box::new(Fixed::new(Rule::LRU)),
        1 => banks(LookUp::Parallel),
        2 => banks(LookUp::Serial),
        3 => {
            let published = AllocatorParameters::published();
            Box::new(Allocator::new(published.shortened(EPOCHS_SHORTENED_BY)))
        }
        4 => Box::new(Fixed::new(Rule::ways(Route::Data, 3))),
        5 => Box::new(Fixed::new(Rule::insertion(0, ways / 2))),
        _ => Box::new(Fixed::new(Rule::insertion(1, 3))),
    }
}
