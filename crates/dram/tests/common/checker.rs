//! Reads a command log and applies the data sheet to every pair of commands. Knows nothing of how
//! the controller keeps its earliest times: it looks back over the log.

use halfwink_dram::{Command, Kind, Spec, Timing};

/// How far apart two commands are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Bank,
    Group,
    Rank,
    Channel,
}

fn closes(kind: Kind) -> bool {
    matches!(kind, Kind::Precharge | Kind::PrechargeForRefresh | Kind::AutoPrecharge)
}

/// Clocks that must lie between two commands, by the data sheet.
fn gap(t: &Timing, first: Kind, then: Kind, scope: Scope) -> u64 {
    let (bank, group, rank) = (
        scope == Scope::Bank,
        matches!(scope, Scope::Bank | Scope::Group),
        scope != Scope::Channel,
    );
    let write_data = t.t_cwl + t.burst;
    match (first, then) {
        (Kind::Activate, Kind::Read | Kind::Write) if bank => t.t_rcd,
        (Kind::Activate, _) if bank && closes(then) => t.t_ras,
        (Kind::Activate, Kind::Activate) if bank => t.t_ras + t.t_rp,
        (Kind::Activate, Kind::Activate) if group => t.t_rrd_l,
        (Kind::Activate, Kind::Activate) if rank => t.t_rrd_s,
        (_, Kind::Activate) if closes(first) && bank => t.t_rp,
        (_, Kind::Refresh) if closes(first) && rank => t.t_rp,
        (Kind::Refresh, Kind::Activate | Kind::Refresh) if rank => t.t_rfc,
        (Kind::Read, _) if closes(then) && bank => t.t_rtp,
        (Kind::Write, _) if closes(then) && bank => write_data + t.t_wr,
        (Kind::Read, Kind::Read) | (Kind::Write, Kind::Write) if group => t.t_ccd_l,
        (Kind::Read, Kind::Read) | (Kind::Write, Kind::Write) if rank => t.t_ccd_s,
        (Kind::Write, Kind::Read) if group => write_data + t.t_wtr_l,
        (Kind::Write, Kind::Read) if rank => write_data + t.t_wtr_s,
        _ => 0,
    }
}

/// Clocks of the data bus that a command uses, and whether it is read.
fn data(t: &Timing, command: &Command) -> Option<(u64, bool)> {
    match command.kind {
        Kind::Read => Some((command.at + t.t_cl, true)),
        Kind::Write => Some((command.at + t.t_cwl, false)),
        _ => None,
    }
}

/// The whole log of a channel against the data sheet.
pub fn check(spec: &Spec, commands: &[Command]) -> Result<(), String> {
    let mut log = commands.to_vec();
    // Of one clock: rows close before they open. Precharges of a refresh cost no bus.
    log.sort();
    for n in 0..log.len() {
        pairs(spec, &log, n)?;
    }
    states(spec, &log)?;
    windows(spec, &log)?;
    data_bus(spec, &log)
}

fn pairs(spec: &Spec, log: &[Command], n: usize) -> Result<(), String> {
    let t = &spec.device.timing;
    let longest = t.t_rfc.max(t.t_ras + t.t_rp).max(t.t_cwl + t.burst + t.t_wr.max(t.t_wtr_l));
    let on_bus = |c: &Command| {
        !matches!(c.kind, Kind::PrechargeForRefresh | Kind::AutoPrecharge | Kind::Refresh)
    };
    let now = log[n];
    for before in log[..n].iter().rev().take_while(|c| now.at - c.at <= longest) {
        let scope = if before.rank != now.rank {
            Scope::Channel
        } else if before.bank == now.bank && Kind::Refresh != before.kind.max(now.kind) {
            Scope::Bank
        } else if before.bank / spec.device.banks == now.bank / spec.device.banks {
            Scope::Group
        } else {
            Scope::Rank
        };
        let least = gap(t, before.kind, now.kind, scope);
        if now.at - before.at < least {
            return Err(format!("{before:?} then {now:?}: expected {least} clocks ({scope:?})"));
        }
        if on_bus(before) && on_bus(&now) && before.at == now.at {
            return Err(format!("{before:?} and {now:?} at once"));
        }
    }
    Ok(())
}

/// Commands find the rows that they need, and refreshes none.
fn states(spec: &Spec, log: &[Command]) -> Result<(), String> {
    let mut open: Vec<Option<u64>> = vec![None; spec.banks()];
    let per_rank = spec.device.groups * spec.device.banks;
    for c in log {
        let right = match c.kind {
            Kind::Activate => open[c.bank].replace(c.row).is_none(),
            Kind::Read | Kind::Write => open[c.bank] == Some(c.row),
            Kind::Refresh => open[c.bank..c.bank + per_rank].iter().all(Option::is_none),
            _ => open[c.bank].take() == Some(c.row),
        };
        if !right {
            return Err(format!("{c:?} finds the wrong row"));
        }
    }
    Ok(())
}

/// Four activates in a window, and a refresh in each interval.
fn windows(spec: &Spec, log: &[Command]) -> Result<(), String> {
    let t = &spec.device.timing;
    for rank in 0..spec.ranks {
        let of = |kind| log.iter().filter(move |c| c.rank == rank && c.kind == kind);
        let activates: Vec<u64> = of(Kind::Activate).map(|c| c.at).collect();
        if let Some(five) = activates.windows(5).find(|five| five[4] - five[0] < t.t_faw) {
            return Err(format!("rank {rank}: five activates at {five:?}"));
        }
        // As late as the longest wait for its rows lets it be.
        let late = t.t_ras.max(t.t_cwl + t.burst + t.t_wr).max(t.t_rtp) + t.t_rp + t.t_rcd;
        for (n, refresh) in of(Kind::Refresh).enumerate() {
            let due = t.t_refi * (rank as u64 + 1) / spec.ranks as u64 + t.t_refi * n as u64;
            if refresh.at < due || refresh.at > due + late {
                return Err(format!("{refresh:?}, due at {due}"));
            }
        }
    }
    Ok(())
}

/// Lines follow each other on the data bus, with a gap where another rank or the controller drives
/// it (but writes to two ranks have one driver).
fn data_bus(spec: &Spec, log: &[Command]) -> Result<(), String> {
    let t = &spec.device.timing;
    let mut lines: Vec<(u64, bool, usize)> =
        log.iter().filter_map(|c| data(t, c).map(|(from, read)| (from, read, c.rank))).collect();
    lines.sort_unstable();
    for pair in lines.windows(2) {
        let [(first, read, rank), (then, then_read, then_rank)] = [pair[0], pair[1]];
        let turns = read != then_read || read && rank != then_rank;
        let least = first + t.burst + if turns { t.t_rtrs } else { 0 };
        if then < least {
            return Err(format!("data at {first} and {then}, expected {least}"));
        }
    }
    Ok(())
}
