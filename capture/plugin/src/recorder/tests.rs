// SPDX-License-Identifier: GPL-2.0-or-later
//! Two CPUs, of which CPU 1 is recorded, and a few blocks.

use halfwink_units::Asid;

use super::*;
use crate::block::Definition;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const PAGE_FAULT: u8 = 14;
const TIMER: u8 = 236;

struct Machine {
    blocks: Blocks,
    recorder: Recorder,
}

impl Machine {
    fn new() -> Machine {
        let mut recorder = Recorder::new(1, 2);
        recorder.start(0x5000 | 0xfff);
        Machine { blocks: Blocks::default(), recorder }
    }

    fn define(&mut self, pc: u64, instrs: &[&[u8]]) -> u32 {
        self.blocks.intern(Definition {
            pc,
            phys: 0,
            phys_next_page: 0,
            bytes: instrs.concat(),
            lengths: instrs.iter().map(|i| i.len() as u8).collect(),
        })
    }

    fn nops(&mut self, pc: u64, count: usize) -> u32 {
        self.define(pc, &vec![&[0x90u8][..]; count])
    }

    fn run(&mut self, cpu: usize, block: u32) {
        self.arrive(cpu, block, Arrival::default());
    }

    fn arrive(&mut self, cpu: usize, block: u32, arrival: Arrival) {
        self.recorder.block(&mut self.blocks, cpu, block, block, arrival);
    }

    fn enter(&mut self, handler: u32, vector: u8, rip: u64) {
        let entry = Some(Entry { vector, rip });
        self.arrive(SERVER, handler, Arrival { entry, time: None });
    }

    fn access(&mut self, block: u32, instr: u16, virt: u64) {
        if let Some(instr) = self.recorder.access(&self.blocks, SERVER, block, instr) {
            self.recorder.push_access(instr, virt, (8, false, virt));
        }
    }

    fn finish(mut self) -> (Batch, RecorderReport) {
        let (batch, report, _) = self.recorder.finish("test");
        (batch, report)
    }
}

fn runs(batch: &Batch) -> Vec<(u32, u16, u16)> {
    let run = |item: &Item| match *item {
        Item::Run { block, executed, accesses } => Some((block, executed, accesses)),
        _ => None,
    };
    batch.items.iter().filter_map(run).collect()
}

#[test]
fn the_start_names_cpu_and_address_space() {
    let (batch, _) = Machine::new().finish();
    assert_eq!(batch.events, [Event::Cpu(1), Event::AddressSpace(Asid(5))]);
}

#[test]
fn a_fault_cuts_the_block_and_its_accesses() {
    let mut m = Machine::new();
    let (a, handler) = (m.nops(0x1000, 4), m.nops(0x9000, 1));
    m.run(SERVER, a);
    m.access(a, 1, 0x10);
    m.access(a, 2, 0x20);
    m.enter(handler, PAGE_FAULT, 0x1002);
    let (batch, report) = m.finish();
    assert_eq!(runs(&batch), [(a, 2, 1)]);
    assert_eq!(batch.accesses.len(), 1);
    assert_eq!(batch.events[2..], [Event::Exception { vector: PAGE_FAULT }]);
    assert_eq!((report.partial_runs, report.unexplained), (1, 0));
}

#[test]
fn an_interrupt_stands_behind_the_whole_block() {
    let mut m = Machine::new();
    let (a, handler) = (m.nops(0x1000, 4), m.nops(0x9000, 1));
    m.run(SERVER, a);
    m.enter(handler, TIMER, 0x1004);
    let (batch, _) = m.finish();
    assert_eq!(runs(&batch), [(a, 4, 0)]);
    assert_eq!(batch.items.last(), Some(&Item::Event));
}

