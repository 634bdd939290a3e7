//! Arbitrary bytes as execution traces, and graphs of arbitrary nodes: what is read has an order in
//! which none waits for a later one, can be played, and what is wrong is told in one line.

use arbitrary::{Arbitrary, Unstructured};
use halfwink_engine::RunControl;
use halfwink_fabric::flows::chakra::schema::{Attribute, Node, Value};
use halfwink_fabric::flows::chakra::{read, write, File};
use halfwink_fabric::flows::{play, Routes, Setting};
use halfwink_fabric::CircuitSwitch;
use halfwink_policy::circuits::{CircuitsPolicy, Still};
use halfwink_units::Time;

use crate::racks::racks;

const SERVERS: u32 = 4;
/// Largest trace that is played, in flows: others take long.
const PLAYED: usize = 200;

/// A node with few numbers, so that nodes meet.
#[derive(Arbitrary, Debug)]
struct Any {
    id: u8,
    kind: u8,
    after: Vec<u8>,
    us: u64,
    collective: u8,
    bytes: i64,
    peer: u8,
    group: Option<String>,
    tag: Option<bool>,
}

impl Any {
    fn node(&self) -> Node {
        let whole = |name: &str, value| Attribute {
            name: name.to_owned(),
            value: Some(Value::Int64(value)),
        };
        let peer = ["comm_dst", "comm_src"][usize::from(self.kind % 9 == 6)];
        let mut attr = vec![
            whole("comm_type", i64::from(self.collective % 11)),
            whole("comm_size", self.bytes >> (self.peer & 56)),
            whole(peer, i64::from(self.peer % 5)),
        ];
        let text = |name: &String| Attribute {
            name: "pg_name".to_owned(),
            value: Some(Value::Text(name.clone())),
        };
        attr.extend(self.group.as_ref().map(text));
        attr.extend(self.tag.map(|tag| whole("comm_tag", i64::from(tag))));
        let (of_data, of_order): (Vec<u8>, Vec<u8>) =
            self.after.iter().map(|id| id % 16).partition(|id| id % 2 == 0);
        Node {
            id: u64::from(self.id % 16),
            r#type: i32::from(self.kind % 9),
            data_deps: of_data.into_iter().map(u64::from).collect(),
            ctrl_deps: of_order.into_iter().map(u64::from).collect(),
            duration_micros: self.us >> (self.peer & 56),
            attr,
            ..Node::default()
        }
    }
}

/// Reads a trace of these files, and plays it over a packet switch.
fn check(files: Vec<Vec<u8>>, ranks_per_server: u32) {
    let named = |(n, bytes)| File { name: format!("trace.{n}.et"), bytes };
    let racks = racks(SERVERS as u16, 1);
    let files: Vec<_> = files.into_iter().enumerate().map(named).collect();
    let traffic = match read(&files, &racks, ranks_per_server) {
        Ok(traffic) => traffic,
        Err(error) => {
            let told = error.to_string();
            assert!(!told.chars().any(char::is_control), "{told:?}");
            return;
        }
    };
    assert!(!traffic.flows().is_empty());
    for flow in traffic.flows() {
        assert!(flow.from < SERVERS && flow.to < SERVERS);
        assert!((0.0..=4e15).contains(&flow.bytes), "{flow:?}");
    }
    if traffic.flows().len() > PLAYED {
        return;
    }
    let switch = CircuitSwitch {
        ports: SERVERS,
        usable_ports: SERVERS,
        port_gbps: 8.0,
        reconfiguration_us: 10.0,
        shortest_day_us: 1.0,
        circuits_per_port: 1.0,
        propagation_us: 0.0,
    };
    let (routes, at_most) = (Routes::default(), Time::ns(10_000_000_000_000));
    let setting = Setting { racks: &racks, switch: &switch, routes, at_most, seed: 1 };
    let policy: CircuitsPolicy = Box::new(Still::packets(SERVERS as u16));
    let run = play(&setting, policy, &traffic, &RunControl::new()).expect("it can be played");
    assert!(run.duration <= at_most);
    let ended = run.times.iter().all(Option::is_some);
    assert!(ended || run.duration == at_most, "none waits for ever: {run:?}");
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let ranks_per_server = 1 + u32::from(bytes.last().copied().unwrap_or(0) % 3);
    // One file, the same for all ranks, and a half for each of two.
    check(vec![bytes.to_vec()], 1);
    check(vec![bytes.to_vec(); SERVERS as usize], ranks_per_server);
    let (a, b) = bytes.split_at(bytes.len() / 2);
    check(vec![a.to_vec(), b.to_vec()], ranks_per_server);
    if let Ok(ranks) = Vec::<Vec<Any>>::arbitrary_take_rest(Unstructured::new(bytes)) {
        let file = |nodes: &Vec<Any>| write(&nodes.iter().map(Any::node).collect::<Vec<_>>());
        check(ranks.iter().map(file).collect(), ranks_per_server);
    }
}
