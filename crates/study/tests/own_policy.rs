//! Policies of users as modules: what shipped ones decide as modules, and what hostile ones cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use halfwink_study::{replay, Control, Job, Study, Table, Tables};
use tempfile::TempDir;

use crate::library;

/// A run that is long enough for some thousand stalls and a few halts.
fn job(technique: &str) -> Job {
    let options = [("instructions".to_owned(), "200000".to_owned())].to_vec();
    Job {
        world: "chip".into(),
        workload: "nginx-10pct".into(),
        machine: "ev6-4".into(),
        technique: technique.into(),
        set: Vec::new(),
        options,
    }
}

pub(crate) fn run(job: &Job) -> Result<Tables, String> {
    let prepared = job.prepare(&library()).map_err(|error| error.to_string())?;
    prepared.run(&Control::default()).map_err(|error| {
        assert!(error.is_usage(), "{error}");
        error.to_string()
    })
}

/// Everything but what the host took.
fn results(tables: &Tables) -> Vec<&(&'static str, Table)> {
    tables.iter().filter(|(name, _)| *name != "host").collect()
}

fn key(job: &Job) -> String {
    job.prepare(&library()).unwrap().key()
}

const TARGET: &str = "wasm32-unknown-unknown";

/// The shipped policies of a family as a module; none where Rust cannot build one, which is said.
pub(crate) fn shipped(family: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let asked =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let mut entries = folder.ok().and_then(|folder| fs::read_dir(folder).ok());
    if entries.as_mut().and_then(Iterator::next).is_none() {
        let missing =
            format!("the Rust target {TARGET} is missing; run: rustup target add {TARGET}");
        assert!(std::env::var_os("HALFWINK_REQUIRE_ALL").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
        return None;
    }
    let out = root.join("target/shipped-module");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--examples", "--locked"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&out)
        .arg("--manifest-path")
        .arg(root.join("crates/policy-module/tests/shipped/Cargo.toml"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the module builds");
    Some(out.join(TARGET).join(format!("release/examples/{family}.wasm")))
}

/// A family, a run of a few hundred milliseconds, and names of the list for the numbers of its
/// module.
type Shipped = (&'static str, fn(&str) -> Job, &'static [&'static str]);

const SHIPPED: [Shipped; 9] = [
    (
        "gating",
        job,
        &[
            "tap",
            "tap:wake=last",
            "mapg-counter",
            "tap-or-mapg",
            "idle-gate",
            "idle-adaptive",
            "idle-menu",
            "oracle",
            "always-on",
        ],
    ),
    ("governors", halted_job, &["menu", "teo", "ladder"]),
    (
        "scaling",
        router_job,
        &[
            "power-save",
            "power-save-in-order",
            "polling",
            "napi",
            "napi-c6",
            "napi-menu",
            "napi-teo",
            "l3fwd-power-pause",
            "metronome",
            "suricata",
            "vpp-adaptive",
        ],
    ),
    (
        "steering",
        server_job,
        &[
            "hybrid",
            "hybrid-all",
            "hybrid-early",
            "always-big",
            "power-nap",
            "sleep-timer",
            "dream-weaver",
            "octopus-man",
            "always-on",
        ],
    ),
    (
        "offload",
        kernel_job,
        &[
            "os-always",
            "os-enough-work",
            "os-dynamic",
            "os-offload",
            "os-offload-direct",
            "os-adaptive",
            "os-like",
        ],
    ),
    (
        "completion",
        storage_job,
        &["single-thread", "same", "issuer", "round-robin-socket", "cache-aware", "dynamic"],
    ),
    (
        "preheat",
        cold_job,
        &[
            "no-preheat",
            "wake-only",
            "preheat",
            "sham-request",
            "next-line",
            "stride",
            "jukebox",
            "reap",
            "stash",
        ],
    ),
    (
        "circuits",
        racks_job,
        &[
            "static-circuits",
            "round-robin",
            "traffic-matrix",
            "solstice",
            "most-needed",
            "edmonds",
            "hedera",
        ],
    ),
    (
        "segregation",
        ruled_job,
        &[
            "lru",
            "bank-partition",
            "bank-partition:lookup=serial",
            "way-partition",
            "way-partition:ways=3,route=data",
            "insertion",
            "insertion:user=1,kernel=3",
        ],
    ),
];

/// Cores of today that are often halted.
pub(crate) fn halted_job(technique: &str) -> Job {
    let options = [("instructions".to_owned(), "4000000".to_owned())].to_vec();
    Job { machine: "golden-cove-4".into(), options, ..job(technique) }
}

/// A core whose kernel and user share a second level, for long enough that splits are tried.
fn ruled_job(technique: &str) -> Job {
    let options = [("instructions".to_owned(), "1000000".to_owned())].to_vec();
    Job { machine: "ev6".into(), options, ..job(technique) }
}

/// Racks that share circuits and a packet switch.
fn racks_job(technique: &str) -> Job {
    Job {
        world: "racks".into(),
        workload: "web-search@5".into(),
        machine: "opera-648".into(),
        technique: technique.into(),
        // Few enough for the heaviest matching to take little of a module's fuel.
        set: [("racks.count".to_owned(), "12".to_owned())].to_vec(),
        options: [("duration_ms".to_owned(), "2".to_owned())].to_vec(),
    }
}

/// A server that sleeps between requests.
fn cold_job(technique: &str) -> Job {
    Job {
        world: "preheat".into(),
        workload: "nginx-2016@100".into(),
        machine: "i5-6500".into(),
        technique: technique.into(),
        set: Vec::new(),
        options: [("requests".to_owned(), "200".to_owned())].to_vec(),
    }
}

/// Threads that call the kernel, and a core that is set aside for it.
fn kernel_job(technique: &str) -> Job {
    Job { workload: "syscalls".into(), machine: "ev6-4".into(), ..job(technique) }
}

/// A device that several CPUs of a server of two sockets keep busy.
fn storage_job(technique: &str) -> Job {
    Job {
        world: "storage".into(),
        workload: "random-read@8".into(),
        machine: "westmere-ep".into(),
        technique: technique.into(),
        set: Vec::new(),
        options: Vec::new(),
    }
}

/// A router whose load rises and falls.
fn router_job(technique: &str) -> Job {
    Job {
        world: "router".into(),
        workload: "ipv4@ramp:5,80,4".into(),
        machine: "westmere".into(),
        technique: technique.into(),
        set: Vec::new(),
        options: Vec::new(),
    }
}

/// A hybrid server at a load at which both machines serve.
fn server_job(technique: &str) -> Job {
    Job {
        world: "server".into(),
        workload: "count@30".into(),
        machine: "niccolini".into(),
        technique: technique.into(),
        set: Vec::new(),
        options: [("requests".to_owned(), "3000".to_owned())].to_vec(),
    }
}

/// Names of tables that differ.
pub(crate) fn differing(a: &Tables, b: &Tables) -> Vec<&'static str> {
    let pairs = results(a).into_iter().zip(results(b));
    pairs.filter(|(a, b)| a != b).map(|((name, _), _)| *name).collect()
}

#[test]
fn shipped_policy_as_module_gives_bytes_of_native_one() {
    for (family, job, names) in SHIPPED {
        let Some(module) = shipped(family) else { return };
        let own = |n: usize| run(&job(&format!("{}:policy={n}", module.display()))).unwrap();
        let natives: Vec<Tables> = names.iter().map(|name| run(&job(name)).unwrap()).collect();
        for (number, (name, native)) in names.iter().zip(&natives).enumerate() {
            let differing = differing(native, &own(number));
            // The baseline of a chip has no cells that keep the state of a gated core, and so no
            // leakage of them.
            let known = ["run", "ledger", "slices"];
            let is_baseline = (family, *name) == ("gating", "always-on");
            assert!(
                differing.iter().all(|d| is_baseline && known.contains(d)),
                "{family} {name}: {differing:?}"
            );
        }
        // Equal bytes would prove nothing if most of them were alike.
        let is_new = |n: &usize| natives[..*n].iter().all(|o| results(o) != results(&natives[*n]));
        let kinds = (0..natives.len()).filter(is_new).count();
        assert!(2 * kinds > natives.len(), "{family}: {kinds} of {} differ", natives.len());
    }
}

#[test]
fn log_of_module_is_replayed_until_its_content_changes() {
    let Some(module) = shipped("gating") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (copy, log) = (folder.path().join("own.wasm"), folder.path().join("run.log"));
    fs::copy(module, &copy).unwrap();
    let job = job(copy.to_str().unwrap());
    let control = Control { log: Some(log.clone()), ..Control::default() };
    job.prepare(&library()).unwrap().run(&control).unwrap();
    let report = replay(&library(), &log, None).unwrap();
    assert_eq!(report.first_difference, None);
    assert!(report.lines > 100 && report.actions > 10, "{report:?}");
    let before = key(&job);
    // An empty custom section: the same code, another content.
    let mut bytes = fs::read(&copy).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    fs::write(&copy, bytes).unwrap();
    assert_ne!(key(&job), before);
    let error = replay(&library(), &log, None).unwrap_err().to_string();
    assert!(error.contains("its content has changed: expected"), "{error}");
}

#[test]
fn study_of_finished_run_is_read_without_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.toml");
    let text = "schema = 1\ntitle = \"t\"\nworkloads = [\"nginx\"]\nmachines = [\"ev6-4\"]\n\
                techniques = [\"always-on\", \"./gone.wasm:after_us=5\"]\n";
    fs::write(&path, text).unwrap();
    let study = Study::open(&library(), path.to_str().unwrap()).unwrap();
    assert_eq!(study.techniques, ["always-on", "./gone.wasm:after_us=5"]);
    let error = run(&job("./gone.wasm:after_us=5")).unwrap_err();
    assert!(error.starts_with("./gone.wasm: No such file"), "{error}");
}

pub(crate) const ABOUT: &str = r#"{"family": "gating", "title": "of a test"}"#;

/// A policy in text: what it says of itself, its `decide`, and further parts of a module.
pub(crate) fn module_about(folder: &TempDir, about: &str, decide: &str, more: &str) -> String {
    module_of(folder, 2, about, decide, more)
}

/// Writes such a policy with so many pages of memory.
fn module_of(folder: &TempDir, pages: u32, about: &str, decide: &str, more: &str) -> String {
    let about = about.replace('"', "\\22").replace('\n', " ");
    write(
        folder,
        &format!(
            r#"(module (memory (export "memory") {pages})
                (data (i32.const 4096) "{about}\00")
                (func (export "halfwink_abi") (result i32) (i32.const 1))
                (func (export "halfwink_about") (result i32) (i32.const 4096))
                (func (export "halfwink_block") (result i32) (i32.const 1024))
                (func $decide (export "halfwink_decide") {decide}) {more})"#
        ),
    )
}

fn write(folder: &TempDir, text: &str) -> String {
    let path = folder.path().join("own.wasm");
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn policies_of_a_run_have_a_gibibyte_together() {
    let folder = tempfile::tempdir().unwrap();
    let about = r#"{"family": "steering", "title": "of a test"}"#;
    // Sends each request to the small machine.
    let send =
        "(i64.store (i32.const 1272) (i64.const 1)) (i64.store (i32.const 1280) (i64.const 1))";
    let technique = module_of(&folder, 64, about, send, "");
    let of = |servers: &str| Job {
        world: "server".into(),
        workload: "count@30".into(),
        machine: "niccolini".into(),
        technique: technique.clone(),
        set: [("servers", servers), ("requests", "10")].map(|(k, v)| (k.into(), v.into())).into(),
        options: Vec::new(),
    };
    let error = run(&of("260")).unwrap_err();
    assert!(error.contains("found no memory left: all policies of a run have 1024 MiB"), "{error}");
    // The memory of one run is free for the next.
    let error = run(&of("200")).err();
    assert!(error.as_ref().is_none_or(|e| !e.contains("no memory")), "{error:?}");
}

/// The one line that a module ends with, in bounded time.
fn said(path: &str) -> String {
    said_by(&job(path))
}

pub(crate) fn said_by(job: &Job) -> String {
    let (begun, path) = (Instant::now(), job.technique.as_str());
    let error = run(job).map(drop).expect_err("a hostile module");
    assert!(begun.elapsed() < Duration::from_secs(60), "{error}: {:?}", begun.elapsed());
    assert!(!error.contains('\n') && error.starts_with(path), "{error}");
    let line = error.replacen(path, "own.wasm", 1);
    eprintln!("{line}");
    line
}

/// Stores these values from a word of the block on.
pub(crate) fn stores(word: u64, values: &[u64]) -> String {
    let store =
        |(n, value)| format!("(i64.store (i32.const {}) (i64.const {value}))", 1024 + 8 * n);
    (word..).zip(values).map(store).collect()
}

/// Requests an action of this number, with these fields: word 31 is the count.
pub(crate) fn requests(number: u64, fields: &[u64]) -> String {
    stores(31, &[1, number]) + &stores(33, fields)
}

/// A description of a policy of this family.
fn about(family: &str) -> String {
    ABOUT.replace("gating", family)
}

#[test]
fn module_that_misbehaves_ends_run_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (family, job, _) in SHIPPED.into_iter().filter(|(family, ..)| *family != "governors") {
        for (decide, more, line) in [
            ("(loop $again (br $again))", "", "used up its fuel"),
            ("(call $decide)", "", "trapped: it calls itself too deeply"),
            ("unreachable", "", "trapped: it reached `unreachable`"),
            (
                "(i64.store (i32.const -8) (i64.const 1))",
                "",
                "trapped: out of bounds memory access",
            ),
            (
                "(loop $again (br_if $again (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0)))
                   unreachable)",
                "",
                "trapped: it reached `unreachable`",
            ),
            (
                "(loop $again (drop (table.grow (ref.null func) (i32.const 1000))) (br $again))",
                "(table 1 funcref)",
                "used up its fuel",
            ),
            (&requests(99, &[]), "", "requested the action 99, expected 1 ("),
            (&stores(31, &[1 << 40]), "", "requested 1099511627776 actions, expected 512 at most"),
            // It says that there are more actions, and has the same number again.
            (
                &(requests(1, &[]) + &stores(31, &[9]) + &shifted()),
                "",
                "had 9 more actions, expected 1",
            ),
        ] {
            let line = format!("own.wasm: at 0 ps, told `start`, it {line}");
            let module = module_about(&folder, &about(family), decide, more);
            let found = said_by(&job(&module));
            assert!(found.starts_with(&line), "{family} {decide}: {found}");
        }
    }
    // A timer of the past, which would ring for ever.
    let found = said(&module_about(&folder, ABOUT, &stores(30, &[5]), ""));
    assert!(found.contains("set its timer to 5 ps, expected a time to come"), "{found}");
}

/// Makes eight actions out of the first one, which all families can read.
fn shifted() -> String {
    (0..8).map(|n| stores(32 + 4 * n, &[1, 0, 0, 0])).collect()
}

#[test]
fn module_whose_requests_no_world_can_follow_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pause = [0, 2, 0];
    for (family, number, fields, line) in [
        ("gating", 3, &[][..], "asked for Wake at"),
        ("gating", 2, &[300], "requested `rest` with 300, which is out of range"),
        ("scaling", 1, &[255], "named the core 255, expected one below"),
        ("scaling", 3, &[200], "named the P-state 200, expected one below"),
        ("scaling", 4, &[0, 200], "named the P-state 200, expected one below"),
        ("scaling", 5, &[128, 0, 0], "named the entry 128, expected one below 128"),
        ("scaling", 5, &[0, 200, 0], "named the core 200, expected one below"),
        ("scaling", 6, &pause, "requested a rest of 0 ps, expected 1 ps at least"),
        ("scaling", 6, &[0, 15, 0], "requested `rest` with 0, which is out of range"),
        ("steering", 1, &[2], "named the machine 2, expected one below 2"),
        ("steering", 3, &[255], "named the machine 255, expected one below 2"),
        ("steering", 2, &[256], "requested `wake` with 256, which is out of range"),
        ("preheat", 16, &[u64::MAX, 2], "named 2 lines from 18446744073709551615 on"),
        ("preheat", 15, &[80, 3], "requested `record` with 80, which is out of range"),
        ("circuits", 1, &[0, 0, 60000], "named the host 60000, expected one below"),
        ("circuits", 2, &[0, 5], "requested a day of 5 ps, expected"),
        ("segregation", 1, &[0, 8, 0], "gave the kernel 8 ways of 8, expected 1 to all but one"),
        ("segregation", 1, &[0, 255, 8], "named the rank 8, expected one below 8"),
        ("segregation", 1, &[3, 0, 0], "requested `set` with 3, which is out of range"),
        ("segregation", 2, &[0, 1], "requested a sample after 0, expected 1 at least"),
    ] {
        let (_, job, _) = SHIPPED.into_iter().find(|(name, ..)| *name == family).unwrap();
        let module = module_about(&folder, &about(family), &requests(number, fields), "");
        let found = said_by(&job(&module));
        assert!(found.contains(line), "{family} {number} {fields:?}: {found}");
    }
    // It loads what is not there, and again as soon as it is told so.
    let loads = |event: u64| {
        let load = requests(10, &[80, u64::MAX, 1]);
        format!("(if (i64.eq (i64.load (i32.const 1032)) (i64.const {event})) (then {load}))")
    };
    let module = module_about(&folder, &about("preheat"), &(loads(2) + &loads(8)), "");
    let found = said_by(&cold_job(&module));
    assert!(found.contains("told `loaded`, it asked again and again at one time"), "{found}");
    // A pair only: its start has no room for a set.
    let of_set = Job {
        machine: "six".into(),
        ..server_job(&module_about(&folder, &about("steering"), "", ""))
    };
    let error = run(&of_set).map(drop).expect_err("a module of a set");
    assert!(error.contains("found a set of 6 machines, expected a pair for"), "{error}");
    // Modules that answer no question fail, whether they asked for it or not.
    for (family, line) in [
        ("scaling", "`empty`, it let the core 0 wait, expected one `rest` of it"),
        ("steering", "`arrive`, it sent the request 0 times, expected one `send`"),
        ("circuits", "`next`, it requested no day, expected one `day` of plane 0 at the end"),
    ] {
        let (_, job, _) = SHIPPED.into_iter().find(|(name, ..)| *name == family).unwrap();
        let about = about(family).replace('}', ", \"events\": []}");
        let found = said_by(&job(&module_about(&folder, &about, "", "")));
        assert!(found.contains(line), "{family}: {found}");
    }
}

