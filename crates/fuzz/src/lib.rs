//! What is checked of bytes that strangers write: each module takes any bytes, and panics if what
//! its head says does not hold.
//!
//! A fuzzer calls them with bytes that it makes up (`fuzz/`, with a nightly compiler), and a test
//! with those that are kept in `fuzz/kept` (`cargo test`, with any).

macro_rules! targets {
    ($($feature:literal: $($name:ident),+;)+) => {
        $($(
            #[cfg(feature = $feature)]
            pub mod $name;
        )+)+

        /// All targets that are built in, by name.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$($(
            #[cfg(feature = $feature)]
            (stringify!($name), $name::run),
        )+)+];
    };
}

targets! {
    "chip": machine;
    "dataplane": behind_esp, dataplane, esp_record, routes;
    "delegate": delegation;
    "eventlog": event_log;
    "fabric": chakra, flow_files;
    "inputs": inputs;
    "live-block": nbd;
    "live-router": router_config, xfrm;
    "live-steer": steer, steer_config, http2;
    "node": idle_gaps;
    "policy": announce, gating, line_sets, preheat, sync_frames;
    "policy-module": own_module;
    "resctrl": resctrl;
    "server": cdf, request_counts, request_log;
    "storage": block_loads;
    "study": study;
    "testbed": prototype_http;
    "trace": champsim, drmemtrace, trace_bytes, trace_sections;
    "worlds": descriptions;
}

#[cfg(feature = "fabric")]
pub mod racks;

/// Returns the longest prefix that is text.
#[allow(dead_code)]
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Makes a value of the bytes, if they suffice.
#[allow(dead_code)]
fn any<'a, T: arbitrary::Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(arbitrary::Unstructured::new(bytes)).ok()
}
