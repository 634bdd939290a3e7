//! Descriptions that are right, and what is said of those that are not.

use std::path::Path;

use halfwink_engine::{Input, InputError};
use halfwink_policy::steering::Side;

use super::address::Address;
use super::config::{Config, Mode};
use super::power::Power;

const SHORT: &str = "schema = 1\nlisten = \"127.0.0.1:0\"\n[small]\naddress = \"127.0.0.1:1\"\n\
                     [big]\naddress = \"unix:/run/b\"\n";

fn parse(text: &str) -> Result<Config, InputError> {
    Config::parse(&Input::new("s.toml", text), Path::new("/etc/halfwink"))
}

/// Checks what is said of a wrong description: one line.
fn refuses(text: &str, expected: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn the_shortest_description() {
    let config = parse(SHORT).unwrap();
    assert_eq!((config.policy.as_str(), config.threads, config.mode), ("hybrid", 1, Mode::Http));
    assert_eq!((&config.machine, &config.workload), (&None, &None));
    let [small, big] = Side::BOTH.map(|side| config.machine(side));
    assert_eq!((small.workers, &big.power), (4, &Power::default()));
    assert_eq!(big.address, Address::Unix("/run/b".into()));
    assert_eq!(big.address.to_string(), "unix:/run/b");
    let tls = format!("{SHORT}[tls]\ncert = \"c.pem\"\nkey = \"/k.pem\"\n");
    let tls = parse(&tls).unwrap().tls.unwrap();
    assert_eq!(tls.cert, Path::new("/etc/halfwink/c.pem"));
    assert_eq!(tls.key, Path::new("/k.pem"));
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (from, to, expected) in [
        ("schema = 1", "schema = 2", "s.toml:1: schema: found 2, expected 1"),
        ("schema = 1", "schema = 1\nthreads = 0", "s.toml:2: threads: found 0, expected 1 to"),
        ("schema = 1", "schema = 1\nmode = \"udp\"", "s.toml:2: "),
        ("schema = 1", "schema = 1\npolcy = \"x\"", "s.toml:2: unknown field `polcy`"),
        ("127.0.0.1:1", "localhost:1", "s.toml:4: found address localhost:1"),
        ("unix:/run/b", "127.0.0.1:1", "s.toml:6: big.address: found 127.0.0.1:1 twice"),
        ("[big]", "[health]\npath = \"x y\"\n[big]", "s.toml:6: health.path: found \"x y\""),
        ("[big]", "[limits]\nretries = 99\n[big]", "s.toml:6: limits.retries: found 99"),
        ("[big]", "power = { kind = \"nap\" }\n[big]", "s.toml:5: unknown variant `nap`"),
        ("[big]", "power = { kind = \"signal\" }\n[big]", "s.toml:5: small.power: expected"),
        ("[big]", "power = { kind = \"none\", x = 1 }\n[big]", "s.toml:5: "),
        ("schema = 1", "schema = 1\nworkload = \"x\"", "s.toml:2: workload: found without `mach"),
        ("[big]", "[set]\nx = 1\n[big]", "s.toml:5: set: found without `machine`"),
        ("[big]", "sleeps_per_day = 0\n[big]", "s.toml:5: small.sleeps_per_day: found 0"),
        ("[big]", "x = 1\n[big]", "s.toml:5: unknown field `x`"),
        ("[big]", "[health]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
        ("[big]", "[limits]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
        ("[big]", "[headers]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
        ("[big]", "[tls]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
        ("[big]", "[access_log]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
        ("[big]", "[access_log]\nfile = \"a\"\nformat = \"b\"\n[big]", "s.toml:7: unknown var"),
        (
            "schema = 1",
            "schema = 1\nmode = \"tcp\"\ntls = { cert = \"a\", key = \"b\" }",
            "s.toml:3: tls: found with mode tcp",
        ),
        ("[big]", "announce = { x = 1 }\n[big]", "s.toml:5: unknown field `x`"),
    ] {
        refuses(&SHORT.replacen(from, to, 1), expected);
    }
}

const SET: &str = "schema = 1\nlisten = \"127.0.0.1:0\"\nmachine = \"six\"\n\
                   [[machines]]\nname = \"web-1\"\naddress = \"127.0.0.1:1\"\n\
                   [[machines]]\nname = \"web-2\"\naddress = \"127.0.0.1:2\"\nworkers = 9\n";

#[test]
fn machines_of_a_set_stand_in_their_order_under_their_names() {
    let config = parse(SET).unwrap();
    assert!(!config.is_pair());
    let sides: Vec<Side> = config.sides().collect();
    assert_eq!(sides, [Side::Place(0), Side::Place(1)]);
    assert_eq!(sides.iter().map(|&s| config.name(s)).collect::<Vec<_>>(), ["web-1", "web-2"]);
    assert_eq!(config.machine(Side::Place(1)).workers, 9);
    let pair = parse(SHORT).unwrap();
    assert!(pair.is_pair());
    assert_eq!(pair.sides().map(|s| pair.name(s)).collect::<Vec<_>>(), ["small", "big"]);
}

#[test]
fn machines_of_a_group_are_numbered_by_the_first_of_them() {
    let grouped = SET.replace("workers = 9", "group = \"rack\"");
    let third = "[[machines]]\nname = \"web-3\"\naddress = \"127.0.0.1:3\"\ngroup = \"rack\"\n";
    let config = parse(&format!("{grouped}{third}")).unwrap();
    let groups: Vec<_> = config.sides().map(|side| config.group(side)).collect();
    assert_eq!(groups, [None, Some(1), Some(1)]);
    let deeper = "levels = [{ kind = \"command\", sleep = [\"a\"], wake = [\"b\"] }]\n";
    refuses(
        &format!("{grouped}{third}{deeper}"),
        "s.toml:14: machines.2.group: found with `levels`",
    );
}

#[test]
fn mistakes_of_a_set_are_named_with_their_line() {
    let pair = "[small]\naddress = \"127.0.0.1:8\"\n[big]\naddress = \"127.0.0.1:9\"\n[[machines]]";
    let many = "\n[[machines]]\nname = \"n\"\naddress = \"127.0.0.1:7\"".repeat(64);
    for (from, to, expected) in [
        ("name = \"web-2\"\n", "", "s.toml:7: machines.1: expected a `name`"),
        ("web-2", "web-1", "s.toml:8: machines.1.name: found web-1 twice, expected two names"),
        ("web-2", "a b", "s.toml:8: machines.1.name: found \"a b\", expected 1 to 32 letters"),
        ("web-2", "", "s.toml:8: machines.1.name: found \"\", expected 1 to 32"),
        (":2\"", ":1\"", "s.toml:9: machines.1.address: found 127.0.0.1:1 twice"),
        (
            "workers = 9",
            "workers = 0",
            "s.toml:10: machines.1.workers: found 0, expected 1 to 4096",
        ),
        ("workers = 9", "group = \"a\"", "s.toml:10: machines.1.group: found a once, expected two"),
        (
            "workers = 9",
            "group = \"a b\"",
            "s.toml:10: machines.1.group: found \"a b\", expected 1",
        ),
        ("[[machines]]", pair, "s.toml:8: machines: found with [small] and [big], expected one"),
        ("workers = 9", &many, "s.toml:4: machines: found 66, expected 0 to 64"),
    ] {
        refuses(&SET.replacen(from, to, 1), expected);
    }
    for (text, expected) in [
        ("", "s.toml: machines: found none, expected [small] and [big], or [[machines]]"),
        ("[big]\naddress = \"127.0.0.1:9\"\n", "s.toml:3: big: found without [small]"),
        ("[small]\naddress = \"127.0.0.1:9\"\n", "s.toml:3: small: found without [big]"),
        (
            "[small]\nname = \"a\"\naddress = \"127.0.0.1:8\"\n[big]\naddress = \"127.0.0.1:9\"\n",
            "s.toml:4: small.name: expected none",
        ),
    ] {
        refuses(&format!("schema = 1\nlisten = \"127.0.0.1:0\"\n{text}"), expected);
    }
}
