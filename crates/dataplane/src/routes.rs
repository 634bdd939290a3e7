//! Routes as text, in the syntax of `ip route`.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use crate::settings::{PortSettings, Route};

/// A line that is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RoutesError {
    /// Line number, from 1.
    pub line: usize,
    /// Message with the value found and the values allowed.
    pub what: String,
}

/// Reads one route a line: `PREFIX via GATEWAY [dev NAME]`, `PREFIX dev NAME` or
/// `blackhole PREFIX`; `default` stands for 0.0.0.0/0, or ::/0 before an IPv6 gateway. `#` begins
/// a comment. What `ip route` prints behind that (`proto`, `scope`, `src`, `metric`, ...) is
/// passed over.
///
/// # Errors
///
/// The first line that is wrong, with what was expected.
pub fn parse(text: &str, ports: &[PortSettings]) -> Result<Vec<Route>, RoutesError> {
    let mut routes = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            let route = parse_line(&words, ports);
            routes.push(route.map_err(|what| RoutesError { line: n + 1, what })?);
        }
    }
    Ok(routes)
}

/// Words that `ip route` prints with one value behind them, which say nothing to a forwarder.
const PASSED: [&str; 7] = ["proto", "scope", "src", "metric", "pref", "mtu", "table"];
/// Flags that `ip route` prints.
const FLAGS: [&str; 3] = ["onlink", "linkdown", "dead"];

fn parse_line(words: &[&str], ports: &[PortSettings]) -> Result<Route, String> {
    if words[0] == "blackhole" || words[0] == "unreachable" {
        let prefix = words.get(1).ok_or("expected a prefix after it")?;
        let (prefix, silent) = (prefix_of(prefix, false)?, words[0] == "blackhole");
        return Ok(Route { prefix, via: None, port: None, silent });
    }
    let (mut via, mut port) = (None, None);
    let mut rest = words[1..].iter();
    while let Some(&word) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("expected a value after `{word}`"));
        match word {
            "via" => {
                let text = value()?;
                let address = text.parse::<IpAddr>();
                via = Some(address.map_err(|_| format!("`{text}` is no address of a gateway"))?);
            }
            "dev" => port = Some(port_of(value()?, ports)?),
            _ if PASSED.contains(&word) => drop(value()?),
            _ if FLAGS.contains(&word) => {}
            _ => return Err(format!("found `{word}`, expected `via GATEWAY` or `dev NAME`")),
        }
    }
    let prefix = prefix_of(words[0], via.is_some_and(|via| via.is_ipv6()))?;
    if via.is_none() && port.is_none() {
        return Err(format!("`{prefix}` leads nowhere: expected `via GATEWAY` or `dev NAME`"));
    }
    Ok(Route { prefix, via, port, silent: false })
}

fn prefix_of(text: &str, default_is_v6: bool) -> Result<IpNet, String> {
    if text == "default" {
        let v4 = IpNet::V4(Ipv4Net::default());
        return Ok(if default_is_v6 { IpNet::V6(ipnet::Ipv6Net::default()) } else { v4 });
    }
    let prefix = match text.parse::<IpNet>() {
        Ok(prefix) => prefix,
        Err(_) => match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => return Err(format!("`{text}` is no prefix such as 192.0.2.0/24")),
        },
    };
    if prefix.trunc() != prefix {
        return Err(format!("`{text}` has bits beyond its length; expected {}", prefix.trunc()));
    }
    Ok(prefix)
}

fn port_of(name: &str, ports: &[PortSettings]) -> Result<u16, String> {
    let place = ports.iter().position(|port| port.name == name);
    place.and_then(|place| u16::try_from(place).ok()).ok_or_else(|| {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        format!("no port is called `{name}`; there are: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Vec<PortSettings> {
        ["east", "west"]
            .map(|name| PortSettings { name: name.into(), ..PortSettings::default() })
            .to_vec()
    }

    #[test]
    fn the_three_forms_and_what_ip_route_adds() {
        let text = "# a table\n\
                    default via 10.0.0.1 dev east\n\
                    192.0.2.0/24 via 10.0.0.2 # inferred\n\
                    \n\
                    10.1.0.0/16 dev west proto kernel scope link src 10.1.0.1 linkdown\n\
                    198.51.100.7 dev west metric 100\n\
                    blackhole 203.0.113.0/24\n\
                    unreachable 203.0.114.0/24\n\
                    default via fe80::1 dev east\n";
        let found = parse(text, &ports()).expect("seven routes");
        let route = |prefix: &str, via: Option<&str>, port| Route {
            prefix: prefix.parse().expect("a prefix"),
            via: via.map(|via| via.parse().expect("an address")),
            port,
            silent: false,
        };
        let expected = [
            route("0.0.0.0/0", Some("10.0.0.1"), Some(0)),
            route("192.0.2.0/24", Some("10.0.0.2"), None),
            route("10.1.0.0/16", None, Some(1)),
            route("198.51.100.7/32", None, Some(1)),
            Route { silent: true, ..route("203.0.113.0/24", None, None) },
            route("203.0.114.0/24", None, None),
            route("::/0", Some("fe80::1"), Some(0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_name_their_line_and_what_was_expected() {
        let wrong = [
            ("10.0.0.0/8", "leads nowhere"),
            ("\n10.0.0.0/33 dev east", "is no prefix"),
            ("10.0.0.1/8 dev east", "expected 10.0.0.0/8"),
            ("10.0.0.0/8 dev south", "there are: east, west"),
            ("10.0.0.0/8 via east", "is no address"),
            ("10.0.0.0/8 via", "expected a value"),
            ("blackhole", "expected a prefix"),
            ("10.0.0.0/8 to 10.0.0.1", "found `to`"),
        ];
        for (text, what) in wrong {
            let error = parse(text, &ports()).expect_err(text).to_string();
            let line = 1 + text.matches('\n').count();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }
}
