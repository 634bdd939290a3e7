//! Sections with right checksums and compression, and arbitrary contents: what gets past the outer
//! checks of a trace file.

use arbitrary::Arbitrary;
use halfwink_trace::{check, CodeForm, Header, Item, Source, TraceError, TraceFile, MAGIC};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Arbitrary, Debug)]
struct Section {
    kind: u8,
    head: Vec<u32>,
    columns: Vec<Vec<u8>>,
}

#[derive(Arbitrary, Debug)]
struct Input {
    decoded: bool,
    sections: Vec<Section>,
}

fn column(out: &mut Vec<u8>, bytes: &[u8]) {
    let packed = zstd::bulk::compress(bytes, 1).expect("compression in memory");
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend((packed.len() as u32).to_le_bytes());
    out.extend(packed);
}

fn section(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.extend([kind, 0, 0, 0]);
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(xxh3_64(body).to_le_bytes());
    out.extend(body);
}

fn container(input: &Input) -> Vec<u8> {
    let code = if input.decoded { CodeForm::Decoded } else { CodeForm::Bytes };
    let header = serde_json::to_vec(&Header::new("x", "x", code)).expect("a header is JSON");
    let mut out = MAGIC.to_vec();
    out.extend([1, 0, 0, 0]);
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(xxh3_64(&header).to_le_bytes());
    out.extend(header);
    let mut index = Vec::new();
    for (n, s) in input.sections.iter().take(6).enumerate() {
        let kind = 1 + s.kind % 3;
        let (name, chunk) = match kind {
            1 => ("dictionary", "null".to_owned()),
            3 => ("warm", "null".to_owned()),
            _ => {
                ("chunk", format!(r#"{{"first_instruction":{n},"instructions":1,"runs":1}}"#))
            }
        };
        index.push(format!(r#"{{"offset":{},"kind":"{name}","chunk":{chunk}}}"#, out.len()));
        let mut body: Vec<u8> = s.head.iter().take(8).flat_map(|w| w.to_le_bytes()).collect();
        for bytes in s.columns.iter().take(6) {
            column(&mut body, bytes);
        }
        section(&mut out, kind, &body);
    }
    let footer_at = out.len() as u64;
    let footer = format!(
        r#"{{"sections":[{}],"totals":{{"instructions":1,"kernel_instructions":0,"runs":1,
           "accesses":0,"repeats":0,"events":{{}},"idle_ns":0,"requests":0}}}}"#,
        index.join(",")
    );
    section(&mut out, 4, footer.as_bytes());
    out.extend(footer_at.to_le_bytes());
    out.extend(*b"HWTEND\r\n");
    out
}

fn read(bytes: Vec<u8>) -> Result<(), TraceError> {
    let file = TraceFile::from_bytes(bytes)?;
    file.warm()?;
    let mut stream = file.stream();
    while stream.next_item()? != Item::End {}
    check(&file).map(drop)
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(input) = crate::any::<Input>(bytes) else { return };
    let _ = read(container(&input));
}