#[test]
fn a_device_access_belongs_to_the_block_it_was_cut_out_of() {
    let mut m = Machine::new();
    let (a, alone, rest) = (m.nops(0x1000, 4), m.nops(0x1002, 1), m.nops(0x1003, 9));
    m.run(SERVER, a);
    m.access(a, 0, 0x10);
    m.access(a, 2, 0x20);
    m.access(alone, 0, 0xfee0_0300);
    m.run(SERVER, rest);
    let (batch, report) = m.finish();
    assert_eq!(runs(&batch), [(a, 3, 2)]);
    assert_eq!(batch.accesses[1].instr, 2);
    assert_eq!(batch.accesses[1].address.virt, VirtAddr(0xfee0_0300));
    assert_eq!(report.unexplained, 0);
}

#[test]
fn jump_without_cause_is_reported_as_unexplained() {
    let mut m = Machine::new();
    let (a, b) = (m.nops(0x1000, 4), m.nops(0x2000, 1));
    m.run(SERVER, a);
    m.run(SERVER, b);
    let (_, report) = m.finish();
    assert_eq!((report.unexplained, report.examples.len()), (1, 1));
}

#[test]
fn the_other_cpus_marks_wait_for_the_block_in_flight() {
    let mut m = Machine::new();
    let (a, b, client) = (m.nops(0x1000, 4), m.nops(0x1004, 2), m.nops(0x7000, 3));
    m.run(SERVER, a);
    m.run(CLIENT, client);
    m.recorder.request_begins(7, 0);
    m.run(SERVER, b);
    m.run(SERVER, a);
    let (batch, report) = m.finish();
    let expected = [
        Item::Event,
        Item::Event,
        Item::Define,
        Item::Run { block: a, executed: 4, accesses: 0 },
        Item::Event,
        Item::Define,
        Item::Run { block: b, executed: 2, accesses: 0 },
    ];
    assert_eq!(batch.items, expected, "and nothing of the client");
    assert!(matches!(batch.events[2], Event::RequestBegin { id: 7, .. }));
    assert_eq!(report.other_instructions, 3);
}

/// `hlt` at 1000 ns, both CPUs halted until 5000 ns; the client's, then the server's clock show it.
#[test]
fn idle_is_from_the_halt_to_the_wake_up() {
    let mut m = Machine::new();
    let rdtsc = m.define(0x1000, &[&[0x0f, 0x31]]);
    let (after, halt) = (m.nops(0x1002, 9), m.define(0x100b, &[&[0xf4]]));
    let (handler, client) = (m.nops(0x9000, 6), m.define(0x7000, &[&[0xf4]]));
    m.run(SERVER, rdtsc);
    m.arrive(SERVER, after, Arrival { entry: None, time: Some(990) });
    m.run(SERVER, halt);
    m.recorder.halt(&mut m.blocks, SERVER);
    m.run(CLIENT, client);
    m.recorder.halt(&mut m.blocks, CLIENT);
    m.enter(handler, TIMER, 0x100c);
    let again = m.define(0x9006, &[&[0x0f, 0x31]]);
    let last = m.nops(0x9008, 1);
    m.run(SERVER, again);
    assert!(!m.recorder.may_stop(), "the time of waking is not known yet");
    m.arrive(SERVER, last, Arrival { entry: None, time: Some(5007) });
    assert!(m.recorder.may_stop());
    let (batch, report) = m.finish();
    let idle = Event::Idle { from_ns: 1000, to_ns: 5000 };
    assert_eq!(batch.events[2..], [idle, Event::Interrupt { vector: TIMER }]);
    assert_eq!((report.unexplained, report.guessed_times), (0, 0));
}

#[test]
fn a_translation_runs_where_its_process_has_it() {
    let mut m = Machine::new();
    let home = m.nops(0x1000, 2);
    let moved = m.blocks.place(home, m.recorder.turn(), 0x8000);
    let next = m.nops(0x8002, 1);
    m.recorder.block(&mut m.blocks, SERVER, moved, home, Arrival::default());
    m.access(home, 1, 0x30);
    m.run(SERVER, next);
    let (batch, report) = m.finish();
    assert_eq!(runs(&batch), [(moved, 2, 1)]);
    assert_eq!(batch.definitions[0].1.pc, 0x8000);
    assert_eq!(report.unexplained, 0);
}
