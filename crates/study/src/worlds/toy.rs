//! World: one queue, one machine that sleeps. The smallest world there can be, and the example of
//! docs/worlds.md: it plays the gating policies that need nothing but idle times, and all that
//! stands on the seam (studies, resuming, stopping, logs, replay, targets, reports) works for it.

use halfwink_engine::{stream, Cause, Ledger, Mode, Row, State, Stream};
use halfwink_policy::gating::{Action, Costs, Event, GatingPolicy, Slots};
use halfwink_policy::Host;
use halfwink_units::{Power, Time};
use rand::RngExt;

use crate::error::StudyError;
use crate::library::Library;
use crate::table::{integer, Head, Table};
use crate::techniques::{Choice, GatingContext, Make, Parameter};
use crate::world::{Control, Job, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::{ledger, Common, COMMON, LEDGER};

/// World: one queue, one machine that sleeps.
pub struct Toy;

struct ToyJob {
    choice: Choice,
    load: f64,
    seed: u64,
    requests: u64,
    wake_up: Time,
}

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", 1, (0, u64::MAX)).about("of all random streams", "example"),
    Parameter::whole("requests", 100_000, (1, u64::MAX)).about("to play", "example"),
    Parameter::number("wake_up_us", "us", 5.0, (0.0, 1e6)).about("to wake up", "example"),
];
const SERVICE_NS: f64 = 10_000.0;
const STATES: [(&str, f64); 4] = [("busy", 10.0), ("idle", 6.0), ("asleep", 0.5), ("waking", 10.0)];

impl World for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn title(&self) -> &'static str {
        "one queue, one machine that sleeps: the example of a world"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink compare exponential@30 --world toy --technique {technique}")
    }

    fn workloads(&self, _: &Library) -> Result<Vec<Named>, StudyError> {
        let title = "exponential gaps and services; @: load in per cent".to_owned();
        Ok(vec![Named { name: "exponential@30".to_owned(), title }])
    }

    fn machines(&self, _: &Library) -> Vec<Named> {
        vec![Named {
            name: "machine".to_owned(),
            title: "10 W busy, 6 W idle, 0.5 W asleep".into(),
        }]
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![("run", [&COMMON[..], &[integer("wakes")]].concat()), ("ledger", LEDGER.to_vec())]
    }

    fn prepare(
        &self,
        _: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let load = job.workload.strip_prefix("exponential@").and_then(|l| l.parse().ok());
        let Some(load) = load.filter(|l| (0.1..=95.0).contains(l)) else {
            let message = format!("workload `{}`: expected exponential@30", job.workload);
            return Err(StudyError::Usage(message));
        };
        if job.machine != "machine" {
            return Err(StudyError::unknown("machine", &job.machine, ["machine"]));
        }
        if let Some((path, _)) = settings.machine.first() {
            return Err(StudyError::unknown("option", path, OPTIONS.iter().map(|o| o.name)));
        }
        Ok(Box::new(ToyJob {
            load,
            choice: settings.choice,
            seed: settings.options.number("seed") as u64,
            requests: settings.options.number("requests") as u64,
            wake_up: Time::from_ns(1e3 * settings.options.number("wake_up_us")),
        }))
    }
}

/// An exponential draw, in nanoseconds.
fn exponential(stream: &mut Stream, mean_ns: f64) -> f64 {
    -mean_ns * (1.0 - stream.random::<f64>()).ln()
}

impl Prepared for ToyJob {
    fn identity(&self) -> String {
        self.load.to_string()
    }

    fn work(&self) -> Work {
        Work { amount: self.requests, unit: "requests" }
    }

