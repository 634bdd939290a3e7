use std::collections::HashSet;

use super::kept::{Disk, LEAST_BLOCK, LOOK, MOST_BLOCK, RETRY};
use super::*;
use halfwink_dataplane::DropReason;
use proptest::prelude::*;

const MOST: u64 = u32::MAX as u64;

/// How the next writes of a disk go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Health {
    Well,
    /// It is full: what was there is there.
    Full,
    /// It fails, but what was written is there.
    Late,
}

/// A disk that outlives its router.
#[derive(Clone, Debug)]
struct Fake(Arc<Mutex<(NumberRecord, Health, u64)>>);

impl Fake {
    fn new(direction: Direction) -> Fake {
        let id = AssociationId::new(direction, 256, &key(1));
        let record = NumberRecord { direction, id, iv_base: u64::MAX - 1000, reserved: 0 };
        Fake(Arc::new(Mutex::new((record, Health::Well, 0))))
    }

    fn start(&self) -> Result<Kept, String> {
        self.start_with(Box::new(|| ()))
    }

    fn start_with(&self, bell: Bell) -> Result<Kept, String> {
        let record = locked(&self.0).0;
        Kept::begin((256, false), record, bell, Box::new(self.clone()), Duration::ZERO)
    }

    fn set(&self, health: Health) {
        locked(&self.0).1 = health;
    }

    fn reserved(&self) -> u64 {
        locked(&self.0).0.reserved
    }

    fn writes(&self) -> u64 {
        locked(&self.0).2
    }
}

impl Disk for Fake {
    fn write(&mut self, record: &NumberRecord) -> Result<(), String> {
        let mut disk = locked(&self.0);
        disk.2 += 1;
        if disk.1 != Health::Full {
            disk.0 = *record;
        }
        if disk.1 == Health::Well {
            return Ok(());
        }
        Err("/somewhere: No space left on device".to_owned())
    }
}

