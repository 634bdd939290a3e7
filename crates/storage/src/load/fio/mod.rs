//! Job files of fio, as far as they say what is in flight (fio 3.41, HOWTO).

mod options;
mod sections;
mod sum;

use std::collections::HashMap;

use halfwink_inputs::Account;

use self::options::{means, nearest, Engine, Means};
use self::sections::Section;
use super::{Closed, File, Host, Issues, LoadError, MOST_IN_FLIGHT};

/// fio's defaults.
const BLOCK_BYTES: f64 = 4096.0;
const MIX_PCT: f64 = 50.0;
/// Most jobs and most bytes of a block.
const MOST_COPIES: f64 = 65_536.0;
/// assumption: what jobs without a limit do beside hides so few I/Os a second.
const FEW_A_SECOND: f64 = 1000.0;
const MOST_BLOCK: f64 = (1_u32 << 30) as f64;

/// Jobs alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Of its section.
    pub name: String,
    /// How many of it run (`numjobs`).
    pub copies: u32,
    /// What each has in flight.
    pub depth: u32,
    /// Of an I/O, in the mean.
    pub bytes: f64,
    /// Share that reads.
    pub reads: f64,
    /// I/Os a second of each at most.
    pub rate: Option<f64>,
    /// Whether times between them are exponential then.
    pub poisson: bool,
    /// From the end of an I/O to the next.
    pub think_us: f64,
}

/// A job file: what runs at once, by phases that follow each other (`stonewall`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// In order; each has a job.
    pub phases: Vec<Vec<Job>>,
    /// What is played, and what is not.
    pub account: Account,
}

/// Reads a job file.
pub(super) fn read(file: &File, text: &str, host: &Host) -> Result<Jobs, LoadError> {
    let sections = sections::read(file, text, host)?;
    let (mut jobs, mut account) = (Jobs::default(), Account::of("jobs of fio"));
    let mut order = Order::default();
    for section in &sections {
        let reader = Reader { file, section, kb: 1024.0 };
        // Before all other numbers, whose suffixes it gives a meaning.
        let kb = reader.value("kb_base").map_or("1024", |(value, _)| value);
        let kb = if kb == "1000" { 1000.0 } else { 1024.0 };
        let reader = Reader { kb, ..reader };
        let Some(job) = reader.job(&mut account)? else { continue };
        reader.options(&mut account)?;
        let phase = order.phase(&reader)?;
        jobs.phases.resize(jobs.phases.len().max(phase + 1), Vec::new());
        jobs.phases[phase].push(job);
    }
    // A phase whose jobs do no block I/O leaves a hole in the numbers.
    jobs.phases.retain(|phase| !phase.is_empty());
    let copies: f64 = jobs.phases.iter().flatten().map(|job| f64::from(job.copies)).sum();
    if copies > MOST_COPIES {
        let message = format!("found {copies} jobs, expected at most {MOST_COPIES}");
        return Err(LoadError::of(file, None, message));
    }
    account.play("jobs", copies as u64);
    if jobs.phases.is_empty() {
        let message = match account.neutral.iter().chain(&account.matters).next() {
            Some(first) => format!("found no job with block I/O: {first}"),
            None => "found no jobs, expected a section `[name]`".to_owned(),
        };
        return Err(LoadError::of(file, None, message));
    }
    jobs.mixed(host.cpus.max(1), &mut account);
    account.settle(&host.ignored).map_err(|message| LoadError::of(file, None, message))?;
    jobs.account = account;
    Ok(jobs)
}

/// In which phase jobs run: `stonewall` begins one, `wait_for` follows that of a job.
#[derive(Default)]
struct Order {
    of_name: HashMap<String, usize>,
    /// Where jobs begin that wait for none.
    base: usize,
    /// Phases so far.
    count: usize,
}

