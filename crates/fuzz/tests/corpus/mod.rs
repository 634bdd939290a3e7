//! Files as people have them (`tests/corpus`): each loads with the facts that were counted by hand,
//! within 1 %, or is refused by a line that names a step that works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use halfwink_arrivals::log::{Log, LogOptions, Sizes};
use halfwink_fabric::flows::chakra;
use halfwink_fabric::flows::files::{needs, read_coflows, read_flows, Needs};
use halfwink_fabric::flows::htsim::{nodes, read_matrix};
use halfwink_fabric::flows::{RackFaults, RackPower, Racks, Roofline, Traffic};
use halfwink_inputs::{open_input, read_input, Budget, Opened};
use halfwink_storage::load::{File, Host, Load};
use halfwink_testbed::traffic::capture::Replay;
use halfwink_trace::{import_champsim, ImportOptions, RecordForm};
use serde::Deserialize;

const MOST_BYTES: u64 = 1 << 26;

/// The list of files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    file: Vec<Entry>,
}

/// A file, and what is known of it.
#[derive(Deserialize)]
struct Entry {
    name: String,
    family: String,
    format: String,
    source: String,
    refused: Option<String>,
    next: Option<String>,
    left_out: Option<String>,
    #[serde(flatten)]
    facts: BTreeMap<String, f64>,
}

type Facts = BTreeMap<&'static str, f64>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

fn corpus() -> Vec<Entry> {
    let text = std::fs::read_to_string(folder().join("corpus.toml")).unwrap();
    toml::from_str::<Corpus>(&text).unwrap().file
}

/// Format that a file was read as, and its facts.
struct Found {
    format: String,
    facts: Facts,
    left_out: String,
}

fn text_of(path: &Path) -> Result<Vec<u8>, String> {
    let opened = open_input(path, &Budget::new(MOST_BYTES)).and_then(Opened::text);
    opened.and_then(Opened::bytes).map_err(|error| error.to_string())
}

fn requests(path: &Path) -> Result<Found, String> {
    let bytes = text_of(path)?;
    let log = Log::read(&bytes[..], &LogOptions::default()).map_err(|error| error.to_string())?;
    let span = log.times[log.times.len() - 1].as_s() - log.times[0].as_s();
    let sum = log.sizes.iter().sum();
    let mut facts = Facts::from([("requests", log.times.len() as f64), ("span_s", span)]);
    let name = if log.sizes_are == Some(Sizes::Service) { "service_s" } else { "bytes" };
    facts.insert(name, sum);
    let left_out = log.account.left_out().join(", ");
    Ok(Found { format: log.account.format, facts, left_out })
}

