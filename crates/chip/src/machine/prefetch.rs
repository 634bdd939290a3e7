//! Prefetchers of a machine's cores, by cache.

use halfwink_engine::InputError;
use serde::Deserialize;
use toml::Spanned;

use super::value::Check;

/// Prefetchers of a core; none where a cache has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchSpec {
    /// Prefetcher of the instruction cache: next-line.
    pub l1i: Option<PrefetcherSpec>,
    /// Prefetcher of the data cache: next-line or stride.
    pub l1d: Option<PrefetcherSpec>,
    /// Prefetcher of the second level: next-line or streamer.
    pub l2: Option<PrefetcherSpec>,
}

/// Parameters of a prefetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetcherSpec {
    /// Method by which it predicts lines.
    pub kind: PrefetchKind,
    /// Lines that it asks for at one access, at most.
    pub degree: usize,
    /// Prefetch distance, in strides or lines.
    pub distance: usize,
    /// Instructions or streams that it follows.
    pub entries: usize,
    /// Lines that it has on their way, at most.
    pub queue: usize,
}

/// Kinds of prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// The lines behind one that is used.
    NextLine,
    /// Predicts by instruction the distance of its last accesses.
    Stride,
    /// Predicts by page the direction of its last reads.
    Streamer,
}

impl PrefetchKind {
    fn name(self) -> &'static str {
        match self {
            PrefetchKind::NextLine => "next-line",
            PrefetchKind::Stride => "stride",
            PrefetchKind::Streamer => "streamer",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrefetchSection {
    l1i: Option<PrefetcherSection>,
    l1d: Option<PrefetcherSection>,
    l2: Option<PrefetcherSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrefetcherSection {
    kind: Spanned<PrefetchKind>,
    degree: Spanned<usize>,
    queue: Spanned<usize>,
    distance: Option<Spanned<usize>>,
    entries: Option<Spanned<usize>>,
}

impl Check<'_> {
    pub(super) fn prefetch(
        &self,
        section: Option<&PrefetchSection>,
    ) -> Result<PrefetchSpec, InputError> {
        use PrefetchKind::{NextLine, Streamer, Stride};
        let Some(section) = section else { return Ok(PrefetchSpec::default()) };
        let of = |section: &Option<PrefetcherSection>, kinds: &[PrefetchKind]| {
            section.as_ref().map(|section| self.prefetcher(section, kinds)).transpose()
        };
        Ok(PrefetchSpec {
            l1i: of(&section.l1i, &[NextLine])?,
            l1d: of(&section.l1d, &[NextLine, Stride])?,
            l2: of(&section.l2, &[NextLine, Streamer])?,
        })
    }

    fn prefetcher(
        &self,
        section: &PrefetcherSection,
        kinds: &[PrefetchKind],
    ) -> Result<PrefetcherSpec, InputError> {
        let kind = *section.kind.get_ref();
        if !kinds.contains(&kind) {
            let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
            let message =
                format!("no `{}` prefetcher here, expected {}", kind.name(), names.join(" or "));
            return Err(self.fail(&section.kind, message));
        }
        let degree = self.within(&section.degree, 1, 64, "lines at an access")?;
        let queue = self.within(&section.queue, 1, 64, "lines on their way")?;
        if degree > queue {
            let message = format!(
                "a degree of {degree} lines, but a queue of {queue}: expected at most that"
            );
            return Err(self.fail(&section.degree, message));
        }
        let (distance, entries) = match (kind, &section.distance, &section.entries) {
            (PrefetchKind::NextLine, None, None) => (degree, 1),
            (PrefetchKind::NextLine, Some(given), _) | (PrefetchKind::NextLine, _, Some(given)) => {
                let message = "a next-line prefetcher has neither `distance` nor `entries`";
                return Err(self.fail(given, message));
            }
            (_, Some(distance), Some(entries)) => {
                (self.within(distance, 1, 64, "ahead")?, self.power_of_two(entries, "entries")?)
            }
            _ => {
                let message =
                    format!("a {} prefetcher needs `distance` and `entries`", kind.name());
                return Err(self.fail(&section.kind, message));
            }
        };
        if distance < degree {
            let message = format!(
                "a degree of {degree} lines, but a distance of {distance}: expected at \
                         most that"
            );
            return Err(self.fail(&section.degree, message));
        }
        Ok(PrefetcherSpec { kind, degree, distance, entries, queue })
    }
}
