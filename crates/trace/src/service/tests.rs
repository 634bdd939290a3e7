use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use super::*;
use crate::format::{
    BlockDef, Code as CodeOf, CodeForm, DirectMap, Header, TraceFile, TraceWriter,
};
use crate::kernel_run::KernelRuns;
use crate::program::BlockId;
use crate::record::Branch;

/// Table 5.1: kernel and user instructions per run.
const RUNS: [(&str, f64, f64); 10] = [
    ("syn-apache", 329.0, 156.0),
    ("syn-specjbb", 692.0, 1_770.0),
    ("syn-hmmer", 89.0, 33_280.0),
    ("syn-mummer", 20.0, 47.0),
    ("syn-fasta", 714.0, 14_862.0),
    ("syn-blackscholes", 2_098.0, 158_828.0),
    ("syn-canneal", 18.0, 120.0),
    ("syn-mcf", 15.0, 22.0),
    ("syn-apache-walk", 329.0, 156.0),
    ("syn-specjbb-walk", 692.0, 1_770.0),
];

const UPPER_HALF: u64 = 1 << 63;

fn spec(model: ServiceModel, instructions: u64) -> Service {
    Service { model, instructions, seed: 1, warm_up: 0 }
}

/// All items with their addresses.
fn play(source: &mut ServiceSource, mut each: impl FnMut(&Program, Item, &[Address])) {
    let program = Arc::clone(source.program());
    loop {
        let item = source.next_item().unwrap();
        each(&program, item, source.addresses());
        if item == Item::End {
            return;
        }
    }
}

fn digest(service: &Service) -> u64 {
    let mut hash = Xxh3::new();
    play(&mut service.source(), |_, item, addresses| {
        hash.update(format!("{item:?}").as_bytes());
        if matches!(item, Item::Run(_)) {
            for address in addresses {
                hash.update(&address.virt.0.to_le_bytes());
                hash.update(&address.phys.0.to_le_bytes());
            }
        }
    });
    hash.digest()
}

#[test]
fn a_seed_gives_the_same_stream_and_another_another() {
    let service = spec(SERVICES[0], 100_000);
    assert_eq!(digest(&service), digest(&service));
    assert_ne!(digest(&service), digest(&Service { seed: 2, ..service }));
    // A clone goes on as the original does.
    let mut source = service.source();
    (0..1000).for_each(|_| {
        source.next_item().unwrap();
    });
    let mut copy = source.clone();
    for _ in 0..1000 {
        assert_eq!(source.next_item().unwrap(), copy.next_item().unwrap());
        assert_eq!(source.addresses(), copy.addresses());
    }
}

#[test]
fn decks_have_the_means_of_table_5_1() {
    assert_eq!(SERVICES.map(|model| model.name), RUNS.map(|row| row.0));
    for (model, (name, kernel, user)) in SERVICES.iter().zip(RUNS) {
        let off = (model.kernel_run() / kernel - 1.0).abs();
        assert!(off < 0.005, "{name}: {} of {kernel}", model.kernel_run());
        assert_eq!(f64::from(model.user_run), user, "{name}");
        for class in model.classes {
            // Each variant once: the mean, whatever the spread.
            let lengths = (0..calls::VARIANTS).map(|v| u64::from(calls::length(class, v)));
            assert_eq!(lengths.sum::<u64>(), u64::from(class.mean * calls::VARIANTS), "{name}");
        }
    }
}

#[test]
fn run_lengths_come_out_as_in_table_5_1() {
    for (model, (name, kernel, user)) in SERVICES.iter().zip(RUNS) {
        // Two decks at least, and several hundred runs.
        let runs = f64::from(model.deck() * 2).max(600.0);
        let service = spec(*model, (runs * (kernel + user)) as u64);
        let mut found = KernelRuns::new(service.source());
        let (mut count, mut sum) = (0u64, 0u64);
        while let Some(run) = found.next_run().unwrap() {
            count += 1;
            sum += run.instructions;
            assert!(run.cause.is_some() && !run.halted, "{name}: {run:?}");
        }
        let means = [sum as f64 / count as f64, found.instructions[0] as f64 / count as f64];
        for (mean, published) in means.into_iter().zip([kernel, user]) {
            assert!((mean / published - 1.0).abs() < 0.06, "{name}: {mean:.1} of {published}");
        }
    }
}

