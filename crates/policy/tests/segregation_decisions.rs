//! Snapshots of what segregation policies decide, against caches whose misses are a formula.

use halfwink_policy::segregation::{
    best_split, Action, Allocator, AllocatorParameters, BankChoice, BankChoiceParameters, Event,
    Fixed, LookUp, Route, Rule, Sample, Segregation, Span, Split, Utility, UtilityBased,
};
use halfwink_policy::Policy;
use halfwink_units::Time;
use proptest::prelude::*;

/// Samples of a program of 1 instruction a cycle, a third of them the kernel's, whose misses in a
/// thousand instructions are `misses(rule)`; each change of what was asked for.
fn play(policy: &mut dyn Segregation, samples: usize, misses: impl Fn(Rule) -> u64) -> String {
    let mut rule = Rule::LRU;
    let mut asked = String::new();
    let mut event = Event::Begin { ways: 16 };
    let mut total = 0;
    let mut last = None;
    for _ in 0..=samples {
        policy.on_event(Time::ZERO, &event);
        let mut span = None;
        while let Some(action) = policy.poll_action() {
            match action {
                Action::Set(set) => rule = set,
                Action::SampleAfter(after) => span = Some(after),
            }
        }
        if last.replace(rule) != Some(rule) {
            asked += &format!("{:>5} {:?} {:?}\n", total, rule.split, rule.route);
        }
        let (Span::Instructions(length) | Span::Cycles(length)) = match span {
            Some(span) => span,
            None => break,
        };
        total += length;
        event = Event::Sample(Sample {
            instructions: [length - length / 3, length / 3],
            accesses: [length / 10, length / 20],
            misses: [misses(rule) * length / 1000, 0],
            cycles: length,
            utility: None,
        });
    }
    asked
}

fn ways(split: Split) -> u64 {
    split.kernel_ways().map_or(0, u64::from)
}

#[test]
fn the_allocator_starts_around_the_share_and_walks_to_the_best_split() {
    // A third of 16 ways is 5; 8 are best.
    let mut policy = Allocator::new(AllocatorParameters::published().shortened(5000));
    let seen = play(&mut policy, 16, |rule| match rule.split {
        Split::None => 50,
        split => 20 + 3 * ways(split).abs_diff(8),
    });
    insta::assert_snapshot!(seen, @r"
        0 None Both
     1000 Ways(3) Both
     2000 Ways(4) Both
     3000 Ways(5) Both
     4000 Ways(6) Both
     5000 Ways(7) Both
    11000 Ways(6) Both
    12000 Ways(8) Both
    18000 Ways(7) Both
    19000 Ways(9) Both
    20000 Ways(8) Both
    30000 Ways(7) Both
    31000 Ways(9) Both
    32000 Ways(8) Both
    52000 Ways(7) Both
    ");
}

#[test]
fn the_allocator_gives_up_where_no_split_is_better() {
    let mut policy = Allocator::new(AllocatorParameters::published().shortened(5000));
    let seen = play(&mut policy, 16, |rule| 20 + ways(rule.split));
    insta::assert_snapshot!(seen, @r"
       0 None Both
    1000 Ways(3) Both
    2000 Ways(4) Both
    3000 Ways(5) Both
    4000 Ways(6) Both
    5000 Ways(7) Both
    6000 None Both
    ");
}

#[test]
fn banks_keep_to_the_route_that_missed_least() {
    let mut policy =
        BankChoice::new(BankChoiceParameters::published(LookUp::Serial).shortened(1000));
    let seen = play(&mut policy, 40, |rule| match rule.route {
        Route::Data => 30,
        Route::Instructions => 10,
        Route::Both => 20,
    });
    insta::assert_snapshot!(seen, @r"
        0 Banks Data
    10000 Banks Instructions
    20000 Banks Both
    30000 Banks Instructions
    ");
}

#[test]
fn banks_are_interleaved_while_the_kernel_runs_little() {
    let parameters = BankChoiceParameters::published(LookUp::Parallel).shortened(1000);
    let mut policy =
        BankChoice::new(BankChoiceParameters { route: Some(Route::Both), ..parameters });
    let mut told = |kernel: u64| {
        let sample = Sample { instructions: [1000 - kernel, kernel], ..Sample::default() };
        policy.on_event(Time::ZERO, &Event::Sample(sample));
        std::iter::from_fn(|| policy.poll_action()).find_map(|action| match action {
            Action::Set(rule) => Some(rule.split),
            Action::SampleAfter(_) => None,
        })
    };
    assert_eq!(told(200), None);
    assert_eq!(told(99), Some(Split::None));
    assert_eq!(told(50), None);
    assert_eq!(told(100), Some(Split::Banks));
}

#[test]
fn a_fixed_rule_is_set_once() {
    let mut policy = Fixed::new(Rule::ways(Route::Data, 3));
    policy.on_event(Time::ZERO, &Event::Begin { ways: 16 });
    let set = Rule { route: Route::Data, split: Split::Ways(3), ..Rule::LRU };
    assert_eq!(policy.poll_action(), Some(Action::Set(set)));
    assert_eq!(policy.poll_action(), None);
}

#[test]
fn utility_gives_ways_to_who_hits_in_them() {
    let mut utility = Utility::default();
    // The kernel hits in its first three lines, the user in its first twelve.
    utility.hits[1][..3].fill(10);
    utility.hits[0][..12].fill(5);
    assert_eq!(best_split(&utility, 16), 4, "of 3 and 4, the more even");
    let mut policy = UtilityBased::new(1000);
    policy.on_event(Time::ZERO, &Event::Begin { ways: 16 });
    let sample = Sample { utility: Some(Box::new(utility)), ..Sample::default() };
    policy.on_event(Time::ZERO, &Event::Sample(sample));
    let last = std::iter::from_fn(|| policy.poll_action()).next();
    assert_eq!(last, Some(Action::Set(Rule::ways(Route::Both, 4))));
}

proptest! {
    /// Whatever the counters say, no side is left without a way.
    #[test]
    fn splits_leave_ways_to_both(
        ways in 2u8..=32,
        samples in prop::collection::vec((0u64..1000, 0u64..1000, 0u64..1000), 0..60),
    ) {
        let shortened = AllocatorParameters::published().shortened(5000);
        let mut policies: [Box<dyn Segregation>; 2] =
            [Box::new(Allocator::new(shortened)), Box::new(UtilityBased::new(1000))];
        for policy in &mut policies {
            let begin = std::iter::once(Event::Begin { ways });
            let events = samples.iter().map(|&(user, kernel, misses)| {
                let mut utility = Utility::default();
                utility.hits[(misses % 2) as usize][(user % u64::from(ways)) as usize] = misses;
                Event::Sample(Sample {
                    instructions: [user, kernel],
                    misses: [misses, 0],
                    utility: Some(Box::new(utility)),
                    ..Sample::default()
                })
            });
            for event in begin.chain(events) {
                policy.on_event(Time::ZERO, &event);
                while let Some(action) = policy.poll_action() {
                    if let Action::Set(Rule { split: Split::Ways(kernel), .. }) = action {
                        prop_assert!((1..ways).contains(&kernel), "{kernel} of {ways}");
                    }
                }
            }
        }
    }
}
