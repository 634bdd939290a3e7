//! Readers of each family, and the facts that they find.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use halfwink_arrivals::counts::{CountOptions, Counts};
use halfwink_arrivals::log::{Log, LogOptions, Sizes};
use halfwink_engine::Cdf;
use halfwink_fabric::flows::chakra;
use halfwink_fabric::flows::files::{needs, read_coflows, read_flows, Needs};
use halfwink_fabric::flows::htsim::{nodes, read_matrix};
use halfwink_fabric::flows::{Racks, Roofline, Traffic};
use halfwink_fuzz_targets::racks::racks;
use halfwink_inputs::{look, open_input, read_input, Budget, Family, Opened};
use halfwink_node::gaps;
use halfwink_storage::load::{File, Host, Load};
use halfwink_testbed::traffic::capture::Replay;
use halfwink_trace::{
    import_champsim, import_drmemtrace, DrmemtraceInput, ImportOptions, RecordForm,
};

const MOST_BYTES: u64 = 1 << 26;

pub type Facts = BTreeMap<&'static str, f64>;

/// Format that a file was read as, and its facts.
pub struct Found {
    pub format: String,
    pub facts: Facts,
    pub left_out: String,
}

pub fn text_of(path: &Path) -> Result<Vec<u8>, String> {
    let opened = open_input(path, &Budget::new(MOST_BYTES)).and_then(Opened::text);
    opened.and_then(Opened::bytes).map_err(|error| error.to_string())
}

pub fn requests(path: &Path, options: &LogOptions) -> Result<Found, String> {
    let bytes = text_of(path)?;
    let log = Log::read(&bytes[..], options).map_err(|error| error.to_string())?;
    let span = log.times[log.times.len() - 1].as_s() - log.times[0].as_s();
    let sum = log.sizes.iter().sum();
    let mut facts = Facts::from([("requests", log.times.len() as f64), ("span_s", span)]);
    let name = if log.sizes_are == Some(Sizes::Service) { "service_s" } else { "bytes" };
    facts.insert(name, sum);
    let left_out = log.account.left_out().join(", ");
    Ok(Found { format: log.account.format, facts, left_out })
}

thread_local! {
    /// Value of every variable of the environment; none is set if it is empty.
    pub static VALUE: RefCell<String> = const { RefCell::new(String::new()) };
}

pub fn blocks(path: &Path, bytes: Vec<u8>, ignored: &[String]) -> Result<Found, String> {
    let name = path.display().to_string();
    let variable = |_: &str| VALUE.with_borrow(|it| (!it.is_empty()).then(|| it.clone()));
    let host = Host { cpus: 8, variable, ignored: ignored.to_vec(), ..Host::default() };
    let load = Load::read(&[File { name, bytes }], &host);
    let load = load.map_err(|error| error.to_string())?;
    let account = load.account();
    let (format, left_out) = (account.format.clone(), account.left_out().join(", "));
    let facts = match &load {
        Load::Jobs(jobs) => {
            let busiest = jobs.busiest();
            let weight = |job: &halfwink_storage::load::Job| f64::from(job.copies * job.depth);
            let depth: f64 = busiest.iter().map(weight).sum();
            let mean = |of: fn(&halfwink_storage::load::Job) -> f64| {
                busiest.iter().map(|job| weight(job) * of(job)).sum::<f64>() / depth
            };
            Facts::from([
                ("depth", depth),
                ("bytes", mean(|job| job.bytes)),
                ("reads_pct", 100.0 * mean(|job| job.reads)),
                ("phases", jobs.phases.len() as f64),
            ])
        }
        Load::Trace(trace) => {
            let last = trace.cpus.iter().filter_map(|cpu| cpu.last()).map(|it| it.at_ps).max();
            let mut facts = Facts::from([
                ("requests", trace.requests() as f64),
                ("span_s", last.unwrap_or(0) as f64 * 1e-12),
                ("bytes", trace.bytes()),
                ("reads_pct", 100.0 * trace.reads),
            ]);
            facts.extend(trace.latency_us.map(|us| ("latency_us", us)));
            facts
        }
    };
    Ok(Found { format, facts, left_out })
}

/// A fabric with so many racks of two servers.
fn fabric(count: u16) -> Racks {
    let rank = Some(Roofline { tflops: 989.4, memory_gb_per_s: 3350.0 });
    Racks { server_gbps: 10.0, packet_hops: 1, rank, ..racks(count, 2) }
}

