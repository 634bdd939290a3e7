//! What requests use, as dumps tell (Gottschlag 2016, Sec 3.3 and 4.1).

use halfwink_policy::preheat::{rle, LineSet};
use halfwink_preheat::{Flush, Node, Prototype};

use super::{PreheatInfo, SEED};
use crate::table::{integer, real, text, Table};
use crate::world::Tables;

/// Requests of Fig 3.3, of which every hundredth is dumped.
const SERIES: u64 = 10_000;
const EVERY: u64 = 100;
/// Dumps that are intersected in Sec 4.1.2.
const DUMPS: u32 = 10;

/// Dumps of one service's series.
struct Series {
    dumps: Vec<LineSet>,
}

fn pct(part: f64, of: f64) -> f64 {
    100.0 * part / of.max(1e-9)
}

/// Lines of the second that are not in the first, in per cent of the second.
fn differing(first: &LineSet, second: &LineSet) -> f64 {
    pct((second.len() - first.common(second)) as f64, second.len() as f64)
}

impl Series {
    fn of(info: &PreheatInfo, service: usize) -> Series {
        let mut prototype = Prototype::new(&info.spec, SEED);
        let mut touches = Vec::new();
        let mut dumps = Vec::new();
        for n in 0..SERIES {
            if n == SERIES / 2 {
                prototype.node.sets.restart(service);
            }
            if n.is_multiple_of(EVERY) {
                dumps.push(prototype.dump(service, 1));
            } else {
                prototype.node.sets.request(service, &mut touches);
            }
        }
        Series { dumps }
    }

    fn mean(&self, pairs: impl Iterator<Item = (usize, usize)>) -> f64 {
        let all: Vec<f64> = pairs.map(|(a, b)| differing(&self.dumps[a], &self.dumps[b])).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

impl PreheatInfo {
    pub(super) fn set_tables(&self) -> Tables {
        let mut facts = Table::new(&[text("workload"), text("fact"), real("value")]);
        let heads = [text("workload"), integer("request"), integer("lines"), integer("differing")];
        let mut restart = Table::new(&heads);
        for (service, name) in self.spec.services.keys().enumerate() {
            let series = Series::of(self, service);
            let half = series.dumps.len() / 2;
            let mut fact = |fact: &str, value: f64| {
                facts.push(vec![name.as_str().into(), fact.into(), value.into()]);
            };
            let near = series.mean((0..half - 1).map(|n| (n, n + 1)));
            let far = series.mean((0..half / 2).map(|n| (n, n + half / 2)));
            fact("difference_pct", series.mean((1..half).map(|n| (0, n))));
            fact("difference_near_pct", near);
            fact("difference_far_pct", far);
            let after = series.mean((half..2 * half).map(|n| (0, n)));
            fact("difference_after_restart_pct", after);
            for (n, dump) in series.dumps.iter().enumerate() {
                let other = dump.len() - series.dumps[0].common(dump);
                let request = EVERY * n as u64;
                let row =
                    vec![name.as_str().into(), request.into(), dump.len().into(), other.into()];
                restart.push(row);
            }
            self.windows(service, &mut fact);
            fact("evicted_pct", self.evicted(service));
        }
        self.pairs(&mut facts);
        vec![("sets", facts), ("restart", restart), ("lengths", self.lengths())]
    }

    /// Windows of ten requests beside windows of one (Sec 4.1.2).
    fn windows(&self, service: usize, fact: &mut impl FnMut(&str, f64)) {
        let mut prototype = Prototype::new(&self.spec, SEED);
        let before = prototype.dump_before_load(service);
        let own = |dump: LineSet| dump.subtract(&before);
        let (one, ten) = (prototype.dump(service, 1), prototype.dump(service, 10));
        let (one, ten) = (own(one).len() as f64, own(ten).len() as f64);
        fact("ten_requests_pct", pct(ten - one, one));
        let mut common = |requests: u32| {
            let mut all = prototype.dump(service, requests);
            for _ in 1..DUMPS {
                all.keep_common(&prototype.dump(service, requests));
            }
            own(all).len() as f64
        };
        let (one, ten) = (common(1), common(10));
        fact("ten_requests_intersected_pct", pct(ten - one, one));
    }

    /// Returns the share of a request's lines, in per cent, that a cache of twice the size lost
    /// before its end (Sec 3.3.2).
    fn evicted(&self, service: usize) -> f64 {
        let mut spec = self.spec.clone();
        spec.llc.kib *= 2;
        let mut node = Node::new(&spec, SEED);
        // A prefetcher would bring lines that no request touched, and evict others for them.
        node.prefetches = false;
        node.flush(Flush::CACHES);
        let served = node.serve(service, Flush::CACHES);
        pct(
            (served.touched - node.dump().len() as u64 + self.spec.estimate.buffer_lines) as f64,
            served.touched as f64,
        )
    }

    /// Adds what two services have in common (Sec 3.3.5).
    fn pairs(&self, facts: &mut Table) {
        let mut prototype = Prototype::new(&self.spec, SEED);
        let sets: Vec<LineSet> = (0..self.spec.services.len())
            .map(|service| {
                let estimated = prototype.estimate(service, DUMPS);
                // What the dump itself is, is no service's.
                let buffer: LineSet = prototype.buffer();
                estimated.raw.subtract(&buffer)
            })
            .collect();
        let names: Vec<&String> = self.spec.services.keys().collect();
        for a in 0..sets.len() {
            for b in a + 1..sets.len() {
                let both = sets[a].common(&sets[b]) as f64;
                let all = (sets[a].len() + sets[b].len()) as f64 - both;
                let name = format!("{}+{}", names[a], names[b]);
                facts.push(vec![name.as_str().into(), "shared_pct".into(), pct(both, all).into()]);
            }
        }
    }

    /// Runs of the web server's set by length (Fig 4.4).
    fn lengths(&self) -> Table {
        let heads = [integer("length"), integer("runs"), integer("bytes"), real("words_pct")];
        let mut table = Table::new(&heads);
        let mut prototype = Prototype::new(&self.spec, SEED);
        let estimated = prototype.estimate(self.web(), self.spec.estimate.repetitions);
        let set = &estimated.set;
        let words = rle::encode64(set).map_or(0, |words| words.len());
        let words_pct = pct(words as f64, set.len() as f64);
        let mut counts = [0u64; 65];
        set.runs().for_each(|run| counts[run.lines.min(64) as usize] += 1);
        for (length, &runs) in counts.iter().enumerate().skip(1) {
            let bytes = runs * length as u64 * 64;
            table.push(vec![length.into(), runs.into(), bytes.into(), words_pct.into()]);
        }
        table
    }
}
