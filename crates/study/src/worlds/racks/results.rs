//! Tables of a run: completion times by size, ways, energy.

use halfwink_fabric::flows::{Run, Traffic};
use halfwink_units::Time;

use crate::table::{integer, real, text, Head, Table, Value};
use crate::worlds::common::{Common, Load};

/// Columns of a run beside the common ones.
pub(super) const OWN: [Head; 18] = [
    integer("seed"),
    integer("flows"),
    real("ended_pct"),
    real("gb"),
    real("fct_p50_us"),
    real("small_p99_us"),
    real("medium_p99_us"),
    real("large_p99_us"),
    integer("groups"),
    real("group_mean_ms"),
    real("group_p99_ms"),
    real("network_j_per_gb"),
    real("j_per_gb"),
    real("circuits_per_byte"),
    real("packets_pct"),
    real("up_pct"),
    integer("days"),
    text("read_as"),
];

/// Columns of the table of sizes.
pub(super) const SIZES: [Head; 7] = [
    real("from_bytes"),
    real("to_bytes"),
    integer("flows"),
    real("ended_pct"),
    real("fct_mean_us"),
    real("fct_p50_us"),
    real("fct_p99_us"),
];

/// Flows are small below the first, large from the second on, in bytes.
const CLASSES: [f64; 2] = [1e5, 1e7];

/// Completion times of some flows, sorted, and how many there are of these flows.
struct Times {
    us: Vec<f64>,
    flows: usize,
}

impl Times {
    fn of(run: &Run, traffic: &Traffic, bytes: std::ops::Range<f64>) -> Times {
        let flows = traffic.flows().iter().zip(&run.times);
        // Flows of a server to itself never enter the network, so that their times say nothing of
        // it.
        let kept = |from: u32, to: u32, size: f64| from != to && bytes.contains(&size);
        let kept: Vec<_> = flows.filter(|(f, _)| kept(f.from, f.to, f.bytes)).collect();
        let mut us: Vec<f64> = kept.iter().filter_map(|(_, time)| time.map(as_us)).collect();
        us.sort_unstable_by(f64::total_cmp);
        Times { us, flows: kept.len() }
    }

    /// Returns a quantile of all flows: those that have not ended are longer than any.
    fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.flows as f64).ceil().max(1.0) as usize;
        // Beyond those that ended there is no value: a quantile that is not known yet is missing,
        // not the largest so far.
        self.us.get(rank - 1).copied()
    }

    fn mean(&self) -> Option<f64> {
        // A mean of those that ended would improve with every long flow that does not.
        let all = !self.us.is_empty() && self.us.len() == self.flows;
        all.then(|| self.us.iter().sum::<f64>() / self.flows as f64)
    }

    fn ended_pct(&self) -> f64 {
        100.0 * self.us.len() as f64 / self.flows.max(1) as f64
    }
}

fn as_us(time: Time) -> f64 {
    time.as_ns() * 1e-3
}

/// The table `run`, one row. `read_as` is the account of the flows' file.
pub(super) fn run_row(run: &Run, traffic: &Traffic, seed: u64, read_as: &str) -> Table {
    let all = Times::of(run, traffic, 0.0..f64::INFINITY);
    let [small, large] = CLASSES;
    let p99 = |from: f64, to: f64| Times::of(run, traffic, from..to).quantile(0.99);
    let mut groups: Vec<f64> = run.groups.iter().flatten().map(|t| as_us(*t) * 1e-3).collect();
    groups.sort_unstable_by(f64::total_cmp);
    let groups = Times { flows: run.groups.len(), us: groups };
    let energy = run.books.energy_where(|_| true).as_j();
    let servers: f64 = run
        .books
        .named_rows()
        .filter(|(component, ..)| *component == "servers")
        .map(|(.., row)| row.energy.as_j())
        .sum();
    let gb = run.delivered * 1e-9;
    let mut cells = Common {
        unit_of_work: "bit",
        units: (run.delivered * 8.0) as u64,
        duration_s: run.duration.as_s(),
        energy_j: energy,
        latency_mean_us: all.mean(),
        latency_p99_us: all.quantile(0.99),
        load: Load::Open,
        // Ports and servers draw what they draw, whatever they carry.
        idle_w: Some(energy / run.duration.as_s()),
        ..Common::default()
    }
    .cells();
    let own: [Value; OWN.len()] = [
        seed.into(),
        (all.flows as u64).into(),
        all.ended_pct().into(),
        gb.into(),
        all.quantile(0.5).into(),
        p99(0.0, small).into(),
        p99(small, large).into(),
        p99(large, f64::INFINITY).into(),
        (groups.flows as u64).into(),
        groups.mean().into(),
        groups.quantile(0.99).into(),
        ((energy - servers) / gb).into(),
        (energy / gb).into(),
        (run.on_circuits / run.delivered).into(),
        (100.0 * run.on_packets / run.delivered).into(),
        (100.0 * run.up).into(),
        run.days.into(),
        read_as.into(),
    ];
    cells.extend(OWN.iter().map(|head| head.0).zip(own));
    Table::row(cells)
}

/// Completion times by decade of size.
pub(super) fn sizes(run: &Run, traffic: &Traffic) -> Table {
    let mut table = Table::new(&SIZES);
    let mut from = 1.0;
    while from < 1e15 {
        let to = from * 10.0;
        let times = Times::of(run, traffic, from..to);
        if times.flows > 0 {
            table.push(vec![
                from.into(),
                to.into(),
                (times.flows as u64).into(),
                times.ended_pct().into(),
                times.mean().into(),
                times.quantile(0.5).into(),
                times.quantile(0.99).into(),
            ]);
        }
        from = to;
    }
    table
}
