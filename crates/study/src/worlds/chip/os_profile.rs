//! Profiles of the kernel's part in a workload, as tables.

use halfwink_chip::{
    os_profile, run_profile, Entry, EntryProfile, Geometry, OsProfile, ProfileCaches,
    LENGTH_CLASSES,
};
use halfwink_trace::{
    exception_name, interrupt_name, syscall_name, Event, Trap, TrapCounts, Traps,
};

use super::entries::PUBLISHED;
use crate::error::StudyError;
use crate::library::Library;
use crate::table::{integer, real, text, Kind, Table, Value};

/// Lengths, in instructions, at which invocations are divided into shorter and longer ones: the
/// thresholds of Nellans 2014, Fig 4.8 to 4.13 and Table 4.3, with 50 and 250 between them.
pub const THRESHOLDS: [u64; 7] = [50, 100, 250, 500, 1_000, 5_000, 10_000];

impl Library {
    /// Profiles the kernel in a workload on one core: tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `totals` | a fact (instructions, invocations, means; shares of 1) and its value |
    /// | `entries` | a cause of kernel entries |
    /// | `lengths` | a length in instructions, by cause and mode, with the number of runs |
    /// | `thresholds` | a length, with invocations and instructions up to it and beyond |
    /// | `levels` | a cache and the privilege of the access |
    /// | `evictions` | a cache and a class of kernel invocations |
    /// | `footprint` | who touched the lines |
    /// | `privileged_totals` and so on | the same, with window traps and TLB misses |
    ///
    /// The privileged ones (totals, entries, lengths, thresholds) are of a machine with register
    /// windows and software-filled TLBs, whose traps are kernel entries too.
    ///
    /// `caches` is the name of a machine, in which `set` changes values, or shapes of L1I, L1D and
    /// further levels (`32KB:8 32KB:8 256KB:8`). The caches begin as the recording left them.
    ///
    /// # Errors
    /// If nothing is named so, the workload needs more than one core, or its trace is damaged.
    pub fn os_profile(
        &self,
        workload: &str,
        caches: &str,
        set: &[(String, String)],
    ) -> Result<Vec<(&'static str, Table)>, StudyError> {
        let caches = self.profile_caches(caches, set)?;
        let task = || {
            let mut tasks = self.workload(workload)?.tasks(None)?;
            if tasks.len() == 1 {
                return Ok(tasks.remove(0));
            }
            let message = format!("workload `{workload}`: expected one that runs on one core");
            Err(StudyError::Usage(message))
        };
        // Two sources of one workload: the second pass adds traps, and a source cannot be wound
        // back.
        let mut recorded = task()?;
        let profile = os_profile(recorded.source.as_mut(), &recorded.warm, &caches)?;
        let model = self.entry_model(PUBLISHED, &[])?.traps;
        let mut traps = Traps::new(task()?.source, model);
        // This pass counts runs alone: its handlers have lengths, and no lines that a cache could
        // hold.
        let privileged = run_profile(&mut traps)?;
        let mut found = tables(&profile);
        found.extend([
            ("privileged_totals", privileged_totals(&privileged, traps.counts())),
            ("privileged_entries", entries(&privileged)),
            ("privileged_lengths", lengths(&privileged)),
            ("privileged_thresholds", thresholds(&privileged)),
        ]);
        Ok(found)
    }

    fn profile_caches(
        &self,
        caches: &str,
        set: &[(String, String)],
    ) -> Result<ProfileCaches, StudyError> {
        if !caches.contains(':') {
            return Ok(ProfileCaches::of(&self.machine(caches, set)?.machine));
        }
        let shapes: Vec<Geometry> = caches
            .split_whitespace()
            .map(|text| Geometry::parse(text).map_err(StudyError::Usage))
            .collect::<Result<_, _>>()?;
        match shapes[..] {
            // Tables have names for two levels behind the first (`LEVELS`); shapes are no machine,
            // in which a value could be set.
            [l1i, l1d, ref unified @ ..] if unified.len() <= 2 && set.is_empty() => {
                Ok(ProfileCaches { l1i, l1d, unified: unified.to_vec() })
            }
            _ => Err(StudyError::Usage(format!(
                "caches `{caches}`: expected a machine, or shapes of L1I and L1D and at most two \
                 more levels, such as `32KB:8 32KB:8 256KB:8`, with nothing to set"
            ))),
        }
    }
}