#[test]
fn user_and_kernel_alternate_and_every_entry_has_a_cause() {
    for model in SERVICES {
        let (mut kernel, mut last, mut entry) = (None, None, None);
        let (mut entries, mut nested) = (0, 0);
        play(&mut spec(model, 400_000).source(), |program, item, _| match item {
            Item::Event(event) if kernel == Some(true) && last != Some(Branch::Iret) => {
                // In the middle of an invocation, or right behind one: nothing comes between two
                // invocations but user code.
                assert_eq!(event, Event::Interrupt { vector: TIMER });
                nested += 1;
            }
            Item::Event(event) => {
                assert!(entry.replace(event).is_none(), "two causes of one entry");
                let calls = matches!(event, Event::Syscall { .. });
                assert_eq!(last == Some(Branch::Syscall), calls, "{event:?} after {last:?}");
            }
            Item::Run(id) => {
                let template = program.template(id);
                let block = program.block(template.block);
                if kernel != Some(block.kernel) {
                    assert!(kernel.is_some() || !block.kernel, "it begins in user code");
                    assert_eq!(entry.take().is_some(), block.kernel, "a cause for each entry");
                    let returned = matches!(last, Some(Branch::Iret | Branch::Sysret));
                    assert_eq!(returned, kernel == Some(true));
                    entries += u32::from(block.kernel);
                    kernel = Some(block.kernel);
                }
                assert_eq!(template.executed, block.instrs);
                last = program.instrs_of(block).last().map(|instr| instr.branch);
            }
            Item::End => assert_eq!(kernel, Some(true), "it ends with an invocation"),
        });
        assert!(entries > 1 && nested < entries, "{}: {entries}, {nested}", model.name);
    }
}

#[test]
fn addresses_have_the_privilege_of_their_code() {
    for model in SERVICES {
        let mut owners: HashMap<u64, u8> = HashMap::new();
        let mut shares = [0u64; 2];
        play(&mut spec(model, 400_000).source(), |program, item, addresses| {
            let Item::Run(id) = item else { return };
            let template = program.template(id);
            let block = program.block(template.block);
            let last = program.instrs_of(block).last().expect("a block is not empty");
            assert_eq!(block.pc.0 >= UPPER_HALF, block.kernel);
            assert_eq!(block.pc.0 >> 12, (block.end_of(last) - 1) >> 12, "within a page");
            assert_eq!(block.pc.0 & 0xfff, block.phys.0 & 0xfff);
            for address in addresses {
                assert_eq!(address.virt.0 >= UPPER_HALF, block.kernel);
                assert_eq!(address.virt.0 & 0xfff, address.phys.0 & 0xfff);
                if block.kernel {
                    assert_eq!(address.virt.0 - address.phys.0, 0xffff_8880_0000_0000);
                }
                *owners.entry(address.phys.0 >> 6).or_default() |= 1 << u8::from(block.kernel);
            }
            shares[usize::from(block.kernel)] += addresses.len() as u64;
        });
        assert!(shares[0] > 0 && shares[1] > 0, "{}", model.name);
        // Nothing is touched by both but what the model says that they share.
        let both = owners.values().filter(|&&who| who == 3).count();
        assert!(both == 0 || model.regions.shared > 0, "{}: {both} shared lines", model.name);
        assert!(both > 0 || model.name != "syn-apache");
    }
}

#[test]
fn regions_hold_what_they_must() {
    for model in SERVICES {
        let code = Code::new(&model);
        let data = Data::new(&model, &code);
        let kernel = model.regions.kernel / 64;
        assert!(code.bytes[0] < model.regions.user && code.bytes[1] < model.regions.kernel / 2);
        assert!(data.kernel_region_lines() > kernel / 8, "{}: private sets fill it", model.name);
    }
}

#[test]
fn popularity_is_as_described() {
    let mut random = Random::new(3);
    for skew in [4, 6, 8, 9, 16] {
        let part = 0.5_f64.powf(4.0 / f64::from(skew));
        let draws = 200_000;
        let below = (0..draws).filter(|_| random.skewed(1000, skew) < 500).count();
        // p^(4/skew) of p = 1/2; four standard deviations are 0.0045.
        let share = below as f64 / f64::from(draws);
        assert!((share - part).abs() < 0.0045, "{skew}: {share}");
    }
}

