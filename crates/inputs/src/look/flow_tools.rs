//! Lists of flows and packets whose servers are addresses, and results of networks.

use super::Family::{Flows, Requests};
use super::{Row, READ};

const PACKETS: &str =
    "`tshark -r CAPTURE -T fields -E header=y -E separator=, -e frame.time_epoch \
                       -e ip.src -e ip.dst -e frame.len > packets.csv` writes a table";

/// Numbers addresses of a list of flows in the order in which they come.
macro_rules! numbered {
    ($rows:literal, $program:literal) => {
        concat!(
            "`",
            $rows,
            " 'function n(a){if(!(a in s))s[a]=c++;return s[a]+0}function p(t,a,b,w){z=z?z:t;\
             if(a!=b&&w>0)printf \"%d %d %s %.0f\\n\",n(a),n(b),w,(t-z)*1e9}{",
            $program,
            "}' > flows.txt` numbers its servers"
        )
    };
}

/// Numbers servers of lines `seconds source destination bytes`, which a command writes.
macro_rules! listed {
    ($($command:literal),*) => {
        concat!(
            "`",
            $($command,)*
            " | sort -n | awk 'function n(a){if(!(a in s))s[a]=c++;return s[a]+0}{z=NR>1?z:$1;\
             if($2!=$3&&$4>0)printf \"%d %d %s %.0f\\n\",n($2),n($3),$4,($1-z)*1e9}' > flows.txt` \
             numbers its servers"
        )
    };
}

/// Numbers servers of a table by the names of its columns.
macro_rules! named {
    ($split:literal, $time:literal, $from:literal, $to:literal, $bytes:literal) => {
        listed!(
            "awk ",
            $split,
            " 'function seen(d,f){f=d;sub(/[.].*/,\"\",f);gsub(/[-:]/,\" \",f);\
             sub(/[^.]*/,\"0\",d);return mktime(f)+d}NR==1{for(i=1;i<=NF;i++)c[$i]=i;next}$c[\"",
            $from,
            "\"]!=\"\"{printf \"%.9f %s %s %s\\n\",",
            $time,
            ",$c[\"",
            $from,
            "\"],$c[\"",
            $to,
            "\"],$c[\"",
            $bytes,
            "\"]}' FILE"
        )
    };
}

