use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::text::{number, wrong};
use crate::{Error, Mask};

/// A line of `schemata`: what a group has of a resource, by cache id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Masks of a cache.
    Masks(BTreeMap<u32, Mask>),
    /// Line of another kind (bandwidths): kept unchanged.
    Other(BTreeMap<u32, String>),
}

/// A group's `schemata`: lines by resource (`L2`, `L3CODE`, `MB`), in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata {
    /// Resources and what the group has of them.
    pub lines: Vec<(String, Line)>,
}

/// Returns whether a resource is a cache whose ways are given by masks.
pub(crate) fn is_cache(resource: &str) -> bool {
    let level = resource.strip_suffix("CODE").or_else(|| resource.strip_suffix("DATA"));
    matches!(level.unwrap_or(resource), "L2" | "L3")
}

impl Schemata {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// With file, line and what was expected.
    pub fn parse(text: &str, path: &Path) -> Result<Schemata, Error> {
        let mut lines: Vec<(String, Line)> = Vec::new();
        for (n, raw) in text.lines().enumerate() {
            let (resource, line) = parse_line(raw, path, n + 1)?;
            if lines.iter().any(|(known, _)| *known == resource) {
                return Err(wrong(path, n + 1, raw, "each resource once"));
            }
            lines.push((resource, line));
        }
        Ok(Schemata { lines })
    }

    /// A cache's masks by cache id.
    pub fn masks(&self, resource: &str) -> Option<&BTreeMap<u32, Mask>> {
        self.lines.iter().find_map(|(name, line)| match line {
            Line::Masks(masks) if name == resource => Some(masks),
            _ => None,
        })
    }

    /// The lines of these masks as text, without line ends.
    pub fn text_of(resource: &str, masks: &BTreeMap<u32, Mask>) -> String {
        let domains: Vec<String> = masks.iter().map(|(id, mask)| format!("{id}={mask}")).collect();
        format!("{resource}:{}", domains.join(";"))
    }
}

/// `L3:0=ff;1=0f`, with the blanks that the kernel pads with.
fn parse_line(raw: &str, path: &Path, n: usize) -> Result<(String, Line), Error> {
    let bad = || wrong(path, n, raw, "RESOURCE:ID=VALUE;ID=VALUE such as L3:0=ff;1=ff");
    let (resource, domains) = raw.split_once(':').ok_or_else(bad)?;
    let resource = resource.trim_start_matches(' ');
    let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    if resource.is_empty() || !resource.bytes().all(is_name) {
        return Err(bad());
    }
    let cache = is_cache(resource);
    let (mut masks, mut others) = (BTreeMap::new(), BTreeMap::new());
    for domain in domains.split(';') {
        let (id, value) = domain.split_once('=').ok_or_else(bad)?;
        let id = number(id.trim_start_matches(' ')).ok_or_else(bad)?;
        let value = value.trim_start_matches(' ');
        let is_value = |b: u8| b.is_ascii_graphic() && !b"=:;".contains(&b);
        if value.is_empty() || !value.bytes().all(is_value) {
            return Err(bad());
        }
        let twice = if cache {
            let expected = "masks of up to 32 bits in hexadecimal";
            let mask = Mask::parse(value).ok_or_else(|| wrong(path, n, raw, expected))?;
            masks.insert(id, mask).is_some()
        } else {
            others.insert(id, value.to_owned()).is_some()
        };
        if twice {
            return Err(wrong(path, n, raw, "each cache id once"));
        }
    }
    let line = if cache { Line::Masks(masks) } else { Line::Other(others) };
    Ok((resource.to_owned(), line))
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, line) in &self.lines {
            match line {
                Line::Masks(masks) => writeln!(f, "{}", Schemata::text_of(resource, masks))?,
                Line::Other(values) => {
                    let values: Vec<String> =
                        values.iter().map(|(id, value)| format!("{id}={value}")).collect();
                    writeln!(f, "{resource}:{}", values.join(";"))?;
                }
            }
        }
        Ok(())
    }
}