    fn machine_text(&self) -> &'static str {
        ""
    }

    fn run(&self, control: &Control) -> Result<Tables, StudyError> {
        let (wake_up, zero) = (self.wake_up, Time::ZERO);
        let costs = Costs {
            entry: zero,
            break_even: wake_up * 2,
            wake_up,
            restore: zero,
            slots: Slots::ANY,
        };
        let core = GatingContext { costs, token_entries: 1, memory: [zero; 2], power_down: false };
        let Make::Gating(gating) = self.choice.technique().make else {
            return Err(StudyError::Usage(format!("{}: nothing to sleep by", self.choice)));
        };
        let policy: GatingPolicy = (gating.build)(&self.choice, &core);
        let host = Host::new(policy);
        let mut played = self.play(control, host)?;
        let Played { spent, free, wakes, waited_ps, .. } = played;
        let longest = &mut played.latencies_ps;
        longest.sort_unstable();
        let mut books = Ledger::new();
        let rows = STATES.map(|(_, watts)| Power::from_w(watts));
        let energy = rows.iter().zip(spent).map(|(power, time)| *power * time);
        let total = Row { time: free, energy: energy.clone().sum() };
        let machine = books.component("machine", total);
        for (((state, _), time), energy) in STATES.into_iter().zip(spent).zip(energy) {
            let cause = Cause { mode: Mode::Idle, reason: "requests" };
            books.post(machine, State(state), cause, Row { time, energy });
        }
        let closed = books.close(free)?;
        let us = |ps: f64| ps * 1e-6;
        let mut cells = Common {
            unit_of_work: "request",
            units: self.requests,
            duration_s: free.as_s(),
            energy_j: total.energy.as_j(),
            latency_mean_us: Some(us(waited_ps as f64 / self.requests as f64)),
            latency_p99_us: longest.get(longest.len() * 99 / 100).map(|ps| us(*ps as f64)),
            ..Common::default()
        }
        .cells();
        cells.push(("wakes", wakes.into()));
        Ok(vec![("run", Table::row(cells)), ("ledger", ledger(&closed))])
    }
}

/// What happened in a run.
struct Played {
    /// Times in each of [`STATES`].
    spent: [Time; 4],
    /// When the machine was done.
    free: Time,
    wakes: u64,
    waited_ps: u128,
    latencies_ps: Vec<u64>,
}

impl ToyJob {
    fn play(&self, control: &Control, mut host: Host<GatingPolicy>) -> Result<Played, StudyError> {
        let (mut gaps, mut services) = (stream(self.seed, "gaps"), stream(self.seed, "services"));
        let mut spent = [Time::ZERO; 4];
        let (mut wakes, mut waited_ps, mut latencies_ps) = (0, 0, Vec::new());
        let (mut now, mut free) = (Time::ZERO, Time::ZERO);
        for n in 0..self.requests {
            if n % 1024 == 0 {
                control.run.report(n).map_err(|_| StudyError::Interrupted)?;
            }
            now += Time::from_ns(exponential(&mut gaps, SERVICE_NS * 100.0 / self.load));
            if now > free {
                // The machine idled from `free` on; its policy may have put it to sleep meanwhile.
                let mut slept = None;
                host.deliver(free, &Event::IdleBegin, |at, action| {
                    slept = (action == Action::Gate).then_some(at);
                });
                while slept.is_none() && host.due() < now {
                    let due = host.due();
                    host.ring(due, |at, action| slept = (action == Action::Gate).then_some(at))?;
                }
                host.deliver(now, &Event::IdleEnd { began: free }, |_, _| ());
                let begun = slept.unwrap_or(now);
                spent[1] += begun - free;
                spent[2] += now - begun;
                free = now;
                if slept.is_some() {
                    wakes += 1;
                    spent[3] += self.wake_up;
                    free += self.wake_up;
                    host.deliver(free, &Event::Awake, |_, _| ());
                }
            }
            let service = Time::from_ns(exponential(&mut services, SERVICE_NS));
            spent[0] += service;
            free += service;
            waited_ps += u128::from((free - now).0);
            latencies_ps.push((free - now).0);
        }
        Ok(Played { spent, free, wakes, waited_ps, latencies_ps })
    }
}
