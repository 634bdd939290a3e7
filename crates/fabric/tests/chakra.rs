//! Execution traces of training jobs, against times by hand.

use halfwink_engine::RunControl;
use halfwink_fabric::flows::chakra::schema::{Attribute, CollectiveType, Node, NodeType, Value};
use halfwink_fabric::flows::chakra::{read, write, ChakraError, File};
use halfwink_fabric::flows::{
    play, RackFaults, RackPower, Racks, Roofline, Routes, Run, Setting, Traffic,
};
use halfwink_fabric::CircuitSwitch;
use halfwink_policy::circuits::{CircuitsPolicy, Still};
use halfwink_units::Time;
use proptest::prelude::*;

/// 8 Gb/s are a byte in a nanosecond.
fn racks() -> Racks {
    Racks {
        count: 4,
        servers: 1,
        server_gbps: 8.0,
        planes: 1,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.0,
        frame_bytes: 0.0,
        packet_hops: 4,
        faults: RackFaults::default(),
        rank: None,
        power: RackPower {
            circuit_port_w: 0.25,
            packet_w_per_gbps: 1.5,
            transceiver_w: 1.0,
            server_w: 0.0,
        },
    }
}

fn whole(name: &str, value: i64) -> Attribute {
    Attribute { name: name.to_owned(), value: Some(Value::Int64(value)) }
}

