//! The four workloads of Niccolini 2012, Sec 3.1.2: what is done with the content of a file.

use std::io::Write;
use std::str::FromStr;

use flate2::write::GzEncoder;
use flate2::Compression;
use serde::Serialize;

use super::Error;

/// Level of compression.
/// assumption: zlib's default; the thesis names none.
const LEVEL: u32 = 6;

/// Workload of a request: the way in which its answer is made from the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Content of the file itself.
    Readfile,
    /// Words with their positions, sorted by word.
    Ksort,
    /// The file in gzip's format.
    Compress,
    /// Number of occurrences of each byte value.
    Count,
}

impl Workload {
    /// All workloads, in order.
    pub const ALL: [Workload; 4] =
        [Workload::Readfile, Workload::Ksort, Workload::Compress, Workload::Count];

    /// Returns the name that paths use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Workload::Readfile => "readfile",
            Workload::Ksort => "ksort",
            Workload::Compress => "compress",
            Workload::Count => "count",
        }
    }

    /// Type of what it returns.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Workload::Compress => "application/gzip",
            _ => "text/plain",
        }
    }

    /// Does it: `content` is the file's, `out` takes the result in place of what it held.
    pub fn run(self, content: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            Workload::Readfile => out.extend_from_slice(content),
            Workload::Ksort => ksort(content, out),
            Workload::Compress => compress(content, out),
            Workload::Count => count(content, out),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Workload, Error> {
        Workload::ALL.into_iter().find(|w| w.name() == name).ok_or_else(|| {
            Error::input(format!("workload {name}: expected readfile, ksort, compress or count"))
        })
    }
}

/// Words, split at white space, each with its number in the file: lines `WORD<tab>NUMBER` sorted by
/// word (its bytes), then number.
fn ksort(content: &[u8], out: &mut Vec<u8>) {
    // As Python's `bytes.split()`: the vertical tab is white space too.
    let words =
        content.split(|b| b.is_ascii_whitespace() || *b == 0x0b).filter(|word| !word.is_empty());
    let mut pairs: Vec<(&[u8], u32)> = words.zip(0u32..).collect();
    pairs.sort_unstable();
    for (word, number) in pairs {
        out.extend_from_slice(word);
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "\t{number}");
    }
}

fn compress(content: &[u8], out: &mut Vec<u8>) {
    let mut encoder = GzEncoder::new(out, Compression::new(LEVEL));
    // Likewise.
    let _ = encoder.write_all(content);
    let _ = encoder.finish();
}

/// 256 lines: how often each byte occurs, from 0 to 255.
fn count(content: &[u8], out: &mut Vec<u8>) {
    let mut bins = [0u32; 256];
    for &byte in content {
        bins[usize::from(byte)] += 1;
    }
    for bin in bins {
        let _ = writeln!(out, "{bin}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn run(workload: Workload, content: &[u8]) -> Vec<u8> {
        let mut out = b"what was there before".to_vec();
        workload.run(content, &mut out);
        out
    }

    #[test]
    fn handlers_return_sorted_keys_and_counts() {
        let text = b"b a\n\tcc a ";
        assert_eq!(run(Workload::Readfile, text), text);
        assert_eq!(run(Workload::Ksort, text), b"a\t1\na\t3\nb\t0\ncc\t2\n");
        let counts = String::from_utf8(run(Workload::Count, text)).unwrap();
        let counts: Vec<u32> = counts.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!((counts.len(), counts.iter().sum::<u32>()), (256, 10));
        assert_eq!((counts[9], counts[10], counts[32], counts[97]), (1, 1, 3, 2));
        let long = text.repeat(1000);
        let packed = run(Workload::Compress, &long);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, long);
        assert!(packed.len() < 200, "{}", packed.len());
    }

    #[test]
    fn workload_names_parse_to_themselves() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
            run(workload, b"");
        }
        assert!("sort".parse::<Workload>().is_err());
    }
}