impl Order {
    fn phase(&mut self, reader: &Reader) -> Result<usize, LoadError> {
        if reader.is_set("stonewall") || reader.is_set("wait_for_previous") {
            self.base = self.count;
        }
        let mut phase = self.base;
        if let Some((name, line)) = reader.value("wait_for") {
            let before = self.of_name.get(name).ok_or_else(|| {
                let message = format!("wait_for: found `{name}`, expected a job before this one");
                reader.wrong(line, message)
            })?;
            phase = phase.max(before + 1);
        }
        self.count = self.count.max(phase + 1);
        self.of_name.insert(reader.section.name.clone(), phase);
        Ok(phase)
    }
}

/// Reads one section's values.
#[derive(Clone, Copy)]
struct Reader<'a> {
    file: &'a File,
    section: &'a Section,
    /// What a `k` is.
    kb: f64,
}

impl<'a> Reader<'a> {
    fn wrong(&self, line: u64, message: String) -> LoadError {
        LoadError::of(self.file, Some(line), message)
    }

    fn value(&self, key: &str) -> Option<(&'a str, u64)> {
        // From the end: a section's own values stand behind the global ones that it was given.
        let found = self.section.values.iter().rev().find(|(name, _, _)| name == key);
        found.map(|(_, value, line)| (value.as_str(), *line))
    }

    fn either(&self, key: &str, other: &str) -> Option<(&'a str, u64)> {
        self.last(key, other).map(|(_, value, line)| (value, line))
    }

    /// Returns which of two names comes last, with its value and line: of two names of one option,
    /// and of two options that are each other's opposite, fio takes what it reads last.
    fn last(&self, key: &str, other: &str) -> Option<(&'a str, &'a str, u64)> {
        let found =
            self.section.values.iter().rev().find(|(name, ..)| name == key || name == other);
        found.map(|(name, value, line)| (name.as_str(), value.as_str(), *line))
    }

    fn is_set(&self, key: &str) -> bool {
        self.value(key).is_some_and(|(value, _)| value != "0")
    }

    /// A number with a suffix, in a range.
    fn number(&self, key: &str, word: &str, line: u64, most: f64) -> Result<f64, LoadError> {
        let found = scaled(word, self.kb).filter(|found| (0.0..=most).contains(found));
        found.ok_or_else(|| {
            let message = format!("{key}: found `{word}`, expected a number up to {most}");
            self.wrong(line, message)
        })
    }

    fn whole(&self, key: &str, default: f64, most: f64) -> Result<u32, LoadError> {
        let Some((word, line)) = self.value(key) else { return Ok(default as u32) };
        let found = self.number(key, word, line, most)?;
        if found < 1.0 || found.fract() != 0.0 {
            let message = format!("{key}: found `{word}`, expected a whole number from 1 on");
            return Err(self.wrong(line, message));
        }
        Ok(found as u32)
    }

    /// Values of reads and of writes: one for both, or apart by a comma; none where it is empty.
    fn pair(&self, word: &'a str) -> [&'a str; 2] {
        let mut words = word.split(',').map(str::trim);
        let reads = words.next().unwrap_or("");
        [reads, words.next().unwrap_or(reads)]
    }

    /// The mean block of reads and of writes.
    fn blocks(&self) -> Result<[f64; 2], LoadError> {
        let mut found = [BLOCK_BYTES; 2];
        if let Some((word, line)) = self.either("bs", "blocksize") {
            for (bytes, word) in found.iter_mut().zip(self.pair(word)) {
                if !word.is_empty() {
                    *bytes = self.number("bs", word, line, MOST_BLOCK)?;
                }
            }
        }
        if let Some((word, line)) = self.either("bsrange", "blocksize_range") {
            for (bytes, word) in found.iter_mut().zip(self.pair(word)) {
                let (least, most) = word.split_once(['-', ':']).unwrap_or((word, word));
                let end = |word: &str| self.number("bsrange", word.trim(), line, MOST_BLOCK);
                *bytes = (end(least)? + end(most)?) / 2.0;
            }
        }
        if let Some((word, line)) = self.value("bssplit") {
            for (bytes, word) in found.iter_mut().zip(self.pair(word)) {
                *bytes = self.split(word, line)?;
            }
        }
        if let Some(bytes) = found.iter().find(|bytes| **bytes < 1.0) {
            let message = format!("bs: found {bytes}, expected 1 byte or more");
            return Err(self.wrong(self.section.line, message));
        }
        Ok(found)
    }

