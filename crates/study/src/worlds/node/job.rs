//! One composition against one load of one service on one server.

use halfwink_engine::confidence::Piece;
use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_node::{idle_power, simulate, Load, Options, Profile, Run, RunError, Slice};
use halfwink_techniques::node::{Idler, Machine, NodePart, Plan};
use halfwink_techniques::{Choice, Make, Parameter};
use halfwink_units::Time;

use super::load::Asked;
use super::{NodeInfo, ProfileInfo};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, short, text, Head, Short, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World, USUAL_LOADS};
use crate::worlds::common::{
    holding, interval, ledger, slices, Common, Intervals, Load as Way, COMMON, LEDGER, SLICES,
};

/// World: a server of today under a load.
pub struct Node;

struct NodeJob {
    workload: String,
    info: NodeInfo,
    profile: ProfileInfo,
    choice: Choice,
    asked: Asked,
    /// Requests a second that come; those that clients would send to a server without queues.
    offered_per_s: f64,
    /// Offered load, in per cent of what the cores carry without any sleep.
    load_pct: f64,
    options: Options,
}

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", 1, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::whole("requests", 1_000_000, (1000, u64::MAX))
        .about("of a run, the first tenth of which is not counted", "halfwink"),
    Parameter::whole("flows", 0, (0, 1 << 30))
        .or_else("each request is a flow of its own")
        .about("connections that requests belong to, each hashed to one core", "halfwink"),
    Parameter::whole("os_cores", 1, (1, 1 << 12))
        .or_else("as many as the code that moves keeps half busy, or as busy as the others")
        .about("that run the kernel code of requests, where a technique moves it", "halfwink"),
    Parameter::whole("workers", 1, (1, 1 << 15)).about(
        "of a core: requests that it may have begun, where their kernel code runs elsewhere",
        "an event loop waits for its request",
    ),
];

/// Columns of a run beside the common ones.
const OWN: [Head; 26] = [
    real("load_pct"),
    integer("seed"),
    integer("bad_lines"),
    text("read_as"),
    real("offered_per_s"),
    real("per_s"),
    real("power_w"),
    real("latency_p50_us"),
    real("latency_p999_us"),
    real("latency_max_us"),
    real("queued_us"),
    real("busy_pct"),
    real("cold_pct"),
    real("kernel_pct"),
    real("waking_pct"),
    real("package_asleep_pct"),
    real("all_idle_pct"),
    real("ticks_per_s"),
    integer("os_cores"),
    real("os_busy_pct"),
    real("lost_pct"),
    text("keeps_up"),
    text("knows_cold"),
    text("power_basis"),
    real("power_low"),
    real("power_high"),
];

const STATES: [Head; 3] = [text("state"), real("share_pct"), real("wakes_per_s")];

/// A server keeps up if it finishes this share of what comes, beside what is under way.
const KEEPS_UP: f64 = 0.99;
/// Requests of each core that may be under way at the end of a run.
const UNDER_WAY: u64 = 4;
/// Share of the time of cores of the kernel that they work, if nothing says how many there are.
const OS_LOAD: f64 = 0.5;
/// Load of a workload without one, in per cent.
const USUAL: &str = "30";

/// Columns of the short table.
const SHORT: &[Short] = &[
    short("lost_pct", "lost %", 3),
    short("busy_pct", "busy %", 1),
    short("package_asleep_pct", "package asleep %", 1),
    short("keeps_up", "keeps up", 0),
];

