//! World: one queue, one machine that sleeps. The smallest world there can be, and the example of
//! docs/worlds.md: it plays the gating policies that need nothing but idle times, and all that
//! stands on the seam (studies, resuming, stopping, logs, replay, targets, reports) works for it.

use halfwink_engine::confidence::Pieces;
use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, Cause, Histogram, Ledger, Mode, Row, RunControl, State};
use halfwink_eventlog::{replayer, Place, Replayer};
use halfwink_policy::gating::{Action, Costs, Event, GatingPolicy, Slots};
use halfwink_policy::Host;
use halfwink_techniques::{GatingContext, Make, Parameter};
use halfwink_units::{Energy, Power, Time};

use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::Logs;
use crate::table::{integer, Head, Table};
use crate::world::{Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{ledger, slices, Common, COMMON, LEDGER, SLICES};

/// World: one queue, one machine that sleeps.
pub struct Toy;

struct ToyJob {
    settings: Settings,
    load: f64,
    seed: u64,
    requests: u64,
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
        vec![
            ("run", [&COMMON[..], &[integer("wakes")]].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn replayer(
        &self,
        _: &Library,
        _: &Job,
        settings: &Settings,
        _: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        Ok(replayer(policy(settings)?))
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
        // The machine has no values, so that what neither the world nor the technique knows is a
        // mistake.
        if let Some((path, _)) = settings.machine.first() {
            return Err(StudyError::unknown("option", path, OPTIONS.iter().map(|o| o.name)));
        }
        let [seed, requests] =
            ["seed", "requests"].map(|name| settings.options.number(name) as u64);
        Ok(Box::new(ToyJob { settings, load, seed, requests }))
    }
}

fn wake_up(settings: &Settings) -> Time {
    Time::from_ns(1e3 * settings.options.number("wake_up_us"))
}

fn policy(settings: &Settings) -> Result<GatingPolicy, StudyError> {
    let (wake_up, zero) = (wake_up(settings), Time::ZERO);
    let break_even = wake_up * 2;
    let costs = Costs { entry: zero, break_even, wake_up, restore: zero, slots: Slots::ANY };
    let core = GatingContext {
        costs,
        token_entries: 1,
        memory: [zero; 2],
        idle_states: None,
        power_down: false,
        tick: GatingContext::TICK,
        timer: GatingContext::TIMER,
    };
    match settings.choice.technique().make {
        Make::Gating(gating) => Ok((gating.build)(&settings.choice, &core)),
        _ => Err(StudyError::Usage(format!("{}: nothing to sleep by", settings.choice))),
    }
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

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let host = Host::new(logs.gating(0, policy(&self.settings)?));
        let Played { spent, free, wakes, latency, pieces } = self.play(control, host)?;
        let mut books = Ledger::new();
        let rows = STATES.iter().zip(spent).map(|(&(state, watts), time)| {
            (State(state), Row { time, energy: Power::from_w(watts) * time })
        });
        let energy = rows.clone().map(|(_, row)| row.energy).sum();
        let machine = books.component("machine", Row { time: free, energy });
        for (state, row) in rows {
            books.post(machine, state, Cause { mode: Mode::Idle, reason: "requests" }, row);
        }
        let closed = books.close(free)?;
        let us = |time: Time| time.as_ns() * 1e-3;
        let mut cells = Common {
            unit_of_work: "request",
            units: self.requests,
            duration_s: free.as_s(),
            energy_j: energy.as_j(),
            latency_mean_us: latency.mean().map(us),
            latency_p99_us: latency.quantile(0.99).map(us),
            ..Common::default()
        }
        .cells();
        cells.push(("wakes", wakes.into()));
        let pieces = pieces.finish(self.requests, free, energy);
        Ok(vec![
            ("run", Table::row(cells)),
            ("ledger", ledger(&closed)),
            ("slices", slices(&pieces)),
        ])
    }
}

/// The outcome of a run.
#[derive(Default)]
struct Played {
    /// Times in each of [`STATES`].
    spent: [Time; 4],
    /// The time at which the machine was done.
    free: Time,
    wakes: u64,
    latency: Histogram,
    pieces: Pieces,
}

/// Energy of times in each of [`STATES`].
fn energy(spent: [Time; 4]) -> Energy {
    STATES.iter().zip(spent).map(|(&(_, watts), time)| Power::from_w(watts) * time).sum()
}

impl ToyJob {
    fn play(
        &self,
        control: &RunControl,
        mut host: Host<GatingPolicy>,
    ) -> Result<Played, StudyError> {
        // Two streams, so that another law of services would leave the arrivals as they are.
        let (mut gaps, mut services) = (stream(self.seed, "gaps"), stream(self.seed, "services"));
        let Played { mut spent, mut free, mut wakes, mut latency, mut pieces } = Played::default();
        let mut now = Time::ZERO;
        for n in 0..self.requests {
            if n % 1024 == 0 {
                control.report(n)?;
            }
            now += Time::from_ns(SERVICE_NS * 100.0 / self.load * exponential(&mut gaps));
            if now > free {
                // The machine idled from `free` on; its policy may have put it to sleep meanwhile.
                let mut slept = None;
                host.deliver(free, &Event::IdleBegin, |at, action| {
                    slept = (action == Action::Gate).then_some(at);
                });
                // Timers after it fell asleep wait: a policy that sleeps has nothing to decide
                // before it is woken.
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
                    spent[3] += wake_up(&self.settings);
                    free += wake_up(&self.settings);
                    host.deliver(free, &Event::Awake, |_, _| ());
                }
            }
            let service = Time::from_ns(SERVICE_NS * exponential(&mut services));
            spent[0] += service;
            free += service;
            // Requests are served in order, so this one is done when the machine is free again.
            latency.record(free - now);
            if pieces.is_due(n + 1) {
                pieces.end(n + 1, free, energy(spent));
            }
        }
        Ok(Played { spent, free, wakes, latency, pieces })
    }
}