    /// `4k/60:64k/40`; sizes without a share have what is left alike.
    fn split(&self, word: &str, line: u64) -> Result<f64, LoadError> {
        let (mut sum, mut shares, mut rest) = (0.0, 0.0, Vec::new());
        for part in word.split(':') {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let size = self.number("bssplit", size.trim(), line, MOST_BLOCK)?;
            if share.trim().is_empty() {
                rest.push(size);
                continue;
            }
            let share = self.number("bssplit", share.trim(), line, 100.0)?;
            (sum, shares) = (sum + size * share, shares + share);
        }
        if shares > 100.0 || (rest.is_empty() && shares < 100.0) {
            let message = format!("bssplit: shares sum to {shares}, expected 100");
            return Err(self.wrong(line, message));
        }
        let each = (100.0 - shares) / (rest.len() as f64).max(1.0);
        Ok((sum + rest.iter().map(|size| size * each).sum::<f64>()) / 100.0)
    }

    /// Share of reads; none of a job that only trims.
    fn reads(&self, account: &mut Account) -> Result<Option<f64>, LoadError> {
        let Some((word, line)) = self.either("rw", "readwrite") else { return Ok(Some(1.0)) };
        match word.split(':').next().unwrap_or(word) {
            "read" | "randread" => Ok(Some(1.0)),
            "write" | "randwrite" => Ok(Some(0.0)),
            "trim" | "randtrim" => {
                account.leave_out("trim", "a job that moves no data", 1);
                Ok(None)
            }
            "trimwrite" | "randtrimwrite" => {
                account.leave_out("trim", "before each write", 1);
                Ok(Some(0.0))
            }
            "rw" | "readwrite" | "randrw" => {
                let mix = self.last("rwmixread", "rwmixwrite");
                let mix = mix.map(|(key, word, line)| {
                    let pct = self.number(key, word, line, 100.0)?;
                    Ok(if key == "rwmixwrite" { 100.0 - pct } else { pct })
                });
                Ok(Some(mix.transpose()?.unwrap_or(MIX_PCT) / 100.0))
            }
            _ => {
                let message = format!("rw: found `{word}`, expected reads, writes, both or trims");
                Err(self.wrong(line, message))
            }
        }
    }

    /// The least of what limits reads and writes, whose mix is given.
    fn limit(&self, reads: f64, blocks: [f64; 2]) -> Result<Option<f64>, LoadError> {
        let mut least: Option<f64> = None;
        for (key, units) in [("rate", blocks), ("rate_iops", [1.0; 2])] {
            let Some((word, line)) = self.value(key) else { continue };
            let directions = self.pair(word).into_iter().zip(units).zip([reads, 1.0 - reads]);
            for ((word, unit), share) in directions {
                if word.is_empty() || share <= 0.0 {
                    continue;
                }
                // A limit on reads alone limits both: the mix is kept, so that writes wait with
                // them.
                let found = self.number(key, word, line, 1e15)? / unit / share;
                if found > 0.0 {
                    least = Some(least.map_or(found, |least| least.min(found)));
                }
            }
        }
        Ok(least)
    }