pub fn flows(path: &Path) -> Result<Found, String> {
    let (format, traffic, needed) = if path.is_dir() {
        let budget = Budget::new(MOST_BYTES);
        let file = |rank: usize| {
            let name = path.join(format!("job.{rank}.et"));
            let bytes = read_input(&name, &budget).map_err(|error| error.to_string())?;
            Ok(chakra::File { name: name.display().to_string(), bytes })
        };
        let files = (0..8).map(file).collect::<Result<Vec<_>, String>>()?;
        let traffic = chakra::read(&files, &fabric(8), 1).map_err(|error| error.to_string())?;
        ("execution trace of Chakra", traffic, 8)
    } else {
        let text = String::from_utf8(text_of(path)?).map_err(|error| error.to_string())?;
        // Lists of which nothing is known are read, and refused, as flows.
        let wanted = needs(&text).unwrap_or(Needs::Servers(16));
        let count = match wanted {
            Needs::Racks(count) => count,
            Needs::Servers(count) => count.div_ceil(2).max(2),
        };
        let (format, read): (_, fn(&str, &Racks) -> _) = match wanted {
            _ if nodes(&text).is_some() => ("connection matrix of htsim", read_matrix),
            Needs::Racks(_) => ("coflows", read_coflows),
            Needs::Servers(_) => ("flows", read_flows),
        };
        let traffic = read(&text, &fabric(count as u16)).map_err(|error| {
            let other = look(text.as_bytes(), Family::Flows);
            other.map_or_else(|| error.to_string(), |other| other.to_string())
        })?;
        (format, traffic, count)
    };
    let traffic: Traffic = traffic;
    let moves = traffic.flows().iter().filter(|flow| flow.from != flow.to).count();
    let computes = traffic.flows().iter().filter(|flow| flow.from == flow.to);
    let longest = computes.map(|flow| flow.after.as_ns() * 1e-3).fold(0.0, f64::max);
    let facts = Facts::from([
        ("flows", moves as f64),
        ("bytes", traffic.bytes()),
        ("racks", f64::from(needed)),
        ("computes_us", longest),
    ]);
    Ok(Found { format: format.to_owned(), facts, left_out: String::new() })
}

pub fn instructions(path: &Path, form: RecordForm, format: &str) -> Result<Found, String> {
    let input = open_input(path, &Budget::new(MOST_BYTES)).map_err(|error| error.to_string())?;
    let options = ImportOptions { workload: "x".into(), origin: "x".into(), limit: None, level: 1 };
    let (summary, _) =
        import_champsim(input, form, &options, Vec::new()).map_err(|error| error.to_string())?;
    let facts = Facts::from([("instructions", summary.totals.instructions as f64)]);
    Ok(Found { format: format.to_owned(), facts, left_out: String::new() })
}

pub fn drmemtrace(path: &Path) -> Result<Found, String> {
    let budget = Budget::new(MOST_BYTES);
    let mut input = DrmemtraceInput::open(path, &budget).map_err(|error| error.to_string())?;
    let options = ImportOptions { workload: "x".into(), origin: "x".into(), limit: None, level: 1 };
    let done = import_drmemtrace(input.reader(), &options, Vec::new());
    let (summary, _) = done.map_err(|error| error.to_string())?;
    let totals = summary.totals;
    let facts = Facts::from([
        ("instructions", totals.instructions as f64),
        ("repeats", totals.repeats as f64),
        ("accesses", totals.accesses as f64),
        ("syscalls", totals.events.get("syscall").copied().unwrap_or_default() as f64),
    ]);
    Ok(Found { format: DRMEMTRACE.to_owned(), facts, left_out: String::new() })
}

pub fn frames(path: &Path) -> Result<Found, String> {
    let mut replay = Replay::open(path, 1).map_err(|error| error.to_string())?;
    let (mut count, mut bytes) = (0, 0);
    while replay.advance().map_err(|error| error.to_string())?.is_some() {
        count += 1;
        bytes += replay.frame().len();
    }
    let facts = Facts::from([("frames", f64::from(count)), ("bytes", bytes as f64)]);
    Ok(Found { format: "pcap".to_owned(), facts, left_out: String::new() })
}

pub fn counts(path: &Path) -> Result<Found, String> {
    let bytes = text_of(path)?;
    let read = Counts::read(&bytes[..], CountOptions::default());
    let counts = read.map_err(|error| error.to_string())?;
    let facts = Facts::from([
        ("requests", counts.total()),
        ("steps", counts.requests.len() as f64),
        ("step_s", counts.step.as_s()),
    ]);
    // Behind a comma stands how many series it has.
    let format = counts.account.format.split(',').next().unwrap_or_default();
    let left_out = counts.account.left_out().join(", ");
    Ok(Found { format: format.to_owned(), facts, left_out })
}

fn distribution(path: &Path) -> Result<Found, String> {
    let text = String::from_utf8(text_of(path)?).map_err(|error| error.to_string())?;
    let cdf = Cdf::parse(&text).map_err(|error| error.to_string())?;
    let facts = Facts::from([("mean", cdf.mean())]);
    Ok(Found { format: "distribution".to_owned(), facts, left_out: String::new() })
}

fn idle(path: &Path) -> Result<Found, String> {
    let recording = gaps::read(Cursor::new(text_of(path)?)).map_err(|error| error.to_string())?;
    let facts = Facts::from([
        ("gaps", recording.gaps() as f64),
        ("cpus", recording.cpus.len() as f64),
        ("idle_us", recording.idle().as_ns() * 1e-3),
    ]);
    Ok(Found { format: recording.format.to_owned(), facts, left_out: String::new() })
}

pub const OWN: &str = "ChampSim records";
pub const CLOUDSUITE: &str = "ChampSim records of the cloudsuite form";
pub const DRMEMTRACE: &str = "drmemtrace of DynamoRIO";

pub fn read(family: &str, path: &Path) -> Result<Found, String> {
    match family {
        "requests" => requests(path, &LogOptions::default()),
        "counts" => counts(path),
        "gaps" => distribution(path),
        "idle" => idle(path),
        "blocks" => blocks(path, text_of(path)?, &[]),
        "flows" => flows(path),
        "instructions" => instructions(path, RecordForm::Own, OWN),
        "instructions-cloudsuite" => instructions(path, RecordForm::Cloudsuite, CLOUDSUITE),
        "instructions-drmemtrace" => drmemtrace(path),
        "frames" => frames(path),
        other => panic!("no family {other}"),
    }
}
