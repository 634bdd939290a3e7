use super::*;
use proptest::prelude::*;

#[test]
fn order_is_time_then_class_then_sequence() {
    let mut queue = EventQueue::new();
    queue.push(Time(5), Class(1), "later class");
    queue.push(Time(5), Class(0), "first of its class");
    queue.push(Time(5), Class(0), "second of its class");
    queue.push(Time(4), Class(9), "earlier time");
    assert_eq!((queue.next_time(), queue.first()), (Some(Time(4)), Some(&"earlier time")));
    let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
    assert_eq!(order, ["earlier time", "first of its class", "second of its class", "later class"]);
    assert!(queue.is_empty() && queue.next_time().is_none() && queue.first().is_none());
}

/// What a queue must do, done by sorting.
#[derive(Default)]
struct Sorted {
    /// The first is the last.
    events: Vec<(u64, u8, u64)>,
    sequence: u64,
}

impl Sorted {
    fn push(&mut self, at: u64, class: u8) {
        let key = (at, class, self.sequence);
        self.sequence += 1;
        let place = self.events.partition_point(|k| *k > key);
        self.events.insert(place, key);
    }
}

/// How far ahead of the last event new ones are.
#[derive(Clone, Copy, Debug)]
enum Ahead {
    Same,
    Near,
    /// Ever further: 2^0 to 2^60.
    Any,
    /// Most near, some far, as of requests and their time limits.
    Both,
    /// Before what was taken last.
    Back,
}

/// Plays phases (how many events, how far ahead) that fill a queue and empty it again to this many
/// percent, with every event taken compared.
fn compare(phases: &[(usize, Ahead, u8)], mut random: u64, first_sequence: u64) {
    let mut draw = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 16
    };
    let (mut queue, mut sorted, mut now) = (EventQueue::new(), Sorted::default(), 1 << 50);
    queue.sequence = first_sequence;
    for &(count, ahead, left) in phases {
        let rest = count * usize::from(left) / 100;
        // Filled, held at that, emptied.
        for turn in 0..3 * count {
            let pushes = turn < count || turn < 2 * count && turn % 2 == 0;
            if pushes {
                let far = match ahead {
                    Ahead::Same => 0,
                    Ahead::Near => draw() % 1000,
                    Ahead::Any => 1 << (draw() % 60),
                    Ahead::Both if draw() % 10 == 0 => 1_000_000 + draw() % 1_000_000,
                    Ahead::Both => draw() % 100,
                    Ahead::Back => draw() % 1000,
                };
                let at = if matches!(ahead, Ahead::Back) { now - far } else { now + far };
                let class = (draw() % 3) as u8;
                queue.push(Time(at), Class(class), sorted.sequence);
                sorted.push(at, class);
            } else if queue.len() > rest {
                let expected = sorted.events.pop();
                assert_eq!(queue.next_time(), expected.map(|k| Time(k.0)));
                assert_eq!(queue.pop(), expected.map(|k| (Time(k.0), k.2)));
                now = now.max(expected.map_or(0, |k| k.0)).min(1 << 62);
            }
            assert_eq!(queue.len(), sorted.events.len());
        }
    }
    while let Some(expected) = sorted.events.pop() {
        assert_eq!(queue.pop(), Some((Time(expected.0), expected.2)));
    }
    assert_eq!(queue.pop(), None);
}

fn phase() -> impl Strategy<Value = (usize, Ahead, u8)> {
    use Ahead::{Any, Back, Both, Near, Same};
    let ahead = prop::sample::select(vec![Same, Near, Any, Both, Back]);
    (1..1500_usize, ahead, 0..=100_u8)
}

proptest! {
    #[test]
    fn order_is_that_of_a_stable_sort(events: Vec<(u8, u8)>) {
        let mut queue = EventQueue::new();
        for (n, &(at, class)) in events.iter().enumerate() {
            queue.push(Time(at.into()), Class(class), n);
        }
        let mut expected: Vec<_> = events.iter().copied().enumerate().collect();
        expected.sort_by_key(|&(_, key)| key);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
        prop_assert_eq!(popped, expected.into_iter().map(|(n, _)| n).collect::<Vec<_>>());
    }

    #[test]
    fn few_or_many_near_or_far_events_come_in_order(
        phases in prop::collection::vec(phase(), 1..5),
        random: u64,
    ) {
        compare(&phases, random, 0);
    }

    #[test]
    fn sequence_numbers_that_end_begin_anew_in_order(
        phases in prop::collection::vec(phase(), 1..3),
        random: u64,
        left in 0..3000_u64,
    ) {
        compare(&phases, random, (1 << SEQUENCE_BITS) - left);
    }
}

#[test]
fn ten_thousand_events_are_on_the_wheel_and_a_hundred_are_not() {
    let mut queue = EventQueue::new();
    for n in 0..10_000 {
        queue.push(Time(n * 7919 % 100_003), Class(0), n);
    }
    assert!(!queue.wheel.is_none() && queue.near.len() < 100, "{} near", queue.near.len());
    while queue.len() > 20 {
        queue.pop();
    }
    assert!(queue.wheel.is_none(), "{} near, fitted {}", queue.near.len(), queue.fitted);
}

/// The property above finds this once in some thousand cases: all of many events are of one bucket,
/// so the wheel is empty and still there when the last of them is taken.
#[test]
fn what_comes_before_the_only_event_is_taken_before_it() {
    let mut queue = EventQueue::new();
    (0..1000).for_each(|n| queue.push(Time(1_000_000), Class(0), n));
    while queue.pop().is_some() {}
    assert!(!queue.wheel.is_none());
    queue.push(Time(9_000_000), Class(0), 9);
    queue.push(Time(8_000_000), Class(0), 8);
    let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
    assert_eq!(order, [8, 9]);
}

#[test]
fn the_ends_of_time_have_their_place() {
    let times = [u64::MAX, 0, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
    for copies in [1, 200] {
        let mut queue = EventQueue::new();
        for at in times.iter().cycle().take(times.len() * copies) {
            queue.push(Time(*at), Class(255), ());
        }
        let mut sorted: Vec<u64> = times.iter().copied().cycle().take(5 * copies).collect();
        sorted.sort_unstable();
        let popped: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(at, ())| at.0).collect();
        assert_eq!(popped, sorted);
    }
}