impl World for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn title(&self) -> &'static str {
        "a server of today at the load you have: cores, idle states, package, queues"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink compare nginx --world node --load 10,30% --technique {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let mut list: Vec<Named> = Vec::new();
        for machine in library.nodes() {
            let core = library.node(&machine, &[])?.machine.spec().core.clone();
            for name in library.profiles(&core) {
                let profile = library.profile(&name, &core)?.profile;
                let on = if profile.spec().core == "any" { "any core" } else { &core };
                let mean = format!("{:.0} us on {on}", profile.mean_s() * 1e6);
                match list.iter_mut().find(|named| named.name == name) {
                    Some(named) if !named.title.contains(&mean) => {
                        named.title.push_str(&format!(", {mean}"));
                    }
                    Some(_) => {}
                    None => list.push(Named { name, title: format!("a request takes {mean}") }),
                }
            }
        }
        Ok(list)
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.nodes(), |name| {
            Ok(library.node(name, &[])?.machine.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn short(&self) -> &'static [Short] {
        SHORT
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("golden-cove-56"), workload: None, loads: Some(USUAL_LOADS) }
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slices", SLICES.to_vec()),
            ("idle_states", STATES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let info = library.node(&job.machine, &settings.machine)?;
        let (name, load) = job.workload.split_once('@').unwrap_or((&job.workload, USUAL));
        let mut profile = library.profile(name, &info.machine.spec().core)?;
        check(&settings.choice, &info.machine, &job.machine)?;
        // The load is of the service as it is, so that all compositions play the same.
        let capacity = info.machine.cores() as f64 / profile.profile.mean_s();
        let asked = Asked::read(library, (job, load), capacity)?;
        // Clients wait for the whole answer, also for what it takes apart from the cores.
        let answer_s = profile.profile.mean_s() + 1e-6 * profile.profile.spec().apart_us;
        let offered_per_s = asked.load.rate(answer_s);
        if let Some(within) = within(&settings.choice) {
            profile.profile = variant(&profile, &within)?;
        }
        announces(&settings.choice, &profile.profile, &info.machine, asked.is_closed())?;
        let number = |name| settings.options.number(name);
        let given = settings.options.given("os_cores").map(|cores| cores as u32);
        let options = Options {
            workers: number("workers") as u32,
            flows: settings.options.given("flows").unwrap_or(0.0) as u32,
            os_cores: given
                .unwrap_or_else(|| os_cores(&profile.profile, &info.machine, offered_per_s)),
            ..Options::requests(number("requests") as u64, number("seed") as u64)
        };
        Ok(Box::new(NodeJob {
            workload: name.to_owned(),
            info,
            profile,
            choice: settings.choice,
            load_pct: 100.0 * offered_per_s / capacity,
            offered_per_s,
            asked,
            options,
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        let info = library.node(&job.machine, &settings.machine)?;
        match (idler(&settings.choice, &info.machine), place.family) {
            (Idler::Gate { policy, .. }, Family::Gating) => Ok(replayer(policy)),
            (Idler::Rest { policy, .. }, Family::Scaling) => Ok(replayer(policy)),
            _ => Err(nobody_at(job, place)),
        }
    }
}

/// Techniques of a composition, each with its row.
fn parts(choice: &Choice) -> impl Iterator<Item = (&Choice, NodePart)> {
    let all = std::iter::once(choice).chain(choice.modifiers());
    all.filter_map(|choice| match choice.technique().make {
        Make::Node(part) => Some((choice, part)),
        _ => None,
    })
}

/// Cores of the kernel that its code, where it moves, keeps half busy; fewer where the others
/// would be busier than they.
fn os_cores(profile: &Profile, machine: &Machine, rate: f64) -> u32 {
    let (cores, slowdown) = (machine.cores(), machine.spec().kernel_cores.slowdown);
    let (own_s, moved_s) = (profile.mean_s(), profile.moved_s() * slowdown);
    let half_busy = (rate * moved_s / OS_LOAD).ceil();
    let as_busy = (cores as f64 * moved_s / (own_s + moved_s)).round();
    // One at least, also at a rate of nothing: code that moves needs somewhere to go.
    half_busy.min(as_busy).max(1.0) as u32
}

/// The techniques of a composition that work within a request, as the chip plays them together.
fn within(choice: &Choice) -> Option<String> {
    let chip = choice.parts().filter(|part| part.technique().is_within_requests());
    // A profile that was measured under a module holds for the module's content at that time.
    let names: Vec<String> = chip.map(Choice::own_identity).collect();
    (!names.is_empty()).then(|| names.join("+"))
}

/// The profile under techniques that work within a request.
fn variant(info: &ProfileInfo, within: &str) -> Result<Profile, StudyError> {
    let profile = &info.profile;
    profile.under(within).ok_or_else(|| {
        let spec = profile.spec();
        let known: Vec<&str> = spec.variants.iter().map(|v| v.technique.as_str()).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        let next = again(profile, &format!(" -t {within}"));
        StudyError::Usage(format!(
            "the profile of {} does not say what a request costs under `{within}` (it has \
             {known}); {next}",
            spec.workload
        ))
    })
}

/// Checks that announcements lead to something: a core that a request comes to, and lines to load.
fn announces(
    choice: &Choice,
    profile: &Profile,
    machine: &Machine,
    is_closed: bool,
) -> Result<(), StudyError> {
    let plan = plan(choice);
    if let Some(why) = plan.contradiction(is_closed) {
        return Err(StudyError::Usage(format!("`{choice}`: {why}")));
    }
    let is_known = || machine.states.iter().all(|s| profile.preheated(&s.loses).is_some());
    if plan.announce.is_some_and(|announce| announce.loads) && !is_known() {
        let (service, next) = (&profile.spec().workload, again(profile, ""));
        let message =
            format!("the profile of {service} does not say what preheating takes off; {next}");
        return Err(StudyError::Usage(message));
    }
    Ok(())
}

/// The command that measures what a profile lacks.
fn again(profile: &Profile, option: &str) -> String {
    let spec = profile.spec();
    if spec.core == super::ANY {
        return "only a profile that comes from a recording does".to_owned();
    }
    // A profile may have been made with techniques: the line is repeated without them, and gets
    // those that lack.
    let plain = spec.made_by.split(" -t ").next().unwrap_or_default();
    format!("`{plain}{option}` measures it")
}

/// Checks that the machine has the states that a composition names.
pub(super) fn check(choice: &Choice, machine: &Machine, name: &str) -> Result<(), StudyError> {
    for (choice, part) in parts(choice) {
        let technique = choice.technique().name;
        let (cores, package) = part.needs;
        let lacks = |what: &str, known: String| {
            let message = format!("{technique}: {name} has no state `{what}` (it has {known})");
            Err(StudyError::Usage(message))
        };
        if let Some(state) = cores.iter().find(|state| machine.state(state).is_none()) {
            return lacks(state, machine.state_names().collect::<Vec<_>>().join(", "));
        }
        let packages = &machine.spec().package_states;
        if let Some(state) = package.filter(|state| packages.iter().all(|p| p.name != *state)) {
            let known: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
            return lacks(state, known.join(", "));
        }
    }
    Ok(())
}

/// The idle policy of a composition: the one that it names, or Linux' menu.
pub(super) fn idler(choice: &Choice, machine: &Machine) -> Idler {
    let named = |choice: &Choice| {
        choice.parts().find_map(|part| match part.technique().make {
            Make::Node(row) => Some((row.idle?)(part, machine)),
            Make::Gating(row) => Some((row.idle?)(part, machine)),
            _ => None,
        })
    };
    named(choice).unwrap_or_else(|| {
        let usual = Choice::parse("node", "menu").expect("the node has menu");
        named(&usual).expect("menu is an idle policy")
    })
}

/// The other slots of a composition.
pub(super) fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::default();
    for (choice, part) in parts(choice) {
        (part.change)(choice, &mut plan);
    }
    plan
}

impl Prepared for NodeJob {
    fn identity(&self) -> String {
        // A file of arrivals is what it holds, not what it is called.
        let arrivals = xxhash_rust::xxh3::xxh3_64(self.load_text().as_bytes());
        format!("{arrivals:016x}\n{}\n{}", self.profile.text, self.info.text)
    }

    fn work(&self) -> Work {
        // Of arrivals from a file as many as it holds, which only playing it tells.
        Work { amount: if self.asked.ends { 0 } else { self.options.requests }, unit: "requests" }
    }

    fn machine_text(&self) -> &str {
        &self.info.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let machine = &self.info.machine;
        let make = |core: usize| match idler(&self.choice, machine) {
            Idler::Gate { policy, halted, gated, rests } => {
                Idler::Gate { policy: logs.gating(core, policy), halted, gated, rests }
            }
            Idler::Rest { policy, depths } => {
                Idler::Rest { policy: logs.scaling(core, policy), depths }
            }
        };
        let on = (machine, &self.profile.profile);
        let plan = plan(&self.choice);
        let run = simulate(on, &self.asked.load, &plan, &make, self.options, control)
            .map_err(|error| self.failed(&error))?;
        // An open load needs no floor: all compositions take the same time for the same work.
        let floor = || {
            let unlogged = |_| idler(&self.choice, machine);
            idle_power(on, &plan, &unlogged, self.options, control)
        };
        let idle_w = self.asked.is_closed().then(floor).transpose();
        let idle_w = idle_w.map_err(|error| self.failed(&error))?;
        Ok(vec![
            ("run", self.run_table(&run, idle_w)),
            ("ledger", ledger(&run.books)),
            ("slices", slices(&pieces(&run))),
            ("idle_states", states(&run)),
        ])
    }
}

impl NodeJob {
    fn failed(&self, error: &RunError) -> StudyError {
        match error {
            RunError::Interrupted(_) => StudyError::Interrupted,
            RunError::Load(_) | RunError::Plan(_) => {
                StudyError::Usage(format!("{}: {error}", self.workload))
            }
            RunError::Misled(_) | RunError::Imbalance(_) => {
                StudyError::Model(format!("{error} (seed {})", self.options.seed))
            }
        }
    }

    /// Text that is the same for equal loads.
    fn load_text(&self) -> String {
        match &self.asked.load {
            Load::Open(arrivals) => format!("{arrivals:?}"),
            Load::Closed(clients) => format!("{clients:?}"),
        }
    }

    fn run_table(&self, run: &Run, idle_w: Option<f64>) -> Table {
        let (tally, seconds) = (&run.tally, run.duration.as_s());
        let is_closed = self.asked.is_closed();
        let us = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-3);
        let at = |quantile: f64| us(tally.latency.quantile(quantile));
        let (energy_j, power) = (run.energy_j(), &self.info.machine.spec().power);
        let mut cells = Common {
            unit_of_work: "request",
            units: tally.finished,
            duration_s: seconds,
            energy_j,
            latency_mean_us: us(tally.latency.mean()),
            latency_p99_us: at(0.99),
            load: if is_closed { Way::Closed } else { Way::Open },
            idle_w,
            intervals: Intervals {
                energy_j_per_unit: interval(run.energy_per_request(), 1.0),
                latency_mean_us: interval(run.mean_latency(), 1e6),
                latency_p99_us: holding(interval(run.p99_latency, 1e6), at(0.99)),
            },
        }
        .cells();
        let arrived = tally.arrived.max(1) as f64;
        // A short run ends with requests in its queues although it keeps up.
        let under_way = UNDER_WAY * self.info.machine.cores() as u64;
        let finished = (tally.finished + under_way) as f64 / arrived;
        // Clients that wait send no more than the server serves.
        let keeps_up = is_closed || finished >= KEEPS_UP;
        let [busy, cold, kernel, waking] = run.busy.map(|share| 100.0 * share);
        let word = |is: bool| if is { "yes" } else { "no" };
        let own: [Value; 26] = [
            self.load_pct.into(),
            self.options.seed.into(),
            self.asked.bad_lines.into(),
            self.asked.read_as.as_str().into(),
            self.offered_per_s.into(),
            (tally.finished as f64 / seconds).into(),
            (energy_j / seconds).into(),
            at(0.5).into(),
            at(0.999).into(),
            us(tally.latency.max()).into(),
            (tally.waited_ps as f64 * 1e-6 / arrived).into(),
            busy.into(),
            cold.into(),
            kernel.into(),
            waking.into(),
            (100.0 * run.package_share).into(),
            (100.0 * tally.all_idle.as_s() / seconds).into(),
            (tally.ticks as f64 / seconds).into(),
            (run.os_cores.0 as u64).into(),
            (100.0 * run.os_cores.1).into(),
            // A server that keeps up has lost nothing; what is under way at its end is not lost.
            (if keeps_up { 0.0 } else { 100.0 * (1.0 - tally.finished as f64 / arrived) }).into(),
            word(keeps_up).into(),
            word(run.knows_cold).into(),
            power.basis.to_string().into(),
            power.factor[0].into(),
            power.factor[1].into(),
        ];
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        Table::row(cells)
    }
}

/// The run's slices; work is what was finished in them.
fn pieces(run: &Run) -> Vec<Piece> {
    let piece = |slice: &Slice| Piece {
        stratum: 0,
        work: slice.units,
        seconds: slice.time_s,
        energy_j: slice.energy_j,
    };
    run.slices.iter().map(piece).collect()
}

fn states(run: &Run) -> Table {
    let mut table = Table::new(&STATES);
    for state in run.states.iter().filter(|state| state.share > 0.0) {
        table.push(vec![state.name.into(), (100.0 * state.share).into(), state.wakes_per_s.into()]);
    }
    table
}