fn key(byte: u8) -> AeadKey {
    AeadKey::new(&[byte; 20]).unwrap()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_crash_loses_numbers_and_repeats_none() {
    let disk = Fake::new(Direction::Outbound);
    let kept = disk.start().unwrap();
    assert_eq!(disk.reserved(), MOST_BLOCK, "on the disk before the first is used");
    assert_eq!([1, 2, 3].map(|_| kept.numbers.take(MOST)), [Ok(1), Ok(2), Ok(3)]);
    // Between the reservation and the use of what it reserves.
    drop(kept);
    let again = disk.start().unwrap();
    assert_eq!(again.numbers.take(MOST), Ok(MOST_BLOCK + 1));
    drop(again);
    // A start that never sent anything costs a block as well.
    drop(disk.start().unwrap());
    assert_eq!(disk.start().unwrap().numbers.take(MOST), Ok(3 * MOST_BLOCK + 1));
}

#[test]
fn an_end_in_good_order_loses_none() {
    let disk = Fake::new(Direction::Outbound);
    let mut kept = disk.start().unwrap();
    let packets_under_way = kept.numbers.clone();
    assert_eq!(kept.numbers.take(MOST), Ok(1));
    kept.end().unwrap();
    assert_eq!(disk.reserved(), 1);
    assert!(packets_under_way.take(MOST).is_err());
    assert!(kept.care(seconds(100)).is_none() && disk.reserved() == 1);
    assert_eq!(disk.start().unwrap().numbers.take(MOST), Ok(2));
}

#[test]
fn a_full_disk_stops_the_association_and_room_on_it_lets_it_go_on() {
    let disk = Fake::new(Direction::Outbound);
    let mut kept = disk.start().unwrap();
    disk.set(Health::Full);
    let mut taken = 0;
    while kept.numbers.take(MOST).is_ok() {
        taken += 1;
        if taken == MOST_BLOCK * 3 / 4 {
            assert_eq!(kept.care(seconds(1)), Some(seconds(1) + RETRY));
            assert!(kept.news.remove(0).contains("/somewhere: No space left on device: SPI 0x100"));
        }
    }
    assert_eq!(taken, MOST_BLOCK, "as far as the record goes, and no further");
    assert_eq!(kept.numbers.take(MOST), Err(DropReason::EspUnreserved));
    let writes = disk.writes();
    assert_eq!(kept.care(seconds(1)), Some(seconds(1) + RETRY));
    assert_eq!(disk.writes(), writes, "once a second is enough");
    assert!(kept.problem().is_some());
    disk.set(Health::Well);
    assert_eq!(kept.care(seconds(1) + RETRY), None);
    assert_eq!(kept.numbers.take(MOST), Ok(MOST_BLOCK + 1));
    assert_eq!(kept.problem(), None);
    disk.set(Health::Full);
    assert!(disk.start().is_err(), "nor does it begin on a full disk");
}

#[test]
fn last_sequence_number_is_announced_then_refused() {
    let disk = Fake::new(Direction::Outbound);
    locked(&disk.0).0.reserved = MOST - 2;
    let mut kept = disk.start().unwrap();
    assert!(kept.news.remove(0).contains("give both ends a new key"));
    assert_eq!([0; 2].map(|_| kept.numbers.take(MOST)), [Ok(MOST - 1), Ok(MOST)]);
    assert_eq!(kept.numbers.take(MOST), Err(DropReason::EspExhausted));
    assert_eq!(kept.care(seconds(1)), None);
    drop(kept);
    let kept = disk.start().unwrap();
    assert_eq!(kept.numbers.take(MOST), Err(DropReason::EspExhausted), "nor after a restart");
}

#[test]
fn what_came_before_a_crash_is_refused_after_it() {
    let disk = Fake::new(Direction::Inbound);
    let kept = disk.start().unwrap();
    let before: Vec<u64> = (1..=100).filter(|n| kept.numbers.accept(*n).is_ok()).collect();
    assert_eq!(before.len(), 100);
    drop(kept);
    let kept = disk.start().unwrap();
    for number in before {
        assert_eq!(kept.numbers.accept(number), Err(DropReason::EspReplay), "{number}");
    }
    // What is lost: the peer's packets until they pass the record.
    assert_eq!(kept.numbers.accept(LEAST_BLOCK), Err(DropReason::EspReplay));
    assert_eq!(kept.numbers.accept(LEAST_BLOCK + 1), Ok(()));
}

#[test]
fn blocks_of_a_receiver_follow_the_pace() {
    let disk = Fake::new(Direction::Inbound);
    let mut kept = disk.start().unwrap();
    let mut number = 0;
    let mut next = None;
    let mut step = |kept: &mut Kept, at: Duration, count: u64| {
        for _ in 0..count {
            number += 1;
            assert_eq!(kept.numbers.accept(number), Ok(()), "{number} at {at:?}");
        }
        next = kept.care(at);
        (disk.reserved() - number, next)
    };
    // Few: a block is the least, and there is nothing to wake up for.
    assert_eq!(step(&mut kept, seconds(10), 40), (LEAST_BLOCK, None));
    // Many at once: more each time, up to the most.
    let ahead: Vec<u64> =
        (1..8).map(|n| step(&mut kept, seconds(10) + RETRY * n / 100, 100).0).collect();
    assert_eq!((ahead[0], ahead[3]), (8 * LEAST_BLOCK, 64 * LEAST_BLOCK), "{ahead:?}");
    // Silence: at the next look the rest is given back, and then nobody wakes up.
    assert!(step(&mut kept, seconds(12), 0).1.is_some());
    let (left, next) = step(&mut kept, seconds(14), 0);
    assert_eq!((left, next), (LEAST_BLOCK, None));
    assert!(LOOK <= seconds(2));
}

#[test]
fn files_are_one_processs_whole_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made/here");
    let open = |keeper: &Keeper, byte| {
        keeper.numbers(&folder, Direction::Outbound, (256, false), &key(byte))
    };
    let keeper = Keeper::new();
    let numbers = open(&keeper, 1).unwrap();
    assert_eq!(open(&keeper, 1).unwrap(), numbers, "one process, the same numbers");
    assert_eq!(numbers.take(MOST), Ok(1));
    let other = Keeper::new();
    let why = open(&other, 1).unwrap_err();
    assert!(why.contains(".lock: another process uses this association"), "{why}");
    assert_eq!(open(&other, 2).unwrap().take(MOST), Ok(1), "another key is another record");
    drop(other);
    keeper.end();
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for path in names.iter().chain([&folder]) {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0, "{path:?}");
        assert!(!path.is_file() || !std::fs::read(path).unwrap().windows(8).any(|w| w == [1; 8]));
    }
    drop(keeper);
    let again = Keeper::new();
    let next = open(&again, 1).unwrap();
    assert_eq!(next.take(MOST), Ok(2), "goes on where it was");
    assert_eq!(next.iv(2), numbers.iv(2), "and so do the vectors");
    drop(again);
    let id = AssociationId::new(Direction::Outbound, 256, &key(1));
    let path = folder.join(format!("outbound-{id}"));
    let text = std::fs::read_to_string(&path).unwrap();
    for damaged in [text.replace("reserved 2", "reserved 1"), text[..30].into(), String::new()] {
        std::fs::write(&path, damaged).unwrap();
        let why = open(&Keeper::new(), 1).unwrap_err();
        assert!(why.starts_with(&path.display().to_string()), "{why}");
        assert!(why.contains("damaged: line ") && why.contains("new key"), "{why}");
    }
    let foreign =
        folder.join(format!("outbound-{}", AssociationId::new(Direction::Outbound, 256, &key(2))));
    std::fs::copy(foreign, &path).unwrap();
    assert!(open(&Keeper::new(), 1).unwrap_err().contains("of another association"));
}

