//! Drivers beside programs and servers that answer from a script.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drive::{Found, Seen};
use super::{Power, Wanted};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

fn described(text: &str) -> Power {
    let power: Power = toml::from_str(text).unwrap();
    power.check().unwrap();
    power
}

fn turn(power: &Power, wanted: Wanted, patience_ms: u64) -> Result<(), String> {
    let done = block_on(power.turn(wanted, Duration::from_millis(patience_ms)));
    done.map_err(|why| why.to_string())
}

fn state(power: &Power) -> Result<Found, String> {
    block_on(power.state()).expect("it has a query").map_err(|why| why.to_string())
}

/// A server that expects requests in their order, and answers each as it is told. A request is
/// known by its first line; of what it carries, the body is kept.
struct Script {
    address: SocketAddr,
    left: JoinHandle<Vec<(&'static str, String)>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(steps: Vec<(&'static str, String)>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let left = std::thread::spawn(move || {
            let mut steps = steps.into_iter();
            while let Some((expected, answer)) = steps.next() {
                let (mut peer, _) = listener.accept().unwrap();
                let request = receive(&mut peer);
                let wrong = !request.starts_with(&format!("{expected} HTTP/1.1\r\n"));
                kept.lock().unwrap().push(request);
                if wrong {
                    return std::iter::once((expected, answer)).chain(steps).collect();
                }
                peer.write_all(answer.as_bytes()).unwrap();
            }
            Vec::new()
        });
        Script { address, left, seen }
    }

    /// Checks that all was asked, in its order; returns the requests.
    fn end(self) -> Vec<String> {
        let left = self.left.join().unwrap();
        let seen = self.seen.lock().unwrap().clone();
        assert!(left.is_empty(), "expected {left:?} after {seen:#?}");
        seen
    }
}

fn receive(peer: &mut impl Read) -> String {
    let mut all = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = peer.read(&mut more).unwrap();
        all.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn status(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
}

const SYSTEM: &str = "GET /redfish/v1/Systems/1";
const INFO: &str = "GET /redfish/v1/Systems/1/ResetActionInfo";
const RESET: &str = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

fn system(power: &str) -> String {
    json(&format!(
        r##"{{"Id": "1", "PowerState": "{power}", "Actions": {{"#ComputerSystem.Reset":
        {{"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
        "@Redfish.ActionInfo": "/redfish/v1/Systems/1/ResetActionInfo"}}}}}}"##
    ))
}

fn info() -> String {
    let types = r#"["On", "ForceOff", "GracefulShutdown"]"#;
    json(&format!(r#"{{"Parameters": [{{"Name": "ResetType", "AllowableValues": {types}}}]}}"#))
}

fn redfish(script: &Script, folder: &Path, more: &str) -> Power {
    let file = folder.join("password");
    std::fs::write(&file, "s3cret\nsecond line\n").unwrap();
    described(&format!(
        "kind = \"redfish\"\nbmc = {{ address = \"{}\", plain = true }}\nsystem = \"1\"\n\
         user = \"steer\"\npassword_file = \"{}\"\n{more}",
        script.address,
        file.display()
    ))
}

#[test]
fn a_bmc_is_asked_until_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let script = Script::new(vec![
        (SYSTEM, busy.to_owned()),
        (SYSTEM, system("On")),
        (SYSTEM, system("On")),
        (INFO, info()),
        (RESET, status("204 No Content")),
        // The system shuts down, and the reset is not sent again meanwhile.
        (SYSTEM, system("On")),
        (SYSTEM, system("PoweringOff")),
        (SYSTEM, system("Off")),
    ]);
    let power = redfish(&script, folder.path(), "");
    turn(&power, Wanted::Asleep, 60_000).unwrap();
    let seen = script.end();
    assert!(seen[4].ends_with("\r\n\r\n{\"ResetType\":\"GracefulShutdown\"}"), "{}", seen[4]);
    // `printf steer:s3cret | base64`.
    let credentials = "Authorization: Basic c3RlZXI6czNjcmV0\r\n";
    assert!(seen.iter().all(|request| request.contains(credentials)), "{seen:#?}");
}

#[test]
fn pause_longer_than_the_clock_can_hold_ends_the_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let busy =
        "HTTP/1.1 503 Busy\r\nRetry-After: 18446744073709551615\r\nContent-Length: 0\r\n\r\n";
    let script = Script::new(vec![(SYSTEM, busy.to_owned())]);
    let error = turn(&redfish(&script, folder.path(), ""), Wanted::Asleep, 60_000).unwrap_err();
    assert!(error.contains("status 503, and its time is over"), "{error}");
    script.end();
}

