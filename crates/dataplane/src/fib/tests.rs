use super::*;
use proptest::prelude::*;

fn link(port: u16) -> Hop {
    Hop::Link { port }
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

#[test]
fn the_longest_prefix_wins_at_every_length_by_hand() {
    let table = [
        ("0.0.0.0/0", 1),
        ("10.0.0.0/8", 2),
        ("10.1.0.0/16", 3),
        ("10.1.2.0/24", 4),
        ("10.1.2.128/25", 5),
        ("10.1.2.255/32", 6),
        ("128.0.0.0/1", 7),
    ];
    // Longest first, so that the order in which they come does not help.
    let fib = Fib::build(table.iter().rev().map(|&(p, port)| (net(p), link(port)))).expect("fits");
    let cases = [
        ("9.255.255.255", 1),
        ("10.0.0.0", 2),
        ("10.1.1.255", 3),
        ("10.1.2.127", 4),
        ("10.1.2.128", 5),
        ("10.1.2.254", 5),
        ("10.1.2.255", 6),
        ("10.1.3.0", 3),
        ("127.255.255.255", 1),
        ("128.0.0.0", 7),
        ("255.255.255.255", 7),
    ];
    for (address, port) in cases {
        assert_eq!(fib.lookup(address.parse().expect("one")), link(port), "{address}");
    }
    assert_eq!(fib.lookup("::1".parse().expect("one")), Hop::None);
}

#[test]
fn longest_ipv6_prefix_wins() {
    let table =
        [("::/0", 1), ("2001:db8::/32", 2), ("2001:db8:1::/48", 3), ("2001:db8:1::1/128", 4)];
    let fib = Fib::build(table.map(|(p, port)| (net(p), link(port)))).expect("fits");
    for (address, port) in
        [("2002::", 1), ("2001:db8:2::", 2), ("2001:db8:1::2", 3), ("2001:db8:1::1", 4)]
    {
        assert_eq!(fib.lookup(address.parse().expect("one")), link(port), "{address}");
    }
}

/// Another's longest-prefix match over the same table.
fn oracle(prefixes: &[(Ipv4Net, Hop)]) -> PrefixMap<Ipv4Net, Hop> {
    let mut map = PrefixMap::new();
    for &(prefix, hop) in prefixes {
        map.insert(prefix.trunc(), hop);
    }
    map
}

fn agree(fib: &Fib, oracle: &PrefixMap<Ipv4Net, Hop>, address: u32) {
    let host = Ipv4Net::new(address.into(), 32).expect("a length");
    let expected = oracle.get_lpm(&host).map_or(Hop::None, |(_, &hop)| hop);
    assert_eq!(fib.v4(address), expected, "{host}");
}

#[test]
fn a_table_of_256k_prefixes_agrees_with_a_trie() {
    let prefixes = synthetic_prefixes(256 << 10, 1);
    assert_eq!(prefixes.len(), 256 << 10);
    let slash_24 = prefixes.iter().filter(|p| p.prefix_len() == 24).count() as f64;
    assert!((0.5..0.7).contains(&(slash_24 / prefixes.len() as f64)));
    let routes: Vec<(Ipv4Net, Hop)> =
        prefixes.iter().enumerate().map(|(i, &p)| (p, link((i % 997) as u16))).collect();
    let fib = Fib::build(routes.iter().map(|&(p, hop)| (IpNet::V4(p), hop))).expect("fits");
    let oracle = oracle(&routes);
    let mut random = SplitMix(2);
    for _ in 0..200_000 {
        agree(&fib, &oracle, random.next() as u32);
    }
    for prefix in prefixes.iter().step_by(7) {
        let (low, high) = (u32::from(prefix.network()), u32::from(prefix.broadcast()));
        for address in [low, high, low.wrapping_sub(1), high.wrapping_add(1)] {
            agree(&fib, &oracle, address);
        }
    }
}

#[test]
fn more_than_the_table_can_name_is_an_error() {
    let hops = (0..dir24::MOST as u32).map(|n| {
        let gateway = IpAddr::V4((0x0a00_0000 + n).into());
        (IpNet::from(gateway), Hop::Gateway { port: 0, gateway })
    });
    assert!(Fib::build(hops.clone().take(dir24::MOST - 1)).is_ok());
    assert!(Fib::build(hops).is_err_and(|e| e.to_string().contains("next hops")));
    let groups = |n: u32| {
        (0..n).map(|n| (IpNet::from(IpAddr::V4((0x0a00_0000 + (n << 8)).into())), link(1)))
    };
    assert!(Fib::build(groups(dir24::MOST as u32)).is_ok());
    assert!(Fib::build(groups(dir24::MOST as u32 + 1)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Few address bits, so that prefixes nest, touch and repeat.
    #[test]
    fn random_tables_agree_with_a_trie(
        routes in prop::collection::vec((0u32..64, 0u32..16, 6u8..=32, 0u16..40), 0..60),
        picks in prop::collection::vec((0u32..64, 0u32..16), 50),
    ) {
        let spread = |high: u32, low: u32| high << 20 | high << 8 | low << 4 | low;
        let routes: Vec<(Ipv4Net, Hop)> = routes
            .into_iter()
            .map(|(high, low, len, port)| {
                let prefix = Ipv4Net::new(spread(high, low).into(), len).expect("a length");
                (prefix, link(port))
            })
            .collect();
        let fib = Fib::build(routes.iter().map(|&(p, hop)| (IpNet::V4(p), hop))).expect("fits");
        let oracle = oracle(&routes);
        for (high, low) in picks {
            agree(&fib, &oracle, spread(high, low));
        }
    }
}