fn node(id: u64, kind: NodeType, after: &[u64], attr: Vec<Attribute>) -> Node {
    let (r#type, data_deps) = (kind as i32, after.to_vec());
    Node { id, r#type, data_deps, attr, ..Node::default() }
}

fn compute(id: u64, us: u64, after: &[u64]) -> Node {
    Node { duration_micros: us, ..node(id, NodeType::Comp, after, vec![]) }
}

fn together(id: u64, what: CollectiveType, bytes: i64, after: &[u64]) -> Node {
    let attr = vec![whole("comm_type", what as i64), whole("comm_size", bytes)];
    node(id, NodeType::CommColl, after, attr)
}

fn in_group(mut node: Node, name: &str) -> Node {
    let value = Some(Value::Text(name.to_owned()));
    node.attr.push(Attribute { name: "pg_name".to_owned(), value });
    node
}

fn message(id: u64, kind: NodeType, peer: (&str, i64), bytes: i64, after: &[u64]) -> Node {
    node(id, kind, after, vec![whole(peer.0, peer.1), whole("comm_size", bytes)])
}

fn files(ranks: &[Vec<Node>]) -> Vec<File> {
    let file = |(n, nodes): (usize, &Vec<Node>)| File {
        name: format!("trace.{n}.et"),
        bytes: write(nodes),
    };
    ranks.iter().enumerate().map(file).collect()
}

fn traffic(ranks: &[Vec<Node>]) -> Result<Traffic, ChakraError> {
    read(&files(ranks), &racks(), 1)
}

fn wrong(ranks: &[Vec<Node>]) -> String {
    traffic(ranks).unwrap_err().to_string()
}

/// Over a packet switch that no two flows share.
fn run(traffic: &Traffic) -> Run {
    let racks = racks();
    let switch = CircuitSwitch {
        ports: 4,
        usable_ports: 4,
        port_gbps: 8.0,
        reconfiguration_us: 10.0,
        shortest_day_us: 1.0,
        circuits_per_port: 1.0,
        propagation_us: 0.0,
    };
    let setting = Setting {
        racks: &racks,
        switch: &switch,
        routes: Routes::default(),
        at_most: Time::NEVER,
        seed: 1,
    };
    let policy: CircuitsPolicy = Box::new(Still::packets(4));
    play(&setting, policy, traffic, &RunControl::new()).unwrap()
}

fn us(ranks: &[Vec<Node>]) -> f64 {
    run(&traffic(ranks).unwrap()).duration.as_ns() * 1e-3
}

/// Rank 0 computes 100 us and rank 1 300 us; then each sends half of 1 MB, twice: 500 us each.
#[test]
fn an_all_reduce_of_two_begins_with_the_later() {
    let rank =
        |us| vec![compute(7, us, &[]), together(9, CollectiveType::AllReduce, 1_000_000, &[7])];
    let (ranks, expected) = ([rank(100), rank(300)], 300.0 + 2.0 * 500.0);
    assert!((us(&ranks) - expected).abs() < 0.01, "{}", us(&ranks));
    // What computes after it waits for it; what does not depend on it does not.
    let mut longer = ranks.clone();
    longer[0].push(compute(10, 50, &[9]));
    longer[1].push(compute(10, 1340, &[]));
    assert!((us(&longer) - (expected + 50.0)).abs() < 0.01, "{}", us(&longer));
}

/// For each rank: what it sends in all at a byte in a nanosecond, of 1 MB that it gives.
#[test]
fn collectives_take_what_their_closed_forms_say() {
    for (what, ranks, expected) in [
        (CollectiveType::AllReduce, 4, 2.0 * 750.0),
        (CollectiveType::ReduceScatter, 4, 750.0),
        (CollectiveType::ReduceScatterBlock, 4, 750.0),
        (CollectiveType::AllGather, 4, 3000.0),
        (CollectiveType::AllToAll, 4, 750.0),
        // The root sends to both of its children at once, one of them to the last.
        (CollectiveType::Broadcast, 4, 3000.0),
        (CollectiveType::AllGather, 2, 1000.0),
    ] {
        let rank = vec![together(1, what, 1_000_000, &[])];
        let found = us(&vec![rank; ranks]);
        assert!((found - expected).abs() < 0.01, "{what:?} of {ranks}: {found}");
    }
}

#[test]
fn groups_are_those_that_name_them() {
    let sum = |id, group, after: &[u64]| {
        in_group(together(id, CollectiveType::AllReduce, 1_000_000, after), group)
    };
    // Two pairs at the same time, then all.
    let rank = |group| vec![sum(1, group, &[]), sum(2, "all", &[1])];
    let ranks = [rank("even"), rank("odd"), rank("even"), rank("odd")];
    assert!((us(&ranks) - (1000.0 + 1500.0)).abs() < 0.01, "{}", us(&ranks));
}

#[test]
fn a_message_waits_for_its_sender_and_its_receiver_for_it() {
    let send =
        |id, to, after: &[u64]| message(id, NodeType::CommSend, ("comm_dst", to), 200_000, after);
    let receive = |id, from, after: &[u64]| {
        message(id, NodeType::CommRecv, ("comm_src", from), 200_000, after)
    };
    // A pipeline of three stages: 10 us and 200 us each, and 10 us at its end.
    let ranks = [
        vec![compute(1, 10, &[]), send(2, 1, &[1])],
        // Dependencies may stand before what they are of.
        vec![send(3, 2, &[2]), compute(2, 10, &[1]), receive(1, 0, &[])],
        vec![receive(1, 1, &[]), compute(2, 10, &[1])],
    ];
    assert!((us(&ranks) - 430.0).abs() < 0.01, "{}", us(&ranks));
}

#[test]
fn a_barrier_joins_and_uneven_parts_are_each_ones_own() {
    let barrier = |after: &[u64]| {
        node(2, NodeType::CommColl, after, vec![whole("comm_type", CollectiveType::Barrier as i64)])
    };
    let rank = |us| vec![compute(1, us, &[]), barrier(&[1]), compute(3, 10, &[2])];
    assert!((us(&[rank(5), rank(90)]) - 100.0).abs() < 0.01);
    let rank = |bytes| vec![together(1, CollectiveType::AllToAll, bytes, &[])];
    let traffic = traffic(&[rank(100), rank(3000)]).unwrap();
    assert_eq!(traffic.flows().iter().map(|flow| flow.bytes).collect::<Vec<_>>(), [50.0, 1500.0]);
}

#[test]
fn ranks_of_a_server_send_each_other_nothing() {
    let rank = vec![compute(1, 30, &[]), together(2, CollectiveType::AllReduce, 1_000_000, &[1])];
    let traffic = read(&files(&[rank.clone(), rank.clone()]), &racks(), 2).unwrap();
    assert_eq!(traffic.bytes(), 0.0);
    assert_eq!(run(&traffic).duration, Time::ns(30_000));
    let error = read(&files(&vec![rank; 5]), &racks(), 1).unwrap_err().to_string();
    assert_eq!(error, "trace.0.et: 5 ranks on 5 servers, expected at most 4");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let sum = |bytes| together(5, CollectiveType::AllReduce, bytes, &[]);
    let two = |a: Node, b: Node| wrong(&[vec![a], vec![b]]);
    let cycle = vec![compute(1, 1, &[2]), compute(2, 1, &[1])];
    assert!(wrong(&[cycle]).starts_with("trace.0.et: node 1: waits for itself"));
    // One that goes by way of another rank: each sends when it has received.
    let rank = |other| {
        vec![
            message(1, NodeType::CommSend, ("comm_dst", other), 8, &[2]),
            message(2, NodeType::CommRecv, ("comm_src", other), 8, &[]),
        ]
    };
    assert!(wrong(&[rank(1), rank(0)]).contains("waits for itself"));
    assert!(wrong(&[vec![compute(1, 1, &[9])]]).contains("node 1: waits for node 9"));
    assert!(wrong(&[vec![compute(1, 1, &[]), compute(1, 1, &[])]]).contains("two nodes 1"));
    assert!(two(sum(-1), sum(-1)).contains("node 5: comm_size -1, expected 0 to"));
    assert!(two(sum(i64::MAX), sum(0)).contains("comm_size 9223372036854775807, expected"));
    assert_eq!(
        two(sum(20), sum(40)),
        "trace.1.et: node 5: AllReduce of 40 bytes, expected AllReduce of 20 as node 5 of \
         trace.0.et"
    );
    // What has no group is of all ranks.
    let expected = "trace.1.et: 0 collectives, expected 1 as in trace.0.et";
    assert_eq!(two(sum(20), compute(1, 1, &[])), expected);
    let named = |count| (0..count).map(|id| in_group(Node { id, ..sum(8) }, "g")).collect();
    let expected = "trace.1.et: 1 collectives of group `g`, expected 2 as in trace.0.et";
    assert_eq!(wrong(&[named(2), named(1)]), expected);
    let odd = |count| (0..count).map(|id| in_group(Node { id, ..sum(8) }, "a\nb")).collect();
    let expected = "trace.1.et: 1 collectives of group `a\\nb`, expected 2 as in trace.0.et";
    assert_eq!(wrong(&[odd(2), odd(1)]), expected);
    assert!(wrong(&[vec![compute(1, u64::MAX, &[])]]).contains("duration_micros"));
    assert!(wrong(&[vec![node(1, NodeType::Invalid, &[], vec![])]]).contains("type 0"));
    let reduce = together(1, CollectiveType::Reduce, 8, &[]);
    assert!(wrong(&[vec![reduce]]).contains("comm_type 1, expected 0, 2, 5"));
    let send = |to| message(1, NodeType::CommSend, ("comm_dst", to), 8, &[]);
    assert!(two(send(1), compute(1, 1, &[])).contains("nobody receives it"));
    assert!(two(send(0), compute(1, 1, &[])).contains("comm_dst 0, expected another rank"));
    assert!(wrong(&[vec![]]).contains("found nothing that takes time"));
}

#[test]
fn bytes_that_end_early_are_refused() {
    let ranks = [vec![compute(1, 10, &[]), compute(2, 10, &[1])]];
    let whole = files(&ranks).remove(0).bytes;
    assert!(read(&files(&ranks), &racks(), 1).is_ok());
    let cut = |bytes: &[u8]| {
        let file = File { name: "t.0.et".to_owned(), bytes: bytes.to_vec() };
        read(&[file], &racks(), 1).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(cut(&[]), "t.0.et: found nothing, expected an execution trace");
    assert!(cut(&whole[..whole.len() - 1]).contains("a message of"), "{}", cut(&whole));
    // 2^56 bytes, and a length without end.
    assert!(cut(&[255, 255, 255, 255, 255, 255, 255, 127]).contains("byte 0: a message of"));
    assert!(cut(&[255; 11]).starts_with("t.0.et: byte 0: "));
}

/// What `workloads/flows/data-parallel-8` holds of each of eight ranks: four layers forth (3 ms
/// each) and back (6 ms each), gradients of 800 MB of each layer as soon as they are there, and a
/// step of 2 ms when all are.
fn data_parallel() -> Vec<Node> {
    let named = |node: Node, name: String| Node { name, ..node };
    let mut nodes = vec![];
    for layer in 0..4u64 {
        let after: Vec<u64> = (0..layer).rev().take(1).collect();
        nodes.push(named(compute(layer, 3000, &after), format!("forward {layer}")));
    }
    for (n, layer) in (0..4u64).rev().enumerate() {
        let back = 4 + n as u64;
        nodes.push(named(compute(back, 6000, &[back - 1]), format!("backward {layer}")));
        let sum = together(8 + n as u64, CollectiveType::AllReduce, 800_000_000, &[back]);
        nodes.push(named(in_group(sum, "data"), format!("gradients {layer}")));
    }
    nodes.push(named(compute(12, 2000, &[8, 9, 10, 11]), "step".to_owned()));
    nodes
}

/// With `HALFWINK_WRITE_SAMPLE` set it is written instead.
#[test]
fn the_shipped_trace_is_what_is_written_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/flows/data-parallel-8");
    let bytes = write(&data_parallel());
    for rank in 0..8 {
        let path = format!("{folder}/data-parallel.{rank}.et");
        if std::env::var_os("HALFWINK_WRITE_SAMPLE").is_some() {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{path}");
    }
}

/// A product of 4096 x 4096 matrices, as generators write it: operations and bytes, no time.
#[test]
fn operations_take_what_the_roofline_says() {
    let node = |operations, bytes| {
        let attr = vec![whole("num_ops", operations), whole("tensor_size", bytes)];
        node(0, NodeType::Comp, &[], attr)
    };
    let slow = Racks { rank: Some(Roofline { tflops: 10.0, memory_gb_per_s: 100.0 }), ..racks() };
    let us = |operations, bytes| {
        let file = File { name: "a.0.et".to_owned(), bytes: write(&[node(operations, bytes)]) };
        let traffic = read(&[file], &slow, 1).unwrap();
        traffic.flows()[0].after.as_ns() * 1e-3
    };
    // 2 * 4096^3 operations at 10^13 a second; and 10^9 bytes at 10^11.
    assert!((us(137_438_953_472, 0) - 13_743.895).abs() < 0.01);
    assert!((us(1, 1_000_000_000) - 10_000.0).abs() < 0.01);
    let file = File { name: "a.0.et".to_owned(), bytes: write(&[node(5, 0)]) };
    let said = read(&[file], &racks(), 1).unwrap_err().to_string();
    assert!(said.contains("num_ops 5 and no duration_micros"), "{said}");
    assert!(said.ends_with("-m training-64"), "{said}");
}

proptest! {
    /// What is written is read: as many flows that only take time as nodes that do, in an order in
    /// which none waits for a later one.
    #[test]
    fn graphs_without_cycles_are_read(
        nodes in prop::collection::vec(
            (1u64..1000, prop::collection::vec(0usize..30, 0..3)),
            1..30,
        ),
    ) {
        let rank: Vec<Node> = nodes
            .iter()
            .enumerate()
            .map(|(n, (us, after))| {
                let after: Vec<u64> =
                    after.iter().filter(|&&a| a < n).map(|&a| 1000 - a as u64).collect();
                compute(1000 - n as u64, *us, &after)
            })
            .collect();
        let mut longest = vec![0; rank.len()];
        for n in 0..rank.len() {
            let before = rank[n].data_deps.iter().map(|id| longest[1000 - *id as usize]);
            longest[n] = before.max().unwrap_or(0) + rank[n].duration_micros;
        }
        let backwards: Vec<Node> = rank.into_iter().rev().collect();
        let traffic = traffic(&[backwards]).unwrap();
        prop_assert_eq!(traffic.flows().len(), nodes.len());
        let expected = longest.into_iter().max().unwrap_or(0);
        prop_assert_eq!(run(&traffic).duration, Time::ns(1000 * expected));
    }
}