#[test]
fn a_warm_stream_begins_in_user_code_behind_the_warm_up() {
    for warm_up in (1..20_000).step_by(997) {
        let (source, _) = Service { warm_up, ..spec(SERVICES[0], 10_000) }.warm_source();
        assert_eq!((source.left, source.kernel), (0, Some(true)), "behind an invocation");
    }
    let service = Service { warm_up: 50_000, ..spec(SERVICES[0], 10_000) };
    let (mut source, warm) = service.warm_source();
    assert!(warm.lines.len() > 100 && warm.lines.len() <= WARM_LINES);
    let mut whole = service.source();
    let mut skipped = 0;
    while skipped < 50_000 || whole.left > 0 || whole.kernel != Some(true) {
        if let Item::Run(id) = whole.step() {
            skipped += u64::from(whole.program().template(id).executed);
        }
    }
    let mut instructions = 0;
    play(&mut source, |program, item, addresses| {
        if let Item::Run(id) = item {
            instructions += u64::from(program.template(id).executed);
        }
        if item != Item::End {
            assert_eq!(whole.step(), item);
            assert_eq!(whole.addresses, addresses);
        }
    });
    assert!((10_000..60_000).contains(&instructions), "{instructions}");
}

#[test]
fn a_trace_of_it_is_sound() {
    let mut source = spec(SERVICES[1], 300_000).source();
    let mut header = Header::new("syn-specjbb", "generated", CodeForm::Decoded);
    header.direct_map = Some(DirectMap { virt_base: 0xffff_8880_0000_0000, bytes: 1 << 40 });
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let mut blocks: HashMap<BlockId, BlockId> = HashMap::new();
    let mut instructions = [0u64; 2];
    play(&mut source, |program, item, addresses| match item {
        Item::Run(id) => {
            let template = program.template(id);
            let block = program.block(template.block);
            instructions[usize::from(block.kernel)] += u64::from(template.executed);
            let new = *blocks.entry(template.block).or_insert_with(|| {
                let code = CodeOf::Decoded(program.instrs_of(block));
                let (pc, phys, phys_next_page) = (block.pc, block.phys, block.phys_next_page);
                let def = BlockDef { pc, phys, phys_next_page, kernel: block.kernel, code };
                writer.define_block(&def).unwrap()
            });
            let sites = program.sites_of(template);
            writer.run_as(new, template.executed, sites, addresses).unwrap();
        }
        Item::Event(event) => writer.event(&event).unwrap(),
        Item::End => {}
    });
    let (_, bytes) = writer.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("syn.hwt");
    std::fs::write(&path, bytes).unwrap();
    let report = crate::check::check(&TraceFile::open(&path).unwrap()).unwrap();
    assert_eq!(report.instructions, instructions);
    assert_eq!((report.unexplained, report.direct_map_wrong), (0, 0));
    assert!(report.direct_map > 0);
}

/// Line by line, from the first to the last and again: each line as often as any other.
#[test]
fn working_sets_are_walked() {
    let model = *SERVICES.iter().find(|model| model.name == "syn-specjbb-walk").unwrap();
    let mut source = spec(model, 4_000_000).source();
    let outer = model.user.walked[1].bytes >> 6;
    let mut lines = std::collections::BTreeMap::<u64, u32>::new();
    loop {
        match source.next_item().unwrap() {
            Item::Run(_) => {
                for address in source.addresses() {
                    // Large pages lie behind all others.
                    if address.phys.0 >= 1 << 40 {
                        *lines.entry(address.phys.0 >> 6).or_default() += 1;
                    }
                }
            }
            Item::Event(_) => {}
            Item::End => break,
        }
    }
    let inner = model.user.walked[0].bytes >> 6;
    assert_eq!(lines.len() as u64, inner + outer);
    let first = *lines.keys().next().unwrap();
    let of_outer: Vec<u32> = lines.range(first + inner..).map(|(_, &count)| count).collect();
    let (least, most) = (of_outer.iter().min().unwrap(), of_outer.iter().max().unwrap());
    assert!(*least > 0 && most - least <= 2 * model.user.words, "{least} to {most}");
}
