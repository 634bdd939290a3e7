"""Documents of the software router and its traffic."""

from __future__ import annotations

from halfwink.schemas.parts import NUMBER, OBJECT, document, part
from halfwink.schemas.shared import LEDGER, MEASURED, REPORTED, TIMES
from halfwink.schemas.tables import tables

SPREAD = part("count max mean p50 p99 p999")
ORDER = part(
    "duplicated received reordered reordered_by_most",
    missing=NUMBER.called("Numbers that never arrived."),
)

DOCUMENTS = {
    "live.router": document(
        "halfwink live router: what the router did",
        "changes duration_s exported log_dropped log_error lost moves overflowed received sent "
        "policy_fault policy_faults step steps_back unexported unrecorded unsent",
        forward=part("busy_from followed forced forwarded_by looks rests"),
        latency=TIMES,
        ledger=LEDGER,
        measured=MEASURED,
        modelled=part(
            "asleep_j asleep_w cores_j cores_w energy_j energy_w polling_j polling_w saved_pct"
        ).called("Modelled energy and power of the described router."),
        packets=part(
            "consumed drop_bad_checksum drop_bad_header drop_bad_neighbour drop_blackhole "
            "drop_broadcast drop_esp_authentication drop_esp_clear drop_esp_exhausted "
            "drop_esp_expired drop_esp_inner drop_esp_no_key drop_esp_replay "
            "drop_esp_selector drop_esp_unknown drop_esp_unrecorded drop_esp_unreserved "
            "drop_ethertype drop_host_unreachable drop_ike drop_link_local drop_martian "
            "drop_moving drop_multicast drop_no_port drop_no_room drop_no_route drop_not_for_us "
            "drop_queue_full drop_redundancy_bad drop_redundancy_mismatch "
            "drop_redundancy_missing drop_short drop_source_route drop_too_big "
            "drop_ttl_exceeded drop_unreachable drop_unwanted drop_vlan echo_replies "
            "esp_decrypted esp_encrypted exports flows_begun flows_evicted flows_exported "
            "flows_uncounted forwarded forwarded_bytes fragmented fragments held "
            "icmp_errors icmp_suppressed neighbour_replies neighbour_requests "
            "neighbours_learnt passed received redundancy_decoded redundancy_encoded "
            "redundancy_refused redundancy_saved_bytes sent"
        ),
        policy=OBJECT.called("State of the policy, by name."),
        ports=part("gone interface io lost queues received sent unsent up").listed(),
        tables=REPORTED,
        workers=part(
            "cpu_s parked passes served sleeps waiting",
            residency=part("busy_s c1_s c3_s c6_s spin_s"),
        ).listed(),
    ),
}

TABLES = {
    "live generate": tables(
        "packets that were sent",
        part(
            "bytes cpu_s frames pps refusals scheduled_frames seconds spin_s start_ns stopped",
            lateness_us=SPREAD,
        ),
        slots=part("at_s frames"),
    ),
    "live sink": tables(
        "packets that arrived",
        part(
            "bad_headers bytes captured corrupt cpu_s early frames other other_bytes pps "
            "seconds sink_drops start_ns",
            flows=part("disturbed flows", order=ORDER).or_null(),
            hops_left=NUMBER.listed().or_null(),
            latency_us=SPREAD.or_null(),
            order=ORDER,
        ),
        slots=part("at_s bytes frames", latency_us=SPREAD.or_null()),
    ),
    "live day": tables(
        "a day of load in a bed",
        "frames live_busy_s simulated_busy_s live_modelled_j simulated_modelled_j "
        "live_p99_us simulated_p99_us lost reordered frame_us wake_us latency_p50_us "
        "in_router_p50_us",
        slots=part(
            "second offered_pps live_busy_cores simulated_busy_cores live_modelled_w "
            "simulated_modelled_w live_p99_us simulated_p99_us live_parked_cores "
            "simulated_parked_cores"
        ),
    ),
    "live costs": tables(
        "time of a packet in the router's elements",
        costs=part("element frame_bytes ns_per_packet times_a_copy"),
    ),
}
