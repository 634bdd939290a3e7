//! A recorded stretch is what the program did: in closed form, and beside Valgrind's Lackey.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use halfwink_live_calibrate::{record, RecordFault};
use halfwink_trace::{Item, Source, TraceFile};

/// A walk of 20,000 steps through the 256 lines of 16 KB.
const PROGRAM: &str = "walk-16k";

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/host/programs")
}

/// An instruction: address, and its accesses as address, size, whether it is a store.
type Step = (u64, Vec<(u64, u8, bool)>);

fn steps(path: &Path) -> Vec<Step> {
    let file = TraceFile::open(path).unwrap();
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut found = Vec::new();
    loop {
        match stream.next_item().unwrap() {
            Item::Run(id) => {
                let template = program.template(id);
                let block = program.block(template.block);
                let first = found.len();
                for instr in &program.instrs_of(block)[..usize::from(template.executed)] {
                    found.push((block.pc_of(instr), Vec::new()));
                }
                for (site, at) in program.sites_of(template).iter().zip(stream.addresses()) {
                    let accesses: &mut Vec<(u64, u8, bool)> =
                        &mut found[first + usize::from(site.instr)].1;
                    accesses.push((at.virt.0, site.size, site.write));
                }
            }
            Item::Event(_) => {}
            Item::End => return found,
        }
    }
}

/// The same by Lackey: from the first begin mark to the end mark behind it.
fn lackey() -> Option<Vec<Step>> {
    let done = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=1"])
        .arg(programs())
        .arg(PROGRAM)
        .output()
        .ok()?;
    let text = String::from_utf8(done.stdout).unwrap();
    let mut found: Vec<Step> = Vec::new();
    for line in text.lines() {
        let (kind, rest) = line.split_at(line.len().min(3));
        let Some((at, size)) = rest.split_once(',') else { continue };
        let (Ok(at), Ok(size)) = (u64::from_str_radix(at.trim(), 16), size.trim().parse()) else {
            continue;
        };
        match kind {
            "I  " => found.push((at, Vec::new())),
            " L " => found.last_mut()?.1.push((at, size, false)),
            " S " => found.last_mut()?.1.push((at, size, true)),
            " M " => found.last_mut()?.1.extend([(at, size, false), (at, size, true)]),
            _ => {}
        }
    }
    Some(found)
}

#[test]
fn a_walk_is_recorded_as_it_was_gone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("walk.hwt");
    let command = [programs().display().to_string(), PROGRAM.to_owned()];
    let found = match record("walk", &command, &out, 1_000_000) {
        Err(RecordFault::Program { what: "starting it under ptrace", error, .. }) => {
            eprintln!("skipped: no ptrace here: {error}");
            return;
        }
        found => found.unwrap(),
    };
    let ours = steps(&out);
    assert_eq!(ours.len() as u64, found.instructions);
    // Its own, and a few of code and stack.
    assert!((257..280).contains(&found.lines), "{}", found.lines);
    // The walk's loads are those of instructions that are executed again and again.
    let mut times: HashMap<u64, usize> = HashMap::new();
    ours.iter().for_each(|(pc, _)| *times.entry(*pc).or_default() += 1);
    let of_walk = ours.iter().filter(|(pc, _)| times[pc] > 1000);
    let walk: Vec<u64> = of_walk.flat_map(|(_, all)| all.iter().map(|a| a.0)).collect();
    assert_eq!(walk.len(), 20_000);
    let lines: HashSet<u64> = walk.iter().copied().collect();
    assert_eq!(lines.len(), 256);
    assert!(lines.iter().all(|at| at % 64 == 0 && at - lines.iter().min().unwrap() < 16 << 10));
    assert!(walk.iter().zip(&walk[256..]).all(|(a, b)| a == b), "a cycle through all of them");

    let Some(theirs) = lackey() else {
        eprintln!("skipped: no valgrind");
        return;
    };
    // Theirs begins with the program; ours is a stretch of it. Instructions lie at the same
    // addresses, memory does not: what is compared is which, and where in its page.
    let shape = |step: &Step| -> Step {
        (step.0, step.1.iter().map(|&(at, size, write)| (at % 4096, size, write)).collect())
    };
    let in_pages = |all: &[Step]| all.iter().map(shape).collect::<Vec<_>>();
    let (ours, theirs) = (in_pages(&ours), in_pages(&theirs));
    let heads = theirs.iter().enumerate().filter(|(_, s)| s.0 == ours[0].0).map(|(n, _)| n);
    let apart = |from: usize| {
        let pairs = ours.iter().zip(&theirs[from..]);
        // The stack lies elsewhere in its page: its accesses are few and at the ends.
        pairs.filter(|(a, b)| a.0 != b.0 || a.1.len() != b.1.len()).count()
    };
    let stack = |from: usize| ours.iter().zip(&theirs[from..]).filter(|(a, b)| a != b).count();
    let found = heads.map(|from| (apart(from), stack(from))).min().unwrap();
    assert_eq!(found.0, 0, "instructions, or their accesses, differ");
    assert!(found.1 < 20, "{} accesses lie elsewhere in their pages", found.1);
}

#[test]
fn a_program_without_marks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["/bin/true".to_owned()];
    let fault = record("true", &command, &folder.path().join("true.hwt"), 1000).unwrap_err();
    let said = fault.to_string();
    assert!(said.contains("no begin mark") || said.contains("under ptrace"), "{said}");
    assert!(!folder.path().join("true.hwt").exists());
}

#[test]
fn a_stretch_that_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let command = [programs().display().to_string(), PROGRAM.to_owned()];
    let out = folder.path().join("walk.hwt");
    let said = record("walk", &command, &out, 1000).unwrap_err().to_string();
    assert!(said.contains("more than 1000 instructions") || said.contains("ptrace"), "{said}");
    assert!(!out.exists());
}
