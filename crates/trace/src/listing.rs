//! The first items of a trace as text, for people.

use std::fmt::Write;

use crate::decode::mnemonic;
use crate::error::TraceError;
use crate::format::TraceFile;
use crate::program::{Program, Template};
use crate::record::Instr;
use crate::source::{Address, Item, Source};

/// At most `count` instructions from the first one on, and the events between them, a line each.
///
/// # Errors
/// If the trace is damaged there.
pub fn listing(file: &TraceFile, count: u64) -> Result<String, TraceError> {
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut out = String::new();
    let mut shown = 0;
    while shown < count {
        match stream.next_item()? {
            Item::End => break,
            Item::Event(event) => {
                writeln!(out, "{:>10}  -- {event:?}", shown).expect("writing to a string");
            }
            Item::Run(id) => {
                let template = program.template(id);
                let instrs = program.instrs_of(program.block(template.block));
                for (n, instr) in instrs.iter().enumerate() {
                    if n < usize::from(template.executed) && shown < count {
                        line(
                            &mut out,
                            file,
                            &program,
                            template,
                            n,
                            instr,
                            stream.addresses(),
                            shown,
                        );
                        shown += 1;
                    }
                }
            }
        }
    }
    Ok(out)
}

#[allow(clippy::too_many_arguments)]
fn line(
    out: &mut String,
    file: &TraceFile,
    program: &Program,
    template: &Template,
    n: usize,
    instr: &Instr,
    addresses: &[Address],
    number: u64,
) {
    let block = program.block(template.block);
    let privilege = if block.kernel { 'k' } else { 'u' };
    let pc = block.pc_of(instr);
    let name = match file.code().get(template.block.0 as usize) {
        Some(bytes) => {
            let start = usize::from(instr.offset).min(bytes.len());
            mnemonic(halfwink_units::VirtAddr(pc), &bytes[start..])
        }
        None => instr.kind.name().to_owned(),
    };
    let mut text = format!("{number:>10}  {privilege} {pc:016x}  {name:<12}");
    write!(text, " {:?} -> {:?}", instr.reads, instr.writes).expect("writing to a string");
    for (site, address) in program.sites_of(template).iter().zip(addresses) {
        if usize::from(site.instr) == n {
            let kind = if site.write { 'w' } else { 'r' };
            write!(text, "  {kind}{} {:x}={:x}", site.size, address.virt.0, address.phys.0)
                .expect("writing to a string");
        }
    }
    writeln!(out, "{}", text.trim_end()).expect("writing to a string");
}
