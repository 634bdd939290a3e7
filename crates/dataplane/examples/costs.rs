//! Prints what each element costs on this machine: `cargo run --release --example costs`.
#![allow(clippy::print_stdout)] // it is what this program does

use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut clock = || start.elapsed().as_nanos() as u64;
    println!("{:<18} {:>6} {:>10} {:>10}", "element", "bytes", "ns/packet", "x copy");
    for cost in halfwink_dataplane::costs::measure(&mut clock, 101)? {
        let (bytes, ns, ratio) = (cost.frame_bytes, cost.ns_per_packet, cost.per_copy);
        println!("{:<18} {bytes:>6} {ns:>10.1} {ratio:>10.2}", cost.element);
    }
    let prefixes = halfwink_dataplane::fib::synthetic_prefixes(256 << 10, 1);
    let before = Instant::now();
    let hop = halfwink_dataplane::fib::Hop::Link { port: 0 };
    let table = halfwink_dataplane::fib::Fib::build(
        prefixes.iter().map(|&prefix| (ipnet::IpNet::V4(prefix), hop)),
    )?;
    println!("table of 262,144 prefixes built in {:.1?}", before.elapsed());
    drop(table);
    Ok(())
}
