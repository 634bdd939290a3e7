//! Runs of every world leave logs from which fresh policies decide the same.

use std::fs;
use std::path::{Path, PathBuf};

use halfwink_eventlog::{Family, Header, Place, Writer};
use halfwink_policy::offload::{Cause, Delegation, Event, KernelEntry, Registers};
use halfwink_policy::Host;
use halfwink_study::{beside, replay, Control, Job, Report, Table, Tables};
use halfwink_units::Time;
use tempfile::TempDir;

use crate::library;

fn job(names: [&str; 4], options: &[(&str, &str)]) -> Job {
    let [world, workload, machine, technique] = names.map(str::to_owned);
    let own = |&(path, value): &(&str, &str)| (path.to_owned(), value.to_owned());
    let options = options.iter().map(own).collect();
    Job { world, workload, machine, technique, set: Vec::new(), options }
}

fn run(job: &Job, log: Option<PathBuf>) -> Tables {
    let control = Control { log, ..Control::default() };
    job.prepare(&library()).unwrap().run(&control).unwrap()
}

fn logged(job: &Job, folder: &TempDir) -> PathBuf {
    let path = folder.path().join("run.log");
    run(job, Some(path.clone()));
    path
}

/// Everything but what the host took.
fn results(tables: &Tables) -> Vec<&(&'static str, Table)> {
    tables.iter().filter(|(name, _)| *name != "host").collect()
}

fn replayed(path: &Path) -> Report {
    replay(&library(), path, None).unwrap()
}

/// Runs with a log as without one; fresh policies decide as it says, and where one action is
/// forged, that line is named.
fn proves(job: &Job, families: &[&str]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    let name = format!("{} {}", job.world, job.technique);
    let (with, without) = (run(job, Some(path.clone())), run(job, None));
    assert!(results(&with) == results(&without), "{name}: a log changes the run");
    let report = replayed(&path);
    assert_eq!(report.first_difference, None, "{name}");
    assert!(report.lines > 100 && report.actions > 10, "{name}: {report:?}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().last().unwrap().starts_with("{\"end_ps\":"), "{name}");
    for family in families {
        let there = format!("\"family\":\"{family}\"");
        assert!(text.contains(&there), "{name}: no policy of the family {family}");
    }
    forged(&path, &text, &name);
    report
}

/// Takes the last action out of the middle of the log.
fn forged(path: &Path, text: &str, name: &str) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let middle = lines.len() / 2;
    let wrong = (middle..lines.len()).find(|&n| lines[n].contains(",\"actions\":["));
    let wrong = wrong.unwrap_or_else(|| panic!("{name}: no action in the second half of its log"));
    let cut = lines[wrong].find(",\"actions\":[").unwrap();
    lines[wrong] = format!("{}}}", &lines[wrong][..cut]);
    fs::write(path, lines.join("\n") + "\n").unwrap();
    let difference = replayed(path).first_difference.expect("a forged line is found");
    assert_eq!(difference.line, wrong as u64 + 1, "{name}");
    assert!(difference.expected.is_empty() && !difference.found.is_empty(), "{name}");
}

#[test]
fn a_toy_is_replayed() {
    for technique in ["idle-gate", "idle-adaptive"] {
        let names = ["toy", "exponential@30", "machine", technique];
        proves(&job(names, &[("requests", "2000"), ("wake_up_us", "2")]), &["gating"]);
    }
}

#[test]
fn router_logs_replay_without_difference() {
    for technique in ["power-save:c_up=2", "nmap-dvfs", "metronome:threads=2", "l3fwd-power"] {
        let names = ["router", "ipv4@step:100kpps,2Mpps,50kpps", "westmere", technique];
        proves(&job(names, &[("evaluation.point_ms", "2.0")]), &["scaling"]);
    }
}

#[test]
fn a_logged_router_plays_its_cores_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    // Its cores have nothing to do with each other, so that without a log each plays ahead.
    let names = ["router", "ipv4@5", "westmere", "metronome"];
    let job = job(names, &[("evaluation.point_ms", "2.0")]);
    let path = folder.path().join("run.log");
    let (with, without) = (run(&job, Some(path.clone())), run(&job, None));
    assert!(results(&with) == results(&without), "a log changes the run");
    let text = fs::read_to_string(path).unwrap();
    let time = |line: &str| line.strip_prefix("{\"now_ps\":")?.split(',').next()?.parse().ok();
    let times: Vec<u64> = text.lines().filter_map(time).collect();
    assert!(times.len() > 100 && times.is_sorted());
}

#[test]
fn server_logs_replay_without_difference() {
    for technique in ["hybrid:threshold=3", "octopus-man", "dream-weaver", "sleep-timer"] {
        let names = ["server", "count@30", "niccolini", technique];
        proves(&job(names, &[("requests", "3000")]), &["steering"]);
    }
}