#[test]
fn file_that_is_no_policy_is_rejected_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let here = |text: &str| said(&write(&folder, text));
    for (found, line) in [
        (here("(module)"), "exports no function `halfwink_abi() -> i32`"),
        (
            here(r#"(module (func (export "halfwink_abi") (result i32) (i32.const 7)))"#),
            "is of version 7 of the interface, expected 1",
        ),
        (here(r#"(module (import "env" "now" (func)))"#), "imports `env.now`, expected no imports"),
        (here(r#"(module (memory 65536))"#), "memory"),
        (here("(module (func $f (loop $l (br $l))) (start $f))"), "used up its fuel"),
        (said(&module_about(&folder, "{}", "", "")), "missing field `family`"),
        (
            said(&module_about(&folder, r#"{"family":"flying","title":"t"}"#, "", "")),
            "family `flying`, expected gating, scaling, steering",
        ),
        (
            said(&module_about(
                &folder,
                r#"{"family":"gating","title":"t","events":["noon"]}"#,
                "",
                "",
            )),
            "event `noon`, expected stall-begin",
        ),
    ] {
        assert!(found.contains(line), "{line}: {found}");
    }
}

#[test]
fn path_that_is_no_file_is_rejected_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    fs::create_dir(path("folder.wasm")).unwrap();
    assert!(Command::new("mkfifo").arg(path("fifo.wasm")).status().unwrap().success());
    fs::write(path("text.wasm"), "no module").unwrap();
    fs::write(path("large.wasm"), vec![0xaa; 3 << 20]).unwrap();
    fs::File::create(path("sparse.wasm")).unwrap().set_len(1 << 30).unwrap();
    for (file, line) in [
        ("folder.wasm", "expected a regular file"),
        ("fifo.wasm", "expected a regular file"),
        ("text.wasm", "is no WebAssembly module"),
        ("large.wasm", "more than 1048576 bytes"),
        ("sparse.wasm", "is sparse"),
        ("none.wasm", "no such file"),
    ] {
        let found = said(&name(&path(file)));
        assert!(found.to_lowercase().contains(&line.to_lowercase()), "{file}: {found}");
    }
}

#[test]
fn module_is_set_and_composed_as_named_techniques_are() {
    let folder = tempfile::tempdir().unwrap();
    let about = r#"{"family":"gating","title":"t","events":["idle-begin","idle-end"],"parameters":
        [{"name":"after_us","unit":"us","default":20,"least":0,"most":9,"title":"a"}]}"#;
    let path = module_about(&folder, about, "", "");
    let error = run(&job(&path)).unwrap_err();
    assert!(error.contains("default 20, expected 0 to 9"), "{error}");
    let path = module_about(&folder, &about.replace(":9,", ":90,"), "", "");
    let set = |path: &str, value: &str| Job {
        set: [(path.to_owned(), value.to_owned())].to_vec(),
        ..job(path.split(':').next().unwrap())
    };
    let by_name = set(&format!("{path}:after_us"), "5");
    assert_eq!(key(&by_name), key(&job(&format!("{path}:after_us=5"))));
    assert_ne!(key(&by_name), key(&job(&path)));
    let error = run(&job(&format!("{path}:after_us=99"))).unwrap_err();
    assert!(error.contains("after_us: `99`, expected 0 to 90 us"), "{error}");
    // It hears of halts alone: another technique may decide in stalls.
    run(&job(&format!("tap+{path}"))).unwrap();
    let error = run(&job(&format!("idle-gate+{path}"))).unwrap_err();
    assert!(error.contains("both decide how an idle core sleeps"), "{error}");
    let router = Job { world: "router".into(), ..job(&path) };
    let error = router.prepare(&library()).map(drop).unwrap_err().to_string();
    assert!(error.contains("of the family `gating`, for chip, node, toy; not for"), "{error}");
}