fn tables(profile: &OsProfile) -> Vec<(&'static str, Table)> {
    vec![
        ("totals", totals(profile)),
        ("entries", entries(profile)),
        ("lengths", lengths(profile)),
        ("thresholds", thresholds(profile)),
        ("levels", levels(profile)),
        ("evictions", evictions(profile)),
        ("footprint", footprint(profile)),
    ]
}

/// A share or a mean; nothing of nothing.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn totals(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[text("fact"), real("value")]);
    let [user, kernel] = profile.instructions;
    let (invocations, user_runs) = (profile.kernel_lengths().runs(), profile.user_lengths().runs());
    let sum = |of: fn(&EntryProfile) -> u64| profile.entries.values().map(of).sum::<u64>() as f64;
    for (fact, value) in [
        ("user_instructions", Some(user as f64)),
        ("kernel_instructions", Some(kernel as f64)),
        ("kernel_share", ratio(kernel, user + kernel)),
        ("invocations", Some(invocations as f64)),
        ("user_runs", Some(user_runs as f64)),
        ("kernel_instructions_per_invocation", ratio(kernel, invocations)),
        ("user_instructions_per_run", ratio(user, user_runs)),
        ("nested", Some(sum(|entry| entry.nested))),
        ("halts", Some(sum(|entry| entry.halts))),
        ("address_space_switches", Some(profile.address_space_switches as f64)),
    ] {
        table.push(vec![fact.into(), value.into()]);
    }
    table
}

/// Totals, and what all handlers of traps are of the kernel's instructions.
fn privileged_totals(profile: &OsProfile, counts: &TrapCounts) -> Table {
    let mut table = totals(profile);
    for (fact, handlers) in [
        ("window_trap_share", counts.window_instructions),
        ("tlb_miss_share", counts.tlb_instructions),
    ] {
        table.push(vec![fact.into(), ratio(handlers, profile.instructions[1]).into()]);
    }
    table
}

/// Kind, number and name of a cause.
fn cause(entry: Entry) -> [Value; 3] {
    match entry {
        Entry::Syscall(n) => ["syscall".into(), u64::from(n).into(), syscall_name(n).into()],
        Entry::Interrupt(v) => ["interrupt".into(), u64::from(v).into(), interrupt_name(v).into()],
        Entry::Exception(vector) => {
            let kind = match Trap::of(&Event::Exception { vector }) {
                Some(_) => "trap",
                None => "exception",
            };
            [kind.into(), u64::from(vector).into(), exception_name(vector).into()]
        }
        // A number would name a call: 0 is `read`.
        Entry::Unknown => ["unknown".into(), Value::Missing(Kind::Integer), "".into()],
    }
}

fn entries(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[
        text("kind"),
        integer("number"),
        text("name"),
        integer("invocations"),
        integer("kernel_instructions"),
        real("kernel_share"),
        real("mean_instructions"),
        integer("median_instructions"),
        integer("p90_instructions"),
        integer("longest_instructions"),
        real("user_instructions_before"),
        integer("nested"),
        integer("halts"),
    ]);
    for (&entry, found) in &profile.entries {
        let (runs, sum) = (found.kernel.runs(), found.kernel.instructions());
        let mut row = cause(entry).to_vec();
        row.extend([
            runs.into(),
            sum.into(),
            ratio(sum, profile.instructions[1]).into(),
            ratio(sum, runs).into(),
            found.kernel.quantile(0.5).into(),
            found.kernel.quantile(0.9).into(),
            found.kernel.quantile(1.0).into(),
            ratio(found.user.instructions(), found.user.runs()).into(),
            found.nested.into(),
            found.halts.into(),
        ]);
        table.push(row);
    }
    table
}

fn lengths(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[
        text("kind"),
        integer("number"),
        text("name"),
        text("mode"),
        integer("instructions"),
        integer("runs"),
    ]);
    for (&entry, found) in &profile.entries {
        for (mode, lengths) in [("user", &found.user), ("kernel", &found.kernel)] {
            for (length, runs) in lengths.iter() {
                let mut row = cause(entry).to_vec();
                row.extend([mode.into(), length.into(), runs.into()]);
                table.push(row);
            }
        }
    }
    table
}

