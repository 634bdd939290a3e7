//! What is written is read back: any program, any runs, any addresses, any events.

use halfwink_trace::*;
use halfwink_units::{Asid, PhysAddr, VirtAddr};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Run { block: usize, executed: u16, accesses: Vec<(u16, u8, bool, u64, u64)> },
    Event(Event),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u16>().prop_map(Event::Cpu),
        (0u64..1 << 40).prop_map(|n| Event::AddressSpace(Asid(n))),
        (any::<u32>(), any::<[u64; 6]>())
            .prop_map(|(number, args)| Event::Syscall { number, args }),
        any::<u8>().prop_map(|vector| Event::Interrupt { vector }),
        any::<u8>().prop_map(|vector| Event::Exception { vector }),
        (0u64..1 << 50, 0u64..1 << 50)
            .prop_map(|(a, b)| Event::Idle { from_ns: a.min(b), to_ns: a.max(b) }),
        (any::<u32>(), any::<u64>()).prop_map(|(code, arg)| Event::Mark { code, arg }),
        (any::<u64>(), any::<u64>()).prop_map(|(id, at_ns)| Event::RequestBegin { id, at_ns }),
        (any::<u64>(), any::<u64>()).prop_map(|(id, at_ns)| Event::RequestEnd { id, at_ns }),
    ]
}

const BLOCKS: usize = 6;

fn any_step() -> impl Strategy<Value = Step> {
    // Few distinct pages, so that page guesses are right as well as wrong.
    let access = (0u16..1, 1u8..=64, any::<bool>(), 0u64..1 << 47, 0u64..32);
    prop_oneof![
        4 => (0..BLOCKS, 0u16..=1, prop::collection::vec(access, 0..4))
            .prop_map(|(block, executed, accesses)| Step::Run { block, executed, accesses }),
        1 => any_event().prop_map(Step::Event),
    ]
}

/// Blocks of 1..=BLOCKS additions from memory, `add rax, [rbx]`.
fn define_blocks(writer: &mut TraceWriter<Vec<u8>>, decoded: bool) -> Vec<BlockId> {
    (0..BLOCKS)
        .map(|n| {
            let bytes = [0x48, 0x03, 0x03].repeat(n + 1);
            let lengths = vec![3; n + 1];
            let pc = VirtAddr(0xffff_8000_0000_0ff0 + 0x1234 * n as u64);
            let mut instrs = Vec::new();
            decode_block(pc, &bytes, &lengths, &mut instrs);
            let code = if decoded {
                Code::Decoded(&instrs)
            } else {
                Code::Bytes { bytes: &bytes, lengths: &lengths }
            };
            let phys = PhysAddr(pc.0 % 4096 + 0x7000);
            let phys_next_page = PhysAddr(0x9000);
            let def = BlockDef { pc, phys, phys_next_page, kernel: n % 2 == 0, code };
            writer.define_block(&def).unwrap()
        })
        .collect()
}

fn replay(steps: &[Step], decoded: bool) -> Result<(), TestCaseError> {
    let form = if decoded { CodeForm::Decoded } else { CodeForm::Bytes };
    let header = Header::new("test", "a test", form);
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let blocks = define_blocks(&mut writer, decoded);
    for step in steps {
        match step {
            Step::Event(event) => writer.event(event).unwrap(),
            Step::Run { block, executed, accesses } => {
                let accesses: Vec<RawAccess> = accesses
                    .iter()
                    .map(|&(instr, size, write, virt, page)| RawAccess {
                        instr,
                        size,
                        write,
                        address: Address {
                            virt: VirtAddr(virt),
                            phys: PhysAddr(page << 12 | virt % 4096),
                        },
                    })
                    .collect();
                writer.run(blocks[*block], *executed, &accesses).unwrap();
            }
        }
    }
    let (summary, bytes) = writer.finish().unwrap();
    prop_assert_eq!(summary.bytes, bytes.len() as u64);

    let file = TraceFile::from_bytes(bytes).unwrap();
    prop_assert_eq!(&file.footer().totals, &summary.totals);
    let program = file.program();
    let mut stream = file.stream();
    let mut instructions = 0;
    // The stream first tells where it starts.
    if !steps.is_empty() {
        prop_assert_eq!(stream.next_item().unwrap(), Item::Event(Event::Cpu(0)));
        prop_assert_eq!(stream.next_item().unwrap(), Item::Event(Event::AddressSpace(Asid(0))));
    }
    for step in steps {
        match (step, stream.next_item().unwrap()) {
            (Step::Event(event), Item::Event(read)) => prop_assert_eq!(*event, read),
            (Step::Run { block, executed, accesses }, Item::Run(id)) => {
                let template = program.template(id);
                prop_assert_eq!(template.block, blocks[*block]);
                prop_assert_eq!(template.executed, *executed);
                instructions += u64::from(*executed);
                let sites = program.sites_of(template);
                prop_assert_eq!(sites.len(), accesses.len());
                for ((site, address), given) in sites.iter().zip(stream.addresses()).zip(accesses) {
                    let &(instr, size, write, virt, page) = given;
                    prop_assert_eq!((site.instr, site.size, site.write), (instr, size, write));
                    prop_assert_eq!(address.virt.0, virt);
                    prop_assert_eq!(address.phys.0, page << 12 | virt % 4096);
                }
            }
            (step, item) => prop_assert!(false, "{:?} was read as {:?}", step, item),
        }
    }
    prop_assert_eq!(stream.next_item().unwrap(), Item::End);
    prop_assert_eq!(stream.next_item().unwrap(), Item::End);
    prop_assert_eq!(instructions, summary.totals.instructions);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_round_trips(steps in prop::collection::vec(any_step(), 0..200)) {
        replay(&steps, false)?;
        replay(&steps, true)?;
    }
}

/// Chunks end before any of their columns is longer than readers take: of marks, whose events fill
/// one, and of pages at random, whose numbers fill another.
#[test]
fn no_column_is_longer_than_readers_take() {
    let header = Header::new("test", "a test", CodeForm::Bytes);
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let block = define_blocks(&mut writer, false)[0];
    let marks = 9_000_000;
    for n in 0..marks {
        writer.event(&Event::Mark { code: 7, arg: u64::MAX - n }).unwrap();
    }
    let mut page = 1u64;
    let accesses = 9_000_000;
    let mut run = Vec::new();
    for n in 0..accesses {
        page = page.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let address = Address { virt: VirtAddr(page >> 17), phys: PhysAddr(page >> 12 & !4095) };
        run.push(RawAccess { instr: 0, size: 8, write: false, address });
        if n % 1000 == 999 {
            writer.run(block, 1, &run).unwrap();
            run.clear();
        }
    }
    let (_, bytes) = writer.finish().unwrap();
    let file = TraceFile::from_bytes(bytes).unwrap();
    let (mut stream, mut read) = (file.stream(), (0, 0));
    loop {
        match stream.next_item().unwrap() {
            Item::Event(Event::Mark { arg, .. }) => {
                assert_eq!(arg, u64::MAX - read.0);
                read.0 += 1;
            }
            Item::Event(_) => {}
            Item::Run(_) => read.1 += stream.addresses().len(),
            Item::End => break,
        }
    }
    assert_eq!(read, (marks, accesses));
}
