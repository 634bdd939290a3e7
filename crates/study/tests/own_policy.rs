//! Policies of users as modules: what shipped ones decide as modules, and what hostile ones cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use halfwink_policy::gating::{self, Bound, Token};
use halfwink_policy::record::{Record, FIELDS};
use halfwink_study::{replay, Control, Job, Library, Study, Table, Tables, Value};
use halfwink_units::{LineAddr, Time};
use tempfile::TempDir;

fn library() -> Library {
    Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

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

fn run(job: &Job) -> Result<Tables, String> {
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

/// The shipped policies as a module; none where Rust cannot build one, which is said.
fn shipped() -> Option<PathBuf> {
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
        .args(["build", "--quiet", "--release", "--locked", "--target", TARGET, "--target-dir"])
        .arg(&out)
        .arg("--manifest-path")
        .arg(root.join("crates/policy-module/tests/shipped/Cargo.toml"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the module builds");
    Some(out.join(TARGET).join("release/shipped.wasm"))
}

#[test]
fn record_has_name_and_fields_of_log() {
    fn check<R: Record + serde::Serialize + PartialEq + std::fmt::Debug>(all: &[R]) {
        for (number, one) in all.iter().enumerate() {
            let mut fields = [0; FIELDS];
            let (kind, count) = one.put(&mut fields);
            assert!(fields[count..].iter().all(|&field| field == 0), "{one:?}");
            let json = serde_json::to_value(one).unwrap();
            let name = json.as_object().and_then(|o| o.keys().next().cloned());
            let name = name.or_else(|| json.as_str().map(str::to_owned)).unwrap();
            assert_eq!((R::KINDS[kind], number), (name.as_str(), kind), "{one:?}");
            assert_eq!(R::take(kind, &fields).as_ref(), Some(one));
        }
        assert_eq!(all.len(), R::KINDS.len());
        assert_eq!(R::take(all.len(), &[0; FIELDS]), None);
    }
    let (line, created) = (LineAddr(7), Time(8));
    check(&[
        gating::Event::StallBegin,
        gating::Event::StallEnd { began: Time(1) },
        gating::Event::Token(Token { line, created, bound: Bound::Eta(Time(9)) }),
        gating::Event::Response { line },
        gating::Event::IdleBegin,
        gating::Event::IdleEnd { began: Time(2) },
        gating::Event::Awake,
        gating::Event::Granted { wake_up: Time(3) },
    ]);
    check(&[
        gating::Action::Gate,
        gating::Action::Rest { state: 3 },
        gating::Action::Wake,
        gating::Action::Hindsight { gate: Time(4), wake: Time(5) },
    ]);
}

/// Names of the list for the numbers of the module.
const SHIPPED: [&str; 9] = [
    "tap",
    "tap:wake=last",
    "mapg-counter",
    "tap-or-mapg",
    "idle-gate",
    "idle-adaptive",
    "idle-menu",
    "oracle",
    "always-on",
];

/// Names of tables that differ.
fn differing(a: &Tables, b: &Tables) -> Vec<&'static str> {
    let pairs = results(a).into_iter().zip(results(b));
    pairs.filter(|(a, b)| a != b).map(|((name, _), _)| *name).collect()
}

#[test]
fn shipped_policy_as_module_gives_bytes_of_native_one() {
    let Some(module) = shipped() else { return };
    let own = |number: usize| run(&job(&format!("{}:policy={number}", module.display()))).unwrap();
    for (number, name) in SHIPPED.iter().enumerate() {
        let native = run(&job(name)).unwrap();
        let differing = differing(&native, &own(number));
        // The baseline has no cells that keep the state of a gated core, and so no leakage of them.
        let known = ["run", "ledger", "slices"];
        let is_baseline = *name == "always-on";
        assert!(
            differing.iter().all(|d| is_baseline && known.contains(d)),
            "{name}: {differing:?}"
        );
        let wakes = native[0].1.get(0, "wakes").cloned();
        assert_eq!(wakes == Some(Value::Integer(0)), is_baseline, "{name}: {wakes:?}");
    }
    assert!(!differing(&run(&job("tap")).unwrap(), &own(2)).is_empty(), "they can differ");
}

#[test]
fn log_of_module_is_replayed_until_its_content_changes() {
    let Some(module) = shipped() else { return };
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

/// A policy in text: its `decide`, and further parts of a module.
fn module(folder: &TempDir, decide: &str, more: &str) -> String {
    module_about(folder, ABOUT, decide, more)
}

const ABOUT: &str = r#"{"family": "gating", "title": "of a test"}"#;

fn module_about(folder: &TempDir, about: &str, decide: &str, more: &str) -> String {
    let about = about.replace('"', "\\22").replace('\n', " ");
    write(
        folder,
        &format!(
            r#"(module (memory (export "memory") 2)
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

/// The one line that a module ends with, in bounded time.
fn said(path: &str) -> String {
    let begun = Instant::now();
    let error = run(&job(path)).map(drop).expect_err("a hostile module");
    assert!(begun.elapsed() < Duration::from_secs(60), "{error}: {:?}", begun.elapsed());
    assert!(!error.contains('\n') && error.starts_with(path), "{error}");
    let line = error.replacen(path, "own.wasm", 1);
    eprintln!("{line}");
    line
}

/// Requests an action of this number at each event: word 31 is the count, word 32 the first action.
fn requests(number: u64, count: u64) -> String {
    format!(
        "(i64.store (i32.const {}) (i64.const {count}))
         (i64.store (i32.const {}) (i64.const {number}))",
        1024 + 8 * 31,
        1024 + 8 * 32
    )
}

#[test]
fn module_that_misbehaves_ends_run_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let at_start = "own.wasm: at 0 ps, told `start`, it ";
    for (decide, more, line) in [
        ("(loop $again (br $again))", "", "used up its fuel"),
        ("(call $decide)", "", "trapped: it calls itself too deeply"),
        ("unreachable", "", "trapped: it reached `unreachable`"),
        ("(i64.store (i32.const -8) (i64.const 1))", "", "trapped: out of bounds memory access"),
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
        (&requests(9, 1), "", "requested the action 9, expected 1 (gate), 2 (rest)"),
        (&requests(1, 1 << 40), "", "requested 1099511627776 actions, expected 8 at most"),
    ] {
        let line = format!("{at_start}{line}");
        let found = said(&module(&folder, decide, more));
        assert!(found.starts_with(&line), "{decide}: {found}");
    }
}

#[test]
fn module_whose_requests_no_core_can_follow_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // Wakes a core that runs.
    let found = said(&module(&folder, &requests(3, 1), ""));
    assert!(found.contains("asked for Wake at"), "{found}");
    let rest = "(i64.store (i32.const 1288) (i64.const 300))";
    let found = said(&module(&folder, &format!("{}{rest}", requests(2, 1)), ""));
    assert!(found.contains("requested `rest` with 300, which is out of range"), "{found}");
    // A timer of the past, which would ring for ever.
    let timer = "(i64.store (i32.const 1264) (i64.const 5))";
    let found = said(&module(&folder, timer, ""));
    assert!(found.contains("set its timer to"), "{found}");
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
            "family `flying`, expected gating",
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
    assert!(error.contains("of the family `gating`, for chip, toy; not for"), "{error}");
}