#[test]
fn a_folder_that_goes_away_is_named_and_stops_what_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = Keeper::new();
    let path = folder.path().join("esp");
    let numbers = keeper.numbers(&path, Direction::Inbound, (256, false), &key(1)).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let refused = (1..).find_map(|number| numbers.accept(number).err().map(|why| (number, why)));
    assert_eq!(refused, Some((LEAST_BLOCK + 1, DropReason::EspUnrecorded)));
    let end = Instant::now() + seconds(120);
    while keeper.problem().is_none() && Instant::now() < end {
        std::thread::yield_now();
    }
    let why = keeper.problem().unwrap();
    assert!(why.contains("esp/inbound-") && why.contains("No such file"), "{why}");
}

/// A worker saw the limit before it was raised, and asks for what is there already: the bell must
/// ring again when more is wanted, or nobody would ever wake the thread that records it.
#[test]
fn request_within_reserve_keeps_later_bell() {
    let disk = Fake::new(Direction::Outbound);
    let rung = Arc::new(Mutex::new(0));
    let count = rung.clone();
    let mut kept = disk.start_with(Box::new(move || *locked(&count) += 1)).unwrap();
    // To the worker all but nothing is left; to the keeper all but one.
    kept.numbers.raise(MOST_BLOCK, u64::MAX);
    assert_eq!(kept.numbers.take(MOST), Ok(1));
    assert_eq!(*locked(&rung), 1);
    assert_eq!(kept.care(seconds(1)), None, "nothing is due, and the thread sleeps until it rings");
    assert_eq!(disk.writes(), 1, "of the start");
    assert_eq!(kept.numbers.take(MOST), Ok(2));
    assert_eq!(*locked(&rung), 2);
    // While a write is waited for, packets ring no more than once.
    disk.set(Health::Full);
    while kept.numbers.take(MOST).is_ok() {}
    let retry = kept.care(seconds(2)).unwrap();
    let before = *locked(&rung);
    for late in 0..10 {
        assert!(kept.numbers.take(MOST).is_err());
        assert_eq!(kept.care(seconds(2) + Duration::from_millis(late)), Some(retry));
    }
    assert_eq!(*locked(&rung), before + 1);
}