#[test]
fn schedules_of_circuits_are_replayed() {
    for (technique, ms) in
        [("round-robin:day_us=61", "20"), ("most-needed", "3"), ("solstice", "3")]
    {
        let names = ["fabric", "all-to-all", "mordia", technique];
        proves(&job(names, &[("duration_ms", ms)]), &["circuits"]);
    }
}

#[test]
fn completions_of_block_ios_are_replayed() {
    let all = ["single-thread", "issuer", "round-robin-socket", "cache-aware:period_ms=1"];
    let more = ["dynamic", "msi-x", "multi-queue", "polled", "hybrid-poll", "interleaved-tags"];
    for technique in all.into_iter().chain(more) {
        let names = ["storage", "random-read@8", "westmere-ep", technique];
        let options = [("ios", "2000"), ("warm_up", "1000"), ("rate_kiops", "90")];
        proves(&job(names, &options), &["completion"]);
    }
}

#[test]
fn schedules_between_racks_are_replayed() {
    for technique in ["rotor", "opera", "most-needed", "traffic-matrix"] {
        let names = ["racks", "web-search@5", "opera-648", technique];
        proves(&job(names, &[("duration_ms", "4"), ("at_most_ms", "40")]), &["circuits"]);
    }
}

#[test]
fn schedule_of_a_fabric_that_grew_for_its_file_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.coflows");
    // More racks than the fabric has.
    fs::write(&path, "150 1\n1 0 2 3 149 2 140:40 7:40\n").unwrap();
    let names = ["racks", path.to_str().unwrap(), "opera-648", "most-needed"];
    proves(&job(names, &[("duration_ms", "4"), ("at_most_ms", "40")]), &["circuits"]);
}

#[test]
fn every_server_of_a_fleet_has_its_place() {
    let options = [("requests", "3000"), ("servers", "5")];
    let report = proves(&job(["server", "count@30", "niccolini", "hybrid"], &options), &[]);
    assert_eq!(report.policies, 5);
}

#[test]
fn kernels_that_switch_cores_are_replayed() {
    let names = ["switching", "web@1g", "alpha@sim-cs", "v4+power-down-adaptive"];
    let report = proves(&job(names, &[]), &["offload", "gating", "switching"]);
    assert_eq!(report.policies, 3, "calls of one core, idle times of both");
}

#[test]
fn chip_logs_replay_without_difference() {
    let short = [("instructions", "100000")];
    for technique in ["tap", "mapg-counter", "oracle", "tap-or-mapg"] {
        proves(&job(["chip", "nginx", "ev6-1", technique], &short), &["gating"]);
    }
    let report = proves(&job(["chip", "nginx*2", "ev6-2", "fupg"], &short), &["gating"]);
    assert_eq!(report.policies, 6, "three units of each core");
    let report =
        proves(&job(["chip", "nginx*3", "ev6-4", "tap+central-wake-up"], &short), &["wake-up"]);
    assert_eq!(report.policies, 4, "three cores and their controller");
    let offload = job(["chip", "apache*2", "ev6-2", "os-offload"], &short);
    let report = proves(&offload, &["gating", "offload"]);
    assert!(report.policies >= 4, "two threads on two cores, and OS cores: {report:?}");
}

#[test]
fn chips_with_faults_are_replayed() {
    let faulty = |machine, workload, technique| {
        let options = [("instructions", "100000"), ("seed", "7")];
        let mut job = job(["chip", workload, machine, technique], &options);
        let set = [
            ("faults.wake_lost", "0.01"),
            ("faults.wake_late", "0.2"),
            ("faults.late_ns", "50"),
            ("faults.token_lost", "0.05"),
            ("faults.token_late", "0.02"),
            ("faults.token_late_ns", "50"),
            ("faults.os_silent_every_us", "20"),
            ("faults.os_silent_us", "20"),
            ("faults.os_timeout_us", "5"),
        ];
        job.set = set.map(|(path, value)| (path.to_owned(), value.to_owned())).to_vec();
        job
    };
    for technique in ["tap", "tap:wake=last", "tap:estimate=counted", "mapg-counter", "tap-or-mapg"]
    {
        proves(&faulty("ev6-1", "nginx", technique), &["gating"]);
    }
    proves(&faulty("ev6-2", "apache*2", "os-offload"), &["gating", "offload"]);
}

#[test]
fn a_job_that_runs_several_times_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = logged(
        &job(["chip", "gcc", "ev6-1", "dvfs-oracle"], &[("instructions", "20000")]),
        &folder,
    );
    let text = fs::read_to_string(&path).unwrap();
    let headers = text.lines().filter(|line| line.starts_with("{\"schema\"")).count();
    assert!(headers > 2, "{headers}");
    let report = replayed(&path);
    assert_eq!((report.first_difference, report.policies), (None, headers as u64));
}