#[test]
fn a_bmc_that_is_there_already_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(vec![(SYSTEM, system("On"))]);
    turn(&redfish(&script, folder.path(), ""), Wanted::Awake, 60_000).unwrap();
    assert_eq!(script.end().len(), 1);
}

#[test]
fn credentials_are_tried_twice_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || status("401 Unauthorized");
    let script = Script::new(vec![(SYSTEM, refused()), (SYSTEM, refused())]);
    let error = turn(&redfish(&script, folder.path(), ""), Wanted::Awake, 60_000).unwrap_err();
    assert!(error.ends_with(": status 401"), "{error}");
    assert_eq!(script.end().len(), 2);
}

#[test]
fn a_reset_that_a_system_does_not_allow_is_named_before_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(vec![(SYSTEM, system("On")), (SYSTEM, system("On")), (INFO, info())]);
    let power = redfish(&script, folder.path(), "sleep = \"Suspend\"");
    let error = block_on(power.verify()).unwrap_err().to_string();
    let expected = "found reset type Suspend, expected one that it allows: On, ForceOff, Graceful";
    assert!(error.contains(expected), "{error}");
    script.end();
}

#[test]
fn a_bmc_that_never_gets_there_has_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(vec![(SYSTEM, system("PoweringOn"))]);
    let power = redfish(&script, folder.path(), "");
    let error = turn(&power, Wanted::Awake, 40).unwrap_err();
    assert_eq!(error, "still PoweringOn, and its time is over");
    script.end();
}

#[test]
fn a_bmc_that_takes_a_request_and_never_answers_has_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (left, seen) = (std::thread::spawn(Vec::new), Arc::default());
    let power = redfish(&Script { address, left, seen }, folder.path(), "");
    let error = turn(&power, Wanted::Awake, 40).unwrap_err();
    assert!(error.starts_with("no answer in ") && error.ends_with("its time is over"), "{error}");
}

#[test]
fn a_program_that_fails_is_run_again_with_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = folder.path().join("podman");
    std::fs::write(&script, format!("#!/bin/sh\necho x >> {}\nexit 125\n", count.display()))
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    struct Broken(String);
    impl super::Tool for Broken {
        fn state(&self) -> Vec<String> {
            vec![self.0.clone()]
        }
        fn read(&self, _output: &str) -> Option<Found> {
            None
        }
        fn turn(&self, _wanted: Wanted, _from: &Found) -> Vec<String> {
            vec![]
        }
    }
    let broken = Broken(script.display().to_string());
    let driver = super::Driver::Tool(&broken);
    let done = block_on(driver.turn(Wanted::Awake, Duration::from_secs(600)));
    assert!(done.unwrap_err().to_string().ends_with("podman: exit status: 125"));
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\nx\nx\n");
}

#[test]
fn answers_that_are_cut_off_or_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "the answer was cut off"),
        ("SSH-2.0-x\r\n\r\n", "no answer as HTTP has it"),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "found length \"x\", expected a number"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "no body as HTTP has it"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", "expected JSON"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "found PowerState \"\", expected On"),
        ("HTTP/1.1 404 No\r\n\r\n{\"error\": {\"message\": \"no such system\"}}", "no such system"),
    ] {
        let script = Script::new(vec![(SYSTEM, answer.to_owned())]);
        let error = state(&redfish(&script, folder.path(), "")).unwrap_err();
        assert!(error.contains(expected), "{error}");
        script.end();
    }
    let piece = r#"{"PowerState": "#;
    let chunked = format!("{:x}\r\n{piece}\r\n5\r\n\"On\"}}\r\n0\r\n\r\n", piece.len());
    let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}");
    let until_the_end = format!("HTTP/1.1 200 OK\r\n\r\n{piece}\"On\"}}");
    for answer in [answer, until_the_end] {
        let script = Script::new(vec![(SYSTEM, answer)]);
        assert_eq!(state(&redfish(&script, folder.path(), "")).unwrap().seen, Seen::Awake);
        script.end();
    }
}