fn thresholds(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[
        integer("threshold_instructions"),
        integer("shorter_invocations"),
        integer("longer_invocations"),
        integer("shorter_instructions"),
        integer("longer_instructions"),
        real("longer_invocation_share"),
        real("longer_instruction_share"),
    ]);
    let all = profile.kernel_lengths();
    let (invocations, instructions) = (all.runs(), all.instructions());
    for threshold in THRESHOLDS {
        let (runs, sum) = all.longer_than(threshold);
        table.push(vec![
            threshold.into(),
            // Both sides add up to the total, since the shorter ones are what the longer ones
            // leave.
            (invocations - runs).into(),
            runs.into(),
            (instructions - sum).into(),
            sum.into(),
            ratio(runs, invocations).into(),
            ratio(sum, instructions).into(),
        ]);
    }
    table
}

const LEVELS: [&str; 4] = ["L1I", "L1D", "L2", "L3"];
const MODES: [&str; 2] = ["user", "kernel"];

fn levels(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[
        text("level"),
        text("mode"),
        integer("accesses"),
        integer("misses"),
        real("miss_share"),
        integer("evicted_user_lines"),
        integer("evicted_kernel_lines"),
    ]);
    for (level, found) in LEVELS.into_iter().zip(&profile.levels) {
        let counts = found.counts;
        for (mode, name) in MODES.into_iter().enumerate() {
            table.push(vec![
                level.into(),
                name.into(),
                counts.accesses[mode].into(),
                counts.misses[mode].into(),
                ratio(counts.misses[mode], counts.misses.iter().sum()).into(),
                counts.evictions[mode][0].into(),
                counts.evictions[mode][1].into(),
            ]);
        }
    }
    table
}

fn evictions(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[
        text("level"),
        integer("longer_than_instructions"),
        integer("at_most_instructions"),
        integer("user_lines"),
        integer("kernel_lines"),
    ]);
    for (level, found) in LEVELS.into_iter().zip(&profile.levels) {
        for (class, &[user, kernel]) in found.by_length.iter().enumerate() {
            // The first class begins at 0 and the last one has no end, which is one class more than
            // there are bounds.
            let above = class.checked_sub(1).map_or(0, |below| LENGTH_CLASSES[below]);
            let most = LENGTH_CLASSES.get(class).copied();
            table.push(vec![level.into(), above.into(), most.into(), user.into(), kernel.into()]);
        }
    }
    table
}

fn footprint(profile: &OsProfile) -> Table {
    let mut table = Table::new(&[text("touched_by"), integer("lines")]);
    let found = profile.footprint;
    for (who, lines) in [("user", found.user), ("kernel", found.kernel), ("both", found.shared)] {
        table.push(vec![who.into(), lines.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;

    #[test]
    fn a_shipped_workload_adds_up() {
        let library = library();
        let tables = library.os_profile("gzip", "32KB:8 32KB:8 256KB:8", &[]).unwrap();
        let table = |name: &str| &tables.iter().find(|t| t.0 == name).unwrap().1;
        let column = |name: &str, column: &str| -> i64 {
            let column = table(name).columns.iter().find(|c| c.name == column).unwrap();
            let whole = |value: &Value| match value {
                Value::Integer(n) => *n,
                _ => panic!("{value:?}"),
            };
            column.values.iter().map(whole).sum()
        };
        let workload = library.workload("gzip").unwrap();
        let all = workload.instructions(None);
        let user = table("totals").get(0, "value");
        let Some(&Value::Real(user)) = user else { panic!("{user:?}") };
        let kernel = column("entries", "kernel_instructions");
        assert_eq!(user as u64 + kernel as u64, all);
        assert_eq!(table("levels").len(), 6);
        assert_eq!(table("thresholds").len(), THRESHOLDS.len());
        assert!(column("footprint", "lines") > 0);
        // With traps: the same user code, more of the kernel, and the traps' kinds.
        let privileged = table("privileged_totals");
        assert_eq!(privileged.get(0, "value"), Some(&Value::Real(user)));
        assert!(column("privileged_entries", "kernel_instructions") > kernel);
        let kinds = &table("privileged_entries").columns[0].values;
        assert!(kinds.contains(&Value::from("trap")) && kinds.contains(&Value::from("interrupt")));
    }

    #[test]
    fn what_cannot_be_profiled_is_said() {
        let library = library();
        let complaint = |workload: &str, caches: &str| {
            library.os_profile(workload, caches, &[]).unwrap_err().to_string()
        };
        assert!(complaint("gzip*2", "ev6").contains("one core"));
        assert!(complaint("gzip", "32KB:8").contains("shapes of L1I and L1D"));
        assert!(complaint("gzip", "32KB:8 32KB:x").contains("32KB:x"));
        assert!(complaint("gzip", "in-ordr").contains("in-order"));
        assert!(complaint("gzipp", "ev6").contains("gzip"));
    }
}
