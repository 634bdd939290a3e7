//! Arbitrary bytes as a module of a user's policy, or as what a module answers: it ends with one
//! line or plays on, and what it requests is read as it was written.

use std::sync::Arc;

use halfwink_policy::record::{Fields, Record, FIELDS};
use halfwink_policy::{
    circuits, completion, gating, offload, preheat, scaling, segregation, steering,
};
use halfwink_policy_module::{
    Code, Family, Limits, Started, ACTIONS, FIRST_EVENT, MORE, START,
};
use halfwink_policy_wasm::translated;

/// Events that a module is told of.
const CALLS: u64 = 20;
/// Bytes that a module answers with at each event: its timer, a count and eight actions.
const ANSWER: u64 = 8 * 34;
/// Places in the module's memory.
const BLOCK: u64 = 1024;
const ABOUT: u64 = 4096;
const ANSWERS: u64 = 8192;
const MOST: usize = 48 << 10;

fn start(code: &dyn Code, family: &Family) -> Result<Box<dyn Started>, String> {
    code.start(family, Limits::SIMULATED, &Arc::default())
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let module =
        if bytes.starts_with(b"\0asm") { bytes.to_vec() } else { answering(bytes) };
    let family = Family { name: "gating", events: &[], actions: &[], questions: &[] };
    let started = translated(&module);
    let started = started.and_then(|module| start(&*module.code, &family));
    let mut started = match started {
        Ok(started) => started,
        Err(line) => return is_one_line(&line),
    };
    started.begin(&[1.0; 16]);
    for call in 0..CALLS {
        let event = match call {
            0 => START,
            _ if call % 5 == 0 => MORE,
            _ => FIRST_EVENT + call,
        };
        if let Err(line) = started.call(1000 * call, event, &[call; FIELDS]) {
            return is_one_line(&line);
        }
        started.timer();
        for n in 0..started.count().min(ACTIONS as u64) as usize {
            let (number, fields) = started.action(n);
            comes_back::<gating::Action>(number, &fields);
            comes_back::<scaling::Action>(number, &fields);
            comes_back::<steering::Action>(number, &fields);
            comes_back::<completion::Action>(number, &fields);
            comes_back::<offload::Action>(number, &fields);
            comes_back::<preheat::Action>(number, &fields);
            comes_back::<circuits::Action>(number, &fields);
            comes_back::<segregation::Action>(number, &fields);
        }
    }
}

fn is_one_line(line: &str) {
    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
}

/// A record that can be read is written as it stood.
fn comes_back<A: Record>(number: u64, fields: &Fields) {
    let Some(kind) = number.checked_sub(1).and_then(|kind| usize::try_from(kind).ok()) else {
        return;
    };
    let Some(action) = A::take(kind, fields) else { return };
    let mut again = [0; FIELDS];
    let (same, count) = action.put(&mut again);
    assert_eq!(same, kind, "{}", A::KINDS[kind]);
    // A rest without a number may be read with any.
    let is_rest = A::KINDS[kind] == "rest" && count > 1;
    let count = if is_rest { count - 1 } else { count };
    assert_eq!(again[..count], fields[..count], "{}", A::KINDS[kind]);
}

/// A number of WebAssembly.
fn leb(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 127) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 128);
    }
}

/// An instruction that pushes an address. Addresses are below 2^31.
fn constant(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x41];
    // Signed: a further group of bits, where the last one would read as a sign.
    let mut left = number;
    loop {
        let low = (left & 127) as u8;
        left >>= 7;
        if left == 0 && low < 64 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 128);
    }
}

fn section(kind: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    let content = [leb(entries.len() as u64), entries.concat()].concat();
    [vec![kind], leb(content.len() as u64), content].concat()
}

/// A module that answers each call with the next bytes, whatever it is told.
fn answering(bytes: &[u8]) -> Vec<u8> {
    let about = b"{\"family\": \"gating\", \"title\": \"answers\"}\0".to_vec();
    let answers = bytes[..bytes.len().min(MOST)].to_vec();
    // Copies an answer behind the parameters, and moves on to the next one.
    let decide = [
        constant(BLOCK + 8 * 30),
        vec![0x23, 0],
        constant(ANSWER),
        vec![0xfc, 10, 0, 0],
        vec![0x23, 0],
        constant(ANSWER),
        vec![0x6a, 0x24, 0],
    ];
    let bodies = [constant(1), constant(ABOUT), constant(BLOCK), decide.concat()];
    let names = ["halfwink_abi", "halfwink_about", "halfwink_block", "halfwink_decide"];
    let export = |name: &str, kind: u8, at: u8| {
        [leb(name.len() as u64), name.as_bytes().to_vec(), vec![kind, at]].concat()
    };
    let exports = (0..).zip(names).map(|(at, name)| export(name, 0, at));
    let code = |body: &Vec<u8>| {
        let body = [vec![0], body.clone(), vec![0x0b]].concat();
        [leb(body.len() as u64), body].concat()
    };
    let data = |at: u64, bytes: Vec<u8>| {
        [vec![0], constant(at), vec![0x0b], leb(bytes.len() as u64), bytes].concat()
    };
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[vec![0x60, 0, 1, 0x7f], vec![0x60, 0, 0]]),
        section(3, &[vec![0], vec![0], vec![0], vec![1]]),
        section(5, &[vec![0, 1]]),
        section(6, &[[vec![0x7f, 1], constant(ANSWERS), vec![0x0b]].concat()]),
        section(7, &std::iter::once(export("memory", 2, 0)).chain(exports).collect::<Vec<_>>()),
        section(10, &bodies.iter().map(code).collect::<Vec<_>>()),
        section(11, &[data(ABOUT, about), data(ANSWERS, answers)]),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_answers_with_bytes_that_it_was_made_of() {
        let mut answer = [0_u8; ANSWER as usize];
        let words = [77_u64, 1, 4, 5, 6, 7];
        for (n, word) in words.into_iter().enumerate() {
            answer[8 * n..8 * n + 8].copy_from_slice(&word.to_le_bytes());
        }
        let family = Family { name: "gating", events: &[], actions: &[], questions: &[] };
        let code = translated(&answering(&answer)).unwrap().code;
        let mut started = start(&*code, &family).unwrap();
        started.begin(&[]);
        started.call(0, START, &[]).unwrap();
        assert_eq!((started.timer(), started.count()), (77, 1));
        let (number, fields) = started.action(0);
        assert_eq!((number, &fields[..3]), (4, &[5, 6, 7][..]));
    }
}