    /// Sorts options into what is played, what makes no difference, and what does.
    fn options(&self, account: &mut Account) -> Result<(), LoadError> {
        for (name, value, line) in &self.section.values {
            match means(name, value) {
                Means::Played | Means::Neutral => {}
                Means::Unplayed => account.leave_out(name, "", 1),
                Means::Matters(why) => account.miss(name, why, 1),
                Means::Unknown => {
                    let near = nearest(name).map(|near| format!("; did you mean `{near}`?"));
                    let near = near.unwrap_or_else(|| ", expected one of fio's".to_owned());
                    return Err(self.wrong(*line, format!("unknown option `{name}`{near}")));
                }
            }
        }
        Ok(())
    }

    /// What a job has in flight, by its engine; none if it does no block I/O.
    fn depth(&self, account: &mut Account) -> Result<Option<u32>, LoadError> {
        let (engine, line) = self.value("ioengine").unwrap_or(("psync", self.section.line));
        let depth = self.whole("iodepth", 1.0, MOST_COPIES)?;
        let is_direct = self
            .last("direct", "buffered")
            .is_some_and(|(key, word, _)| (key == "direct") == (word != "0"));
        match Engine::of(engine) {
            Engine::Waits => Ok(Some(1)),
            Engine::Queues => Ok(Some(depth)),
            Engine::QueuesDirect if is_direct || depth == 1 => Ok(Some(depth)),
            Engine::QueuesDirect => {
                let why = "libaio without direct=1 has one in flight, whatever iodepth says";
                account.leave_out("buffered", why, 1);
                Ok(Some(1))
            }
            Engine::NoBlocks => {
                let about = format!("job {}: no block I/O of this machine", self.section.name);
                account.miss(engine, &about, 1);
                Ok(None)
            }
            Engine::Unknown => {
                let message = format!("ioengine: found `{engine}`, expected one of fio's own");
                Err(self.wrong(line, message))
            }
        }
    }

    /// The job; none if it has no block I/O that is played.
    fn job(&self, account: &mut Account) -> Result<Option<Job>, LoadError> {
        if let Some((word, line)) = self.value("read_iolog") {
            let folder = std::path::Path::new(&self.file.name).parent();
            let named = folder.unwrap_or(std::path::Path::new("")).join(word);
            let message = format!(
                "read_iolog: this job replays `{word}`; name that file: {}",
                named.display()
            );
            return Err(self.wrong(line, message));
        }
        let Some(depth) = self.depth(account)? else { return Ok(None) };
        let (reads, blocks) = (self.reads(account)?, self.blocks()?);
        let Some(reads) = reads else { return Ok(None) };
        let think_us = self.value("thinktime").map_or(Ok(0.0), |(word, line)| {
            microseconds(word).filter(|us| (0.0..=1e9).contains(us)).ok_or_else(|| {
                self.wrong(line, format!("thinktime: found `{word}`, expected up to 1000 s"))
            })
        })?;
        Ok(Some(Job {
            name: self.section.name.clone(),
            copies: self.whole("numjobs", 1.0, MOST_COPIES)?,
            depth,
            bytes: reads * blocks[0] + (1.0 - reads) * blocks[1],
            reads,
            rate: self.limit(reads, blocks)?,
            poisson: self.value("rate_process").is_some_and(|(word, _)| word == "poisson"),
            think_us,
        }))
    }
}

/// A number, and by a suffix how many: with a base of 1024 (fio's default) `4k` is 4096 and `4ki`
/// is 4000.
fn scaled(word: &str, kb: f64) -> Option<f64> {
    let word = word.trim().to_ascii_lowercase();
    if word.starts_with('(') {
        return sum::value(&word, |number| scaled(number, kb));
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(|value| value as f64);
    }
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, suffix) = word.split_at(end);
    let unit = suffix.strip_suffix('b').unwrap_or(suffix);
    let (unit, is_other) = unit.strip_suffix('i').map_or((unit, false), |unit| (unit, true));
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|it| *it == unit)?;
    // `i` alone is no suffix.
    if is_other && power == 0 {
        return None;
    }
    // 1000 for 1024 and 1024 for 1000: an `i` means the other base, as fio's HOWTO has it for
    // `kb_base=1024`.
    let base = if is_other { 2024.0 - kb } else { kb };
    Some(number.parse::<f64>().ok()? * base.powi(power as i32))
}