fn blocks(path: &Path) -> Result<Found, String> {
    let name = path.display().to_string();
    let host = Host { cpus: 8, ..Host::default() };
    let load = Load::read(&[File { name, bytes: text_of(path)? }], &host);
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
fn racks(count: u16) -> Racks {
    let power = RackPower {
        circuit_port_w: 0.0,
        packet_w_per_gbps: 0.0,
        transceiver_w: 0.0,
        server_w: 0.0,
    };
    Racks {
        count,
        servers: 2,
        server_gbps: 10.0,
        planes: 1,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.0,
        frame_bytes: 0.0,
        packet_hops: 1,
        faults: RackFaults::default(),
        rank: Some(Roofline { tflops: 989.4, memory_gb_per_s: 3350.0 }),
        power,
    }
}

fn flows(path: &Path) -> Result<Found, String> {
    let (format, traffic, needed) = if path.is_dir() {
        let budget = Budget::new(MOST_BYTES);
        let file = |rank: usize| {
            let name = path.join(format!("job.{rank}.et"));
            let bytes = read_input(&name, &budget).map_err(|error| error.to_string())?;
            Ok(chakra::File { name: name.display().to_string(), bytes })
        };
        let files = (0..8).map(file).collect::<Result<Vec<_>, String>>()?;
        let traffic = chakra::read(&files, &racks(8), 1).map_err(|error| error.to_string())?;
        ("execution trace of Chakra", traffic, 8)
    } else {
        let text = String::from_utf8(text_of(path)?).map_err(|error| error.to_string())?;
        let wanted = needs(&text).ok_or("no flows")?;
        let count = match wanted {
            Needs::Racks(count) => count,
            Needs::Servers(count) => count.div_ceil(2).max(2),
        };
        let (format, read): (_, fn(&str, &Racks) -> _) = match wanted {
            _ if nodes(&text).is_some() => ("connection matrix of htsim", read_matrix),
            Needs::Racks(_) => ("coflows", read_coflows),
            Needs::Servers(_) => ("flows", read_flows),
        };
        let traffic = read(&text, &racks(count as u16)).map_err(|error| error.to_string())?;
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

fn instructions(path: &Path, form: RecordForm, format: &str) -> Result<Found, String> {
    let input = open_input(path, &Budget::new(MOST_BYTES)).map_err(|error| error.to_string())?;
    let options = ImportOptions { workload: "x".into(), origin: "x".into(), limit: None, level: 1 };
    let (summary, _) =
        import_champsim(input, form, &options, Vec::new()).map_err(|error| error.to_string())?;
    let facts = Facts::from([("instructions", summary.totals.instructions as f64)]);
    Ok(Found { format: format.to_owned(), facts, left_out: String::new() })
}

fn frames(path: &Path) -> Result<Found, String> {
    let mut replay = Replay::open(path, 1).map_err(|error| error.to_string())?;
    let mut count = 0;
    while replay.advance().map_err(|error| error.to_string())?.is_some() {
        count += 1;
    }
    let facts = Facts::from([("frames", f64::from(count))]);
    Ok(Found { format: "pcap".to_owned(), facts, left_out: String::new() })
}

fn read(family: &str, path: &Path) -> Result<Found, String> {
    let own = "ChampSim records";
    let cloudsuite = "ChampSim records of the cloudsuite form";
    match family {
        "requests" => requests(path),
        "blocks" => blocks(path),
        "flows" => flows(path),
        "instructions" => instructions(path, RecordForm::Own, own),
        "instructions-cloudsuite" => instructions(path, RecordForm::Cloudsuite, cloudsuite),
        "frames" => frames(path),
        other => panic!("no family {other}"),
    }
}

/// Compares a result with an entry of the list.
fn judged(entry: &Entry, found: Result<Found, String>) -> Result<(), String> {
    match (found, &entry.refused) {
        (Ok(found), None) => {
            if found.format != entry.format {
                return Err(format!("read as {}, expected {}", found.format, entry.format));
            }
            for (name, expected) in &entry.facts {
                let known = found.facts.get(name.as_str());
                let known = known.ok_or_else(|| format!("no fact {name}"))?;
                if (known - expected).abs() > 0.01 * expected.abs() {
                    return Err(format!("{name} {known}, expected {expected}"));
                }
            }
            match &entry.left_out {
                Some(word) if !found.left_out.contains(word) => Err(format!("{word} is not told")),
                _ => Ok(()),
            }
        }
        (Ok(_), Some(_)) => Err("loads, expected a refusal".to_owned()),
        (Err(said), None) => Err(said),
        (Err(said), Some(why)) => {
            let next = entry.next.as_deref().unwrap_or_default();
            let is_told = said.contains(why.as_str()) && said.contains(next);
            match is_told && !said.contains('\n') {
                true => Ok(()),
                false => Err(format!("said `{said}`, expected `{why}` and `{next}`")),
            }
        }
    }
}

#[test]
fn files_as_people_have_them_load_or_are_refused_with_a_next_step() {
    let entries = corpus();
    let mut wrong = Vec::new();
    for entry in &entries {
        assert!(!entry.source.is_empty(), "{}", entry.name);
        let found = read(&entry.family, &folder().join(&entry.name));
        if let Err(why) = judged(entry, found) {
            wrong.push(format!("{}: {why}", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), entries.len(), wrong.join("\n"));
    assert!(entries.len() >= 40);
}

/// Each file of the folder is in the list, and none is named that is not there.
#[test]
fn the_list_of_files_is_whole() {
    let mut listed: Vec<String> = corpus().into_iter().map(|entry| entry.name).collect();
    listed.push("corpus.toml".to_owned());
    listed.sort_unstable();
    listed.dedup();
    let names = std::fs::read_dir(folder()).unwrap();
    let mut there: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort_unstable();
    assert_eq!(there, listed);
}

/// The table of docs/inputs.md: of each format how many files load as they should.
#[test]
fn docs_say_which_formats_load() {
    let mut formats: BTreeMap<(String, String), (u32, u32, u32)> = BTreeMap::new();
    for entry in corpus() {
        let found = read(&entry.family, &folder().join(&entry.name));
        let is_right = judged(&entry, found).is_ok();
        let family = entry.family.split('-').next().unwrap_or_default().to_owned();
        let count = formats.entry((family, entry.format)).or_default();
        count.0 += u32::from(is_right && entry.refused.is_none());
        count.1 += 1;
        count.2 += u32::from(is_right && entry.refused.is_some());
    }
    let row = |((family, format), (load, all, refused)): (&(String, String), &(u32, u32, u32))| {
        format!("| {family} | {format} | {load} of {all} | {refused} |\n")
    };
    let (load, all) = formats.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let table = format!(
        "| family | format | load with their facts | refused with a next step |\n\
         |---|---|---|---|\n{}\n{load} of {all} files load.\n",
        formats.iter().map(row).collect::<String>()
    );
    let path = folder().join("../../docs/inputs.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- corpus -->\n", "<!-- end of corpus -->");
    let (before, rest) = page.split_once(begin).expect("a place for the table");
    let (now, after) = rest.split_once(end).expect("its end");
    if std::env::var_os("HALFWINK_WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(now, table, "HALFWINK_WRITE_TABLES=1 cargo test -p halfwink-fuzz-targets writes it");
}