#[test]
fn workers_that_are_faster_than_the_disk_share_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = Keeper::new();
    let numbers =
        keeper.numbers(folder.path(), Direction::Outbound, (256, false), &key(1)).unwrap();
    let worker = || {
        let mut mine = Vec::new();
        while mine.len() < 300_000 {
            match numbers.take(MOST) {
                Ok(number) => mine.push(number),
                Err(why) => {
                    assert_eq!(why, DropReason::EspUnreserved);
                    std::thread::yield_now();
                }
            }
        }
        mine
    };
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (1..=600_000).collect::<Vec<_>>());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Packets, of which inbound each may skip some.
    Packets(u16, u16),
    /// The thread looks, at any time: later, or where its clock stands still or goes back.
    Care(u64),
    Disk(Health),
    /// The process is killed and starts again, if the disk lets it.
    Crash,
    /// It ends in good order and starts again.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let health = prop::sample::select(vec![Health::Well, Health::Full, Health::Late]);
    let step = prop_oneof![
        4 => (1u16..700, 0u16..40).prop_map(|(count, skip)| Step::Packets(count, skip)),
        4 => (0u64..5000).prop_map(Step::Care),
        1 => health.prop_map(Step::Disk),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

/// Starts again, on a disk that has room by then.
fn start(disk: &Fake) -> Kept {
    disk.start().unwrap_or_else(|_| {
        disk.set(Health::Well);
        disk.start().unwrap()
    })
}

/// Lets a router live through `steps`; `use_one` is given its numbers, and how many to skip.
fn live(disk: &Fake, steps: &[Step], mut use_one: impl FnMut(&Numbers, u16)) {
    let mut kept = start(disk);
    for step in steps {
        match *step {
            Step::Packets(count, skip) => (0..count).for_each(|_| use_one(&kept.numbers, skip)),
            Step::Care(ms) => {
                kept.care(Duration::from_millis(ms));
            }
            Step::Disk(health) => disk.set(health),
            Step::Crash => kept = start(disk),
            Step::Restart => {
                let _ = kept.end();
                kept = start(disk);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn nonce_is_never_used_twice(steps in steps()) {
        let disk = Fake::new(Direction::Outbound);
        let first_iv = locked(&disk.0).0.iv_base;
        let (mut highest, mut repeated) = (0, false);
        live(&disk, &steps, |numbers, skip| {
            // Enough to come to the ends of blocks.
            for _ in 0..=u32::from(skip) * 10 {
                if let Ok(number) = numbers.take(MOST) {
                    // In order over all lives, so that none can come twice.
                    let at = u64::from_be_bytes(numbers.iv(number)).wrapping_sub(first_iv);
                    repeated |= at <= highest;
                    highest = at;
                }
            }
        });
        prop_assert!(!repeated);
    }

    #[test]
    fn packet_is_never_accepted_twice(steps in steps(), again in any::<u64>()) {
        let disk = Fake::new(Direction::Inbound);
        let mut sent = 0;
        let mut taken = HashSet::new();
        let mut repeated = false;
        let mut seed = again;
        live(&disk, &steps, |numbers, skip| {
            sent += 1 + u64::from(skip);
            repeated |= numbers.accept(sent).is_ok() && !taken.insert(sent);
            // One that was sent before, or another that overtakes.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = (seed >> 33) % sent + 1;
            let old = if seed >> 63 == 0 { other } else { sent.saturating_sub(other % 70) };
            repeated |= numbers.accept(old).is_ok() && !taken.insert(old);
        });
        prop_assert!(!repeated);
    }
}