#[test]
fn a_policy_that_knows_more_than_its_job_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let options = [("instructions", "50000")];
    let path = logged(&job(["chip", "apache", "ultrasparc-os", "os-static"], &options), &folder);
    let error = replay(&library(), &path, None).unwrap_err().to_string();
    assert!(error.contains("run.log") && error.contains("a first run measured"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn a_run_that_is_stopped_leaves_a_log_that_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    let job = job(["toy", "exponential@30", "machine", "idle-gate"], &[("requests", "100000")]);
    let control = Control { log: Some(path.clone()), ..Control::default() };
    control.run.stop();
    assert!(job.prepare(&library()).unwrap().run(&control).is_err());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"schema\"") && !text.contains("end_ps"), "{text}");
}

#[test]
fn a_header_of_a_live_program_makes_the_policy_of_its_simulated_world() {
    let folder = tempfile::tempdir().unwrap();
    for (simulated, live, names) in [
        ("router", "live router", ["router", "ipv4@5", "westmere", "power-save"]),
        ("server", "live steer", ["server", "count@30", "niccolini", "hybrid"]),
    ] {
        let short = [if simulated == "router" {
            ("evaluation.point_ms", "1.0")
        } else {
            ("requests", "500")
        }];
        let path = logged(&job(names, &short), &folder);
        let text = fs::read_to_string(&path).unwrap();
        let (from, to) = (format!("\"world\":\"{simulated}\""), format!("\"world\":\"{live}\""));
        fs::write(&path, text.replacen(&from, &to, 1)).unwrap();
        let report = replayed(&path);
        assert_eq!((report.header.world.as_str(), report.first_difference), (live, None));
    }
}

#[test]
fn two_techniques_on_the_same_requests_differ_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["hybrid:threshold=3", "hybrid:threshold=4"].map(|technique| {
        let path = folder.path().join(technique);
        run(
            &job(["server", "count@60", "niccolini", technique], &[("requests", "2000")]),
            Some(path.clone()),
        );
        path
    });
    let found = beside(&a, &b).unwrap();
    assert_eq!(found.headers_differ, ["technique"]);
    assert!(found.alike > 0 && found.first.is_some());
    assert_eq!(beside(&a, &a).unwrap().first, None);
    let other = replay(&library(), &a, Some("hybrid:threshold=4")).unwrap();
    assert!(other.first_difference.is_some());
}

#[test]
fn what_a_header_names_wrongly_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(["server", "count@30", "niccolini", "hybrid"], &[("requests", "100")]);
    let text = fs::read_to_string(logged(&job, &folder)).unwrap();
    for (from, to, expected) in [
        ("\"server\"", "\"fabrik\"", "unknown world `fabrik`"),
        ("\"niccolini\"", "\"nicolini\"", "did you mean `niccolini`"),
        ("\"technique\":\"hybrid\"", "\"technique\":\"hybird\"", "did you mean `hybrid`"),
        ("\"steering\"", "\"scaling\"", "no policy 0 of the family `scaling`"),
    ] {
        let path = folder.path().join("forged.log");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = replay(&library(), &path, None).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("forged.log:1: "), "{error}");
    }
    let missing =
        replay(&library(), &folder.path().join("none.log"), None).unwrap_err().to_string();
    assert!(missing.contains("none.log"), "{missing}");
}

#[test]
fn a_log_of_delegated_calls_needs_its_header_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("delegate.log");
    let technique = "os-enough-work:bytes=512";
    let (parameters, _) = halfwink_techniques::delegate::parameters(technique).unwrap();
    let header = Header::new("live delegate", Family::Offload, technique);
    let writer = Writer::create(&path, &header.on("", "live")).unwrap();
    let stream = writer.stream(Place { family: Family::Offload, stream: 3 });
    let mut host = Host::logged(Delegation::new(&parameters), stream);
    for bytes in [511, 512] {
        let entry = KernelEntry {
            cause: Cause::SystemCall { number: 0 },
            args: [3, 0, bytes, 0, 0, 0],
            bytes_in_memory: None,
            registers: Registers::x86_64(0, 0, 3, 0),
        };
        host.decide(Time(bytes), &Event::Enter(entry));
    }
    writer.end(Time(512), 0).unwrap();
    let report = replayed(&path);
    assert_eq!((report.lines, report.actions, report.first_difference), (2, 2, None));
    let other = replay(&library(), &path, Some("os-always")).unwrap().first_difference;
    assert_eq!(other.map(|found| found.line), Some(2));
    let error = replay(&library(), &path, Some("xyz")).unwrap_err().to_string();
    assert!(error.ends_with("os-enough-work, os-dynamic, os-adaptive"), "{error}");
}

#[test]
fn chips_with_ruled_second_levels_are_replayed() {
    for technique in ["ucp:shortened=5000", "bank-partition:shortened=5000"] {
        let names = ["chip", "nginx", "ultrasparc", technique];
        let mut job = job(names, &[("instructions", "200000")]);
        job.set = vec![("l2.size".into(), "64KB".into())];
        proves(&job, &["segregation", "gating"]);
    }
}
