//! Settings that contradict themselves are refused with what was found and expected.

use crate::bed;

use bed::*;
use halfwink_dataplane::{AppSettings, NetFlowSettings, RedundancySettings, Settings, Shared};

fn refused(change: impl FnOnce(&mut Settings)) -> String {
    let mut bad = settings();
    change(&mut bad);
    Shared::new(bad).expect_err("refused").to_string()
}

#[test]
fn each_contradiction_is_named() {
    assert_eq!(refused(|s| s.ports.clear()), "0 ports, expected 1 to 1024");
    let other = "port p1: an MTU of 1000 bytes, expected at least 1280";
    assert_eq!(refused(|s| s.ports[1].mtu = 1000), other);
    let other = "port p1: an MTU of 60 bytes, expected at least 68";
    assert_eq!(
        refused(|s| {
            s.ports[1].mtu = 60;
            s.ports[1].addresses.truncate(1);
            s.routes.truncate(1);
        }),
        other
    );
    let same = refused(|s| s.ports[1].addresses[0] = "10.0.0.1/8".parse().expect("one"));
    assert_eq!(same, "10.0.0.1: two ports have it");
    for bad in ["224.0.0.1/4", "127.0.0.1/8", "::/128", "0.0.0.0/0"] {
        let found = refused(|s| s.ports[1].addresses.push(bad.parse().expect("one")));
        assert!(found.ends_with("no port can have it"), "{found}");
    }
    let link_local = refused(|s| s.ports[1].addresses.push("fe80::1/64".parse().expect("one")));
    assert!(link_local.contains("are made from the Ethernet address"));
    let twice = refused(|s| s.routes.push(route("192.0.2.0/24", None, Some(0))));
    assert_eq!(twice, "two routes to 192.0.2.0/24");
    let port = refused(|s| s.routes.push(route("192.0.3.0/24", None, Some(2))));
    assert_eq!(port, "route to 192.0.3.0/24: port 2 does not exist, there are 2");
    assert!(refused(|s| s.neighbours[0].port = 9).starts_with("neighbour: port 9"));
}

#[test]
fn gateways_must_be_on_a_network_of_their_port() {
    let gateway = |via, port| refused(|s| s.routes.push(route("192.0.3.0/24", Some(via), port)));
    assert!(gateway("10.0.2.1", None).ends_with("10.0.2.1 is on no network of any port"));
    assert!(gateway("10.0.1.9", Some(0)).ends_with("10.0.1.9 is on no network of p0"));
    assert!(gateway("2001:db8::9", None).contains("on no network"), "another family");
    let six = |port| {
        let mut settings = settings();
        settings.routes.push(route("2001:db8:9::/48", Some("fe80::9"), port));
        Shared::new(settings)
    };
    assert!(six(None).is_err(), "every port has that network");
    assert!(six(Some(1)).is_ok());
}

#[test]
fn applications_have_limits_too() {
    let flows = NetFlowSettings { flows: 1 << 30, ..NetFlowSettings::default() };
    let found = refused(|s| s.app = AppSettings::NetFlow(flows));
    assert_eq!(found, "1073741824 flows, expected at most 16777216");
    let good = RedundancySettings {
        link: 1,
        peer: "10.0.1.9".parse().expect("one"),
        ..RedundancySettings::default()
    };
    let with = |change: &dyn Fn(&mut RedundancySettings)| {
        let mut bad = good.clone();
        change(&mut bad);
        refused(|s| s.app = AppSettings::Redundancy(bad))
    };
    let link = "redundancy elimination: port 2 does not exist, there are 2";
    assert_eq!(with(&|r| r.link = 2), link);
    assert!(with(&|r| r.link = 0).contains("on no network of its port"));
    let bytes = "encoder_bytes: found 5, expected 1 MiB to 16 GiB";
    assert_eq!(with(&|r| r.encoder_bytes = 5), bytes);
    assert_eq!(with(&|r| r.sample_bits = 0), "sample_bits: found 0, expected 1 to 16");
}
