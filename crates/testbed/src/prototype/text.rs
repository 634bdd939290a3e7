//! Text like a page of an encyclopaedia: words by Zipf's law, sentences, headings, links.

use halfwink_engine::{stream, Stream};
use rand::{Rng, RngExt};

/// Words of the language: as many as a few thousand pages use.
const WORDS: usize = 50_000;
/// The most frequent ones, which make up a third of all text.
const COMMON: &str = "the of and in to a was is for on as by with he that at from his it an were \
                      are which this also be had or has first one their its new after but who not \
                      they have her she two been other when there all school time during may";
const ONSETS: [&str; 20] = [
    "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "ch",
    "pl", "sh",
];
const NUCLEI: [&str; 10] = ["a", "e", "i", "o", "u", "ea", "ou", "ai", "io", "e"];
const CODAS: [&str; 12] = ["", "", "", "n", "r", "s", "t", "l", "nd", "st", "m", "ng"];

/// A language: its words, and how often each is used.
pub struct Language {
    words: Vec<String>,
    /// Alias table (Walker 1977): a share of a slot is its own word, the rest another's.
    slots: Vec<(u32, u32)>,
}

impl Default for Language {
    fn default() -> Language {
        Language::new(WORDS)
    }
}

impl Language {
    /// The language with so many words; the same words, however many.
    #[must_use]
    pub fn new(count: usize) -> Language {
        let mut random = stream(0, "words");
        let mut words: Vec<String> = COMMON.split_whitespace().map(String::from).collect();
        while words.len() < count {
            // Rare words are longer.
            let syllables = 1 + (words.len() as f64).log10() as usize / 2 + pick(&mut random, 3);
            let mut word = String::new();
            for _ in 0..syllables {
                word += ONSETS[pick(&mut random, ONSETS.len())];
                word += NUCLEI[pick(&mut random, NUCLEI.len())];
                word += CODAS[pick(&mut random, CODAS.len())];
            }
            words.push(word);
        }
        words.truncate(count.max(1));
        let weights: Vec<f64> = (1..=words.len()).map(|rank| 1.0 / rank as f64).collect();
        Language { slots: alias(&weights), words }
    }

    /// One word, as often as its rank tells: the n-th most frequent 1/n as often as the first.
    #[inline]
    fn word(&self, random: &mut Stream) -> &str {
        let bits = random.next_u64();
        let slot = (u128::from(bits) * self.slots.len() as u128 >> 64) as usize;
        let (own, other) = self.slots[slot];
        &self.words[if bits as u32 <= own { slot } else { other as usize }]
    }

    /// A page of exactly so many bytes of ASCII.
    #[must_use]
    pub fn page(&self, bytes: usize, random: &mut Stream) -> Vec<u8> {
        let mut page = Vec::with_capacity(bytes + 256);
        while page.len() < bytes {
            self.sentence(&mut page, random);
        }
        page.truncate(bytes);
        if let Some(last) = page.last_mut() {
            *last = b'\n';
        }
        page
    }

    fn sentence(&self, page: &mut Vec<u8>, random: &mut Stream) {
        let dice = random.random::<u32>();
        if dice.is_multiple_of(40) {
            page.extend_from_slice(b"\n\n== ");
            self.capital(page, random);
            page.extend_from_slice(b" ==\n");
        } else if dice.is_multiple_of(5) {
            page.push(b'\n');
        }
        self.capital(page, random);
        for n in 0..4 + (dice >> 8) % 24 {
            page.push(b' ');
            // Every 16th word links to a page.
            if (dice >> 16 ^ n) % 16 == 0 {
                page.extend_from_slice(b"[[");
                page.extend_from_slice(self.word(random).as_bytes());
                page.extend_from_slice(b"]]");
            } else {
                page.extend_from_slice(self.word(random).as_bytes());
            }
            if n % 9 == 8 {
                page.push(b',');
            }
        }
        page.extend_from_slice(b". ");
    }

    fn capital(&self, page: &mut Vec<u8>, random: &mut Stream) {
        let at = page.len();
        page.extend_from_slice(self.word(random).as_bytes());
        page[at..=at].make_ascii_uppercase();
    }
}

fn pick(random: &mut Stream, below: usize) -> usize {
    random.random_range(0..below)
}

/// Returns, for each slot, the share of it that is its own (of 2^32), and the owner of the rest.
fn alias(weights: &[f64]) -> Vec<(u32, u32)> {
    let total: f64 = weights.iter().sum();
    let mut left: Vec<f64> =
        weights.iter().map(|weight| weight / total * weights.len() as f64).collect();
    let mut slots: Vec<(u32, u32)> = (0..weights.len()).map(|n| (u32::MAX, n as u32)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..left.len()).partition(|&n| left[n] < 1.0);
    while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
        slots[poor] = ((left[poor] * 4_294_967_296.0) as u32, rich as u32);
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn pages_have_their_length_and_are_ascii() {
        let language = Language::default();
        for bytes in [0, 1, 2, 6_000, 123_457] {
            let page = language.page(bytes, &mut stream(1, "page"));
            assert_eq!(page.len(), bytes);
            assert!(page.is_ascii());
            assert_eq!(page, language.page(bytes, &mut stream(1, "page")));
        }
        let other = language.page(6_000, &mut stream(2, "page"));
        assert_ne!(other, language.page(6_000, &mut stream(1, "page")));
    }

    #[test]
    fn words_follow_the_law() {
        let language = Language::new(1000);
        let mut random = stream(1, "law");
        let drawn = 400_000;
        let mut counts: HashMap<&str, f64> = HashMap::new();
        for _ in 0..drawn {
            *counts.entry(language.word(&mut random)).or_default() += 1.0;
        }
        let harmonic: f64 = (1..=1000).map(|n| 1.0 / f64::from(n)).sum();
        for rank in [1, 2, 3, 10, 50] {
            let expected = f64::from(drawn) / harmonic / rank as f64;
            let found = counts[language.words[rank - 1].as_str()];
            // Five standard deviations.
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {found} {expected}");
        }
    }

    #[test]
    fn an_alias_table_keeps_every_share() {
        let weights = [5.0, 1.0, 0.5, 3.0, 0.001];
        let slots = alias(&weights);
        let mut shares = [0.0; 5];
        for (slot, &(own, other)) in slots.iter().enumerate() {
            let own = (f64::from(own) + 1.0) / 4_294_967_296.0;
            shares[slot] += own / 5.0;
            shares[other as usize] += (1.0 - own) / 5.0;
        }
        for (share, weight) in shares.iter().zip(weights) {
            assert!((share - weight / 9.501).abs() < 1e-8, "{share} {weight}");
        }
    }
}