/// Rows are tried in this order; the first that knows a file names it.
pub(super) const ROWS: &[Row] = &[
    // `sort` first: nfdump writes a flow at its end, and begins must not be before the first one.
    Row {
        what: "a table of flows by nfdump, with addresses for servers",
        is: |head| head.is(b"ts,te,td,sa,da,"),
        how: numbered!(
            "grep ^20.*:.*: FILE | sort | awk -F,",
            "gsub(/[-:]/,\" \",$1);p(mktime($1),$4,$5,$13)"
        ),
        steps: &[(Requests, READ)],
    },
    Row {
        what: "a list of flows by nfdump, for reading",
        is: |head| head.is(b"Date first seen"),
        how: "`nfdump -r CAPTURE -o csv > flows.csv` writes a table of them",
        steps: &[],
    },
    Row {
        what: "a log of Zeek's connections, with addresses for servers",
        is: |head| head.within("#path\tconn"),
        how: numbered!("grep -v ^# FILE | sort -n | awk -F'\\t'", "p($1,$3,$5,$10+$11)"),
        steps: &[(Requests, READ)],
    },
    // The second version without its header: 14 fields.
    Row {
        what: "a log of VPC flows, with addresses for servers",
        is: |head| {
            let words: Vec<&str> = head.first().split_whitespace().collect();
            matches!(words[..],
                ["2", _, eni, _, _, _, _, _, _, _, _, _, _, status]
                    if eni.starts_with("eni-") && matches!(status, "OK" | "NODATA" | "SKIPDATA"))
        },
        how: numbered!("grep eni- FILE | sort -nk11 | awk", "p($11,$4,$5,$10)"),
        steps: &[(Requests, READ)],
    },
    // Frames are in the capture behind the text. For flows the text is enough: each packet is one.
    Row {
        what: "text of tcpdump",
        is: |head| {
            // Behind a time of day, perhaps with its date, or seconds since 1970 stand the names of
            // an interface (`-i any`), of Ethernet (`-e`), or of the protocol.
            let line = head.lines().find(|line| line.contains(" > ") || line.contains("ARP"));
            let mut words = line.unwrap_or_default().split_whitespace();
            let time = words.next().unwrap_or_default();
            let is_time = |word: &str| {
                word.matches(':').count() == 2
                    || word.matches('-').count() == 2
                    || word.split_once('.').is_some_and(|(s, us)| s.len() >= 9 && us.len() >= 6)
            };
            let is_protocol = |word| matches!(word, "IP" | "IP6" | "ARP," | "IPv4" | "IPv6");
            is_time(time) && words.take(8).any(is_protocol)
        },
        how: "`tcpdump -w FILE.pcap` writes its frames, which `halfwink live generate --replay` \
              sends",
        steps: &[(
            Flows,
            numbered!(
                "grep ' IP.* length [1-9]' FILE | awk",
                "for(i=NF;i>1&&$i!=\">\";i--);a=$(i-1);b=$(i+1);sub(/[.][0-9]*$/,\"\",a);\
                 sub(/[.][0-9]*:$/,\"\",b);k=split($1~/-/?$2:$1,h,\":\");\
                 t=k>2?h[1]*3600+h[2]*60+h[3]:$1;sub(/.* length /,\"\");p(t,a,b,$1+0)"
            ),
        )],
    },
    Row {
        what: "a result of iperf3",
        is: |head| head.is_object() && head.within("\"iperf "),
        // `--json-stream` writes a line for each event; UDP has a sum of both sides.
        how: "`jq -r '(.end//(select(.event==\"end\")|.data))|\
              \"0 1 \\((.sum_sent//.sum).bytes) 0\"' FILE > flows.txt` writes its flow",
        steps: &[],
    },
    Row {
        what: "a list of packets by tshark, with addresses for servers",
        is: |head| {
            let named = ["frame.time_epoch", "ip.src", "ip.dst", "frame.len"];
            named.iter().all(|it| head.has(it))
        },
        how: named!(r#"-F'[,\t]'"#, r#"$c["frame.time_epoch"]"#, "ip.src", "ip.dst", "frame.len"),
        steps: &[(Requests, READ)],
    },
    Row {
        what: "a log of VPC flows, with addresses for servers",
        is: |head| ["srcaddr", "dstaddr", "bytes", "start"].iter().all(|it| head.has(it)),
        how: named!("", r#"$c["start"]"#, "srcaddr", "dstaddr", "bytes"),
        steps: &[(Requests, READ)],
    },
    // nfdump from 1.7.3 on, whose columns a user chooses.
    Row {
        what: "a table of flows by nfdump, with addresses for servers",
        is: |head| ["firstSeen", "srcAddr", "dstAddr", "bytes"].iter().all(|it| head.has(it)),
        how: named!("-F,", r#"seen($c["firstSeen"])"#, "srcAddr", "dstAddr", "bytes"),
        steps: &[(Requests, READ)],
    },
    Row {
        what: "flows of nfdump as JSON, with addresses for servers",
        is: |head| {
            let keys = ["\"first\"", "_addr\"", "\"in_bytes\""];
            keys.iter().all(|it| head.within(it))
        },
        how: listed!(
            r#"jq -r '.[]|"\((.first[:19]+"Z"|fromdate)+("0"+.first[19:23]|tonumber)) "#,
            r#"\(.src4_addr//.src6_addr) \(.dst4_addr//.dst6_addr) \(.in_bytes)"' FILE"#
        ),
        steps: &[(Requests, READ)],
    },
    Row {
        what: "a log of Zeek's connections, with addresses for servers",
        is: |head| head.is_object() && head.has("\"id.orig_h\"") && head.has("\"conn_state\""),
        how: listed!(
            r#"jq -r '"\(.ts) \(.["id.orig_h"]) \(.["id.resp_h"]) "#,
            r#"\((.orig_bytes//0)+(.resp_bytes//0))"' FILE"#
        ),
        steps: &[(Requests, READ)],
    },
    Row {
        what: "events of Suricata, with addresses for servers",
        is: |head| head.is_object() && head.within("\"event_type\"") && head.within("\"src_ip\""),
        how: listed!(
            r#"jq -r 'select(.event_type=="flow")|"\((.flow.start[:19]+"Z"|fromdate)"#,
            r#"+("0"+.flow.start[19:26]|tonumber)) \(.src_ip) \(.dest_ip) "#,
            r#"\(.flow.bytes_toserver+.flow.bytes_toclient)"' FILE"#
        ),
        steps: &[(Requests, READ)],
    },
    // Text for reading, and JSON of whole packets: the capture behind them has the rest.
    Row {
        what: "text or JSON of tshark",
        is: |head| {
            let is_row = |line: &str| line.contains(" \u{2192} ") || line.contains(" -> ");
            let is_numbered = head.first().split_whitespace().next() == Some("1");
            (is_numbered && is_row(head.first()))
                || (head.within("Conversations") && head.within("Filter:"))
                || (head.within("\"_index\"") && head.within("packets-"))
        },
        how: PACKETS,
        steps: &[(Requests, READ)],
    },
    Row {
        what: "text of iperf3",
        is: |head| {
            let begins: [&[u8]; 3] = [b"Connecting to host", b"iperf 3", b"Server listening"];
            begins.iter().any(|it| head.is(it))
        },
        how: "`iperf3 -c HOST --json > result.json` writes its bytes",
        steps: &[],
    },
    Row {
        what: "an execution trace of PyTorch",
        is: |head| head.is_object() && head.within("\"schema\"") && head.within("chakra"),
        how: "`chakra_trace_link` and `chakra_converter PyTorch` write the trace that is read",
        steps: &[],
    },
    Row {
        what: "nodes of Chakra as JSON",
        is: |head| head.is_object() && head.within("_COLL_NODE\""),
        how: "name the .et file that they were written from",
        steps: &[],
    },
    Row {
        what: "text of nccl-tests, without flows",
        is: |head| head.within("# nThread ") && head.within("minBytes"),
        how: "a trace of Chakra says what collectives send",
        steps: &[],
    },
];