const DEPLOYMENT: &str = "GET /apis/apps/v1/namespaces/shop/deployments/web";
const SCALE: &str = "GET /apis/apps/v1/namespaces/shop/deployments/web/scale";
const PUT: &str = "PUT /apis/apps/v1/namespaces/shop/deployments/web/scale";

fn deployment(replicas: u64, status: &str) -> String {
    json(&format!(r#"{{"spec": {{"replicas": {replicas}}}, "status": {{{status}}}}}"#))
}

fn scale(version: u64, spec: &str) -> String {
    let metadata = format!(r#"{{"name": "web", "resourceVersion": "{version}"}}"#);
    json(&format!(r#"{{"kind": "Scale", "metadata": {metadata}, "spec": {{{spec}}}}}"#))
}

fn kubernetes(script: &Script, folder: &Path) -> Power {
    let file = folder.join("token");
    std::fs::write(&file, "abc.def").unwrap();
    described(&format!(
        "kind = \"kubernetes\"\napi = {{ address = \"{}\", plain = true }}\nnamespace = \"shop\"\n\
         deployment = \"web\"\nreplicas = 3\ntoken_file = \"{}\"",
        script.address,
        file.display()
    ))
}

#[test]
fn a_deployment_is_scaled_to_zero_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let conflict = r#"{"kind": "Status", "message": "the object has been modified", "code": 409}"#;
    let conflict =
        format!("HTTP/1.1 409 Conflict\r\nContent-Length: {}\r\n\r\n{conflict}", conflict.len());
    let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let script = Script::new(vec![
        (DEPLOYMENT, deployment(5, r#""replicas": 5, "readyReplicas": 5"#)),
        (SCALE, scale(7, r#""replicas": 5"#)),
        (PUT, conflict),
        (DEPLOYMENT, busy.to_owned()),
        (DEPLOYMENT, status("401 Unauthorized")),
        (DEPLOYMENT, deployment(5, r#""replicas": 5, "readyReplicas": 5"#)),
        (SCALE, scale(8, r#""replicas": 5"#)),
        (PUT, scale(9, "")),
        (DEPLOYMENT, deployment(0, r#""replicas": 2, "readyReplicas": 1"#)),
        (DEPLOYMENT, deployment(0, "")),
    ]);
    let power = kubernetes(&script, folder.path());
    turn(&power, Wanted::Asleep, 60_000).unwrap();
    let seen = script.end();
    assert!(seen[7].contains(r#""resourceVersion":"8""#), "{}", seen[7]);
    assert!(seen[7].contains(r#""spec":{"replicas":0}"#), "{}", seen[7]);
    assert!(seen.iter().all(|request| request.contains("Authorization: Bearer abc.def\r\n")));

    let script = Script::new(vec![
        // Its last pod is still ending. A scale-up does not wait for that.
        (DEPLOYMENT, deployment(0, r#""replicas": 1"#)),
        (SCALE, scale(9, "")),
        (PUT, scale(10, r#""replicas": 3"#)),
        (DEPLOYMENT, deployment(3, r#""replicas": 3, "readyReplicas": 2"#)),
        (DEPLOYMENT, deployment(3, r#""replicas": 3, "readyReplicas": 3"#)),
    ]);
    let power = kubernetes(&script, folder.path());
    turn(&power, Wanted::Awake, 60_000).unwrap();
    assert!(script.end()[2].contains(r#""spec":{"replicas":3}"#));
}

#[test]
fn a_number_of_replicas_that_another_chose_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(vec![
        (DEPLOYMENT, deployment(8, r#""replicas": 8, "readyReplicas": 6"#)),
        (SCALE, scale(3, r#""replicas": 8"#)),
        (DEPLOYMENT, deployment(8, r#""replicas": 8, "readyReplicas": 8"#)),
    ]);
    turn(&kubernetes(&script, folder.path()), Wanted::Awake, 60_000).unwrap();
    script.end();
}

#[test]
fn words_of_programs_are_states_and_states_choose_the_way_back() {
    let all = [
        ("kind = \"libvirt\"\ndomain = \"d\"", "running", Seen::Awake, "suspend"),
        ("kind = \"libvirt\"\ndomain = \"d\"", "paused", Seen::Asleep, "resume"),
        ("kind = \"libvirt\"\ndomain = \"d\"", "pmsuspended", Seen::Asleep, "dompmwakeup"),
        ("kind = \"libvirt\"\ndomain = \"d\"", "shut off", Seen::Asleep, "start"),
        (
            "kind = \"libvirt\"\ndomain = \"d\"\nway = \"managed-save\"",
            "idle",
            Seen::Awake,
            "managedsave",
        ),
        (
            "kind = \"libvirt\"\ndomain = \"d\"\nway = \"shutdown\"",
            "running",
            Seen::Awake,
            "shutdown",
        ),
        ("kind = \"container\"\nname = \"c\"", "running", Seen::Awake, "pause"),
        ("kind = \"container\"\nname = \"c\"", "paused", Seen::Asleep, "unpause"),
        ("kind = \"container\"\nname = \"c\"\nby = \"docker\"", "exited", Seen::Asleep, "start"),
        ("kind = \"container\"\nname = \"c\"\nway = \"stop\"", "running", Seen::Awake, "stop"),
        (IPMI, "Chassis Power is on", Seen::Awake, "soft"),
        (IPMI, "Chassis Power is off", Seen::Asleep, "on"),
    ];
    for (text, output, seen, verb) in all {
        let power = described(text);
        let Some(super::Driver::Tool(tool)) = power.driver() else { panic!("{text}") };
        let found = tool.read(output).unwrap();
        assert_eq!(found.seen, seen, "{output}");
        assert_eq!(tool.read("something else"), None);
        let wanted = if seen == Seen::Awake { Wanted::Asleep } else { Wanted::Awake };
        let words = tool.turn(wanted, &found);
        assert!(words.iter().any(|word| word == verb), "{words:?}");
    }
    let power = described(&format!("{IPMI}\ncipher = 3\nway = \"off\""));
    let Some(super::Driver::Tool(tool)) = power.driver() else { panic!() };
    let words = tool.turn(Wanted::Asleep, &Found::new(Seen::Awake, "on")).join(" ");
    let options = "-I lanplus -H 192.0.2.7 -p 623 -U admin -f /etc/pw -N 1 -R 2 -C 3";
    assert_eq!(words, format!("ipmitool {options} chassis power off"));
}

const IPMI: &str =
    "kind = \"ipmi\"\nbmc = \"192.0.2.7\"\nuser = \"admin\"\npassword_file = \"/etc/pw\"";

#[test]
fn wrong_descriptions_of_drivers_are_refused() {
    let bmc = "kind = \"redfish\"\nsystem = \"1\"\ntoken_file = \"t\"\nbmc = { address = ";
    let api = "kind = \"kubernetes\"\napi = { address = \"127.0.0.1:1\", plain = true }";
    for (text, expected) in [
        ("kind = \"libvirt\"\ndomain = \"-x\"".to_owned(), "found domain \"-x\""),
        ("kind = \"container\"\nname = \"\"".to_owned(), "found name \"\""),
        (format!("{bmc}\"192.0.2.7:443\" }}"), "expected one of ca_file, fingerprint and plain"),
        (format!("{bmc}\"192.0.2.7:443\", plain = true }}"), "found plain to 192.0.2.7:443"),
        (format!("{bmc}\"192.0.2.7:443\", fingerprint = \"ab\" }}"), "found fingerprint ab, exp"),
        (format!("{bmc}\"127.0.0.1:1\", plain = true, name = \"x\" }}"), "found name without"),
        (format!("{bmc}\"127.0.0.1:1\", plain = true }}\nuser = \"x\""), "expected user and pass"),
        (api.to_owned(), "expected either deployment or stateful_set"),
        (format!("{api}\ndeployment = \"A/b\""), "found name \"A/b\""),
        (format!("{api}\ndeployment = \"a\"\nreplicas = 0"), "found replicas 0, expected 1 to"),
    ] {
        let power: Power = toml::from_str(&text).unwrap();
        let error = power.check().unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