fn microseconds(word: &str) -> Option<f64> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let us = match unit {
        "" | "us" | "usec" => 1.0,
        "ms" | "msec" => 1e3,
        "s" => 1e6,
        "m" => 6e7,
        "h" => 3.6e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * us)
}

impl Jobs {
    /// The phase with most in flight: the first of those.
    #[must_use]
    pub fn busiest(&self) -> &[Job] {
        let in_flight = |phase: &&Vec<Job>| -> u64 {
            phase.iter().map(|job| u64::from(job.copies) * u64::from(job.depth)).sum()
        };
        // From the end, since `max_by_key` takes the last of equals and the first phase is wanted.
        self.phases.iter().rev().max_by_key(in_flight).map_or(&[], Vec::as_slice)
    }

    /// Returns the jobs of the busiest phase on each of so many CPUs that has any: they go to CPUs
    /// by turns. On a CPU that a job without a limit keeps busy, those with a limit are left out.
    #[must_use]
    pub fn of_cpus(&self, cpus: usize) -> Vec<Vec<&Job>> {
        let mut of_cpu = by_turns(self.busiest(), cpus);
        for jobs in &mut of_cpu {
            if jobs.iter().any(|job| job.rate.is_none()) {
                jobs.retain(|job| job.rate.is_none());
            }
        }
        of_cpu
    }

    /// Returns the load of each CPU: the jobs of one CPU are one.
    pub(super) fn issues(&self, cpus: u16) -> Vec<Issues> {
        self.of_cpus(usize::from(cpus)).iter().map(|jobs| together(jobs)).collect()
    }

    /// Says which jobs of the busiest phase have a limit beside one without, and what that leaves
    /// out.
    fn mixed(&self, cpus: u32, account: &mut Account) {
        let of_cpu = by_turns(self.busiest(), cpus as usize);
        let mixed = of_cpu.iter().filter(|jobs| jobs.iter().any(|job| job.rate.is_none()));
        let limited: Vec<&Job> =
            mixed.flatten().copied().filter(|job| job.rate.is_some()).collect();
        let rate: f64 = limited.iter().filter_map(|job| job.rate).sum();
        let why = format!("{rate:.3} I/Os a second in all, on CPUs of jobs without a limit");
        if rate < FEW_A_SECOND {
            account.leave_out("jobs with a limited rate", &why, limited.len() as u64);
        } else {
            account.miss("rate", &why, limited.len() as u64);
        }
    }
}

/// Returns the jobs of each CPU that has any.
fn by_turns(jobs: &[Job], cpus: usize) -> Vec<Vec<&Job>> {
    let copies = jobs.iter().flat_map(|job| (0..job.copies).map(move |_| job));
    let mut of_cpu = vec![Vec::new(); cpus];
    for (number, job) in copies.enumerate() {
        of_cpu[number % cpus].push(job);
    }
    of_cpu.retain(|jobs| !jobs.is_empty());
    of_cpu
}

/// Jobs of one CPU as one.
fn together(jobs: &[&Job]) -> Issues {
    let depths: f64 = jobs.iter().map(|job| f64::from(job.depth)).sum();
    let mean = |of: fn(&Job) -> f64| {
        jobs.iter().map(|job| f64::from(job.depth) * of(job)).sum::<f64>() / depths
    };
    // All have a limit, or none has.
    let rates: Option<f64> = jobs.iter().map(|job| job.rate).sum();
    Issues::Closed(Closed {
        depth: depths.min(f64::from(MOST_IN_FLIGHT)) as u32,
        bytes: mean(|job| job.bytes).max(1.0) as u32,
        rate: rates,
        poisson: jobs.iter().any(|job| job.poisson),
        think_ps: (1e6 * mean(|job| job.think_us)) as u64,
    })
}
