use halfwink_chip::*;
use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::*;
use halfwink_trace::*;
use std::sync::Arc;

#[test]
fn smoke() {
    for file in ["ev6", "in-order"] {
        let text = std::fs::read_to_string(format!("../../machines/{file}.toml")).unwrap();
        let machine = Machine::parse(&Input::new(file, text)).unwrap();
        for (name, kernel, footprint) in Kernel::ALL {
            for tech in ["always-on", "oracle", "mapg-counter", "tap"] {
                let n = 1_000_000;
                let source =
                    Synthetic { kernel, footprint, instructions: n, seed: 1, duty: None }.source();
                let costs = machine.gating_costs();
                let policy = |_| -> GatingPolicy {
                    match tech {
                        "always-on" => Box::new(AlwaysOn),
                        "oracle" => Box::new(Oracle::new(costs)),
                        "tap" => Box::new(Tap::new(costs, machine.token_entries())),
                        _ => Box::new(MapgCounter::new(costs, machine.mapg)),
                    }
                };
                let task = Task {
                    source: Box::new(source),
                    warm: Arc::default(),
                    load: LoadKind::Closed,
                    limit: u64::MAX,
                    start: halfwink_units::Time::ZERO,
                };
                let t = std::time::Instant::now();
                let r = run(
                    &machine,
                    vec![task],
                    &Options { policy: &policy, retention: tech != "always-on", timeline: None },
                    &mut CodeCache::new(),
                    &RunControl::new(),
                );
                let el = t.elapsed().as_secs_f64();
                match r {
                    Ok(r) => {
                        let c = &r.cores[0];
                        let cycles = r.duration.as_ns() * machine.clock.hz() / 1e9;
                        let e = r.books.energy_where(|n| n == "core0").as_j();
                        println!("{file} {name:7} {tech:13} ipc {:.3} t {:.4} ms  E {:.4} mJ P {:.3} W  gated {:.1}% wakes {} late {} stalls {} mean {:?}  {:.2} Mips", n as f64 / cycles, r.duration.as_ns()/1e6, e*1e3, e / r.duration.as_s(), 100.0 * c.residency[4].as_s() / r.duration.as_s(), c.wakes, c.late_wakes, c.stalls.count(), c.stalls.mean(), n as f64 / el / 1e6);
                    }
                    Err(e) => println!("{file} {name} {tech} ERROR {e}"),
                }
            }
        }
    }
}
