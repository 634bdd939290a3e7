"""Documents of the hybrid server and its load."""

from __future__ import annotations

from halfwink.schemas.parts import FLAG, NOTE, NUMBER, OBJECT, TEXT, choice, document, part
from halfwink.schemas.shared import LEDGER, MEASURED, REPORTED, TIMES
from halfwink.schemas.tables import tables

FIT = part(
    "alpha_s rms_s relative_rms",
    beta_s_per_kb=NUMBER.listed(),
    gamma=NUMBER.called("Exponent of the sharing of a machine."),
)
POOL = TEXT.called("Pool: `small` or `big`.")
QUANTILES = part("count max mean p50 p90 p99 p999")
RESIDENCY = part(
    "asleep_s going_down_s lost_s",
    asleep_by_level_s=NUMBER.listed().called("Time asleep by level of sleep, the first one first."),
    on_s=NUMBER.listed(),
    waking_s=NUMBER,
)
MODELLED = part("always_on_j always_on_w energy_j energy_w").or_null()
BACKEND = part(
    "address connections failed given_up in_service losses power_failures queued "
    "refused resteered retried served sleeps spared state waiting wakes",
    declined=NUMBER.called("Times that its `may_sleep` program kept it on."),
    followed=NUMBER.called("Times that it was woken because another machine of its group was."),
    level=NUMBER.called("Level of sleep, from 1; 0 unless it is asleep."),
    modelled=MODELLED.called("Modelled energy and power of this machine; null without a model."),
    overridden=NUMBER.called("Times that its power state was found changed by another."),
    place=NUMBER.called("Place in the order of activation, from 0."),
    residency=RESIDENCY,
)

DOCUMENTS = {
    "live.steer": document(
        "halfwink live steer: what the proxy did",
        "connections duration_s listen log_dropped log_error policy_fault policy_faults steps_back",
        access_log=part(
            dropped=NUMBER.called("Lines that found no room in the buffer or on the disk."),
            written=NUMBER.called("Lines that were written."),
            error=NOTE.called("Failure of the file, if its last line was not written."),
        )
        .or_null()
        .called("Lines of the access log; null if there is none."),
        ledger=LEDGER,
        machines=BACKEND.by_name().called("Reports of the machines by their names."),
        measured=MEASURED,
        memory=part("bytes cut_flood cut_holding cut_slow limit_bytes peak_bytes refused"),
        modelled=MODELLED.called("Modelled energy and power of all; null without a model."),
        policy=NUMBER.by_name().called("State of the policy: numbers by name."),
        queueing=TIMES,
        requests=part(
            "aborted answered bad_gateway client_gone connections connections_refused "
            "gateway_timeout overloaded received refused tls_failed truncated unreachable",
            slow=NUMBER.called("Requests that arrived too slowly."),
        ),
        statuses=OBJECT,
        tables=REPORTED,
        total=TIMES,
    ),
}

TABLES = {
    "live calibrate": tables(
        "a server's times as a machine file",
        part(workload=NOTE),
        pools=part("requests", name=POOL, medians=FIT, medians_free=FIT, plain=FIT, plain_free=FIT),
        bins=part("n requests bytes seconds fitted_s", name=POOL),
    ),
    "live dataset": tables(
        "the prototype's files",
        part(
            "bytes shape sum",
            format=NUMBER,
            options=part("files max_bytes mean_bytes min_bytes seed").called(
                "Options that the data set was made with."
            ),
        ),
    ),
    "live load": tables(
        "requests that were answered, and when",
        part(
            "answered answered_per_s bytes connections cpu_s offered_per_s requests "
            "seconds start_ns stopped waited",
            late=NUMBER.called("Requests that were sent more than a millisecond late."),
            errors=OBJECT.called("Failed requests by reason."),
            latency_s=QUANTILES,
            lateness_s=QUANTILES,
            service_s=QUANTILES,
        ),
        backends=part(latency_s=QUANTILES, name=NOTE, service_s=QUANTILES),
    ),
    "live serve": tables(
        "what the prototype's server did",
        part(
            "connections duration_s refused served",
            name=NOTE,
            service_s=QUANTILES.called("Times from taking a request to handing its answer over."),
        ),
        workers=part("busy_s bytes cpu cpu_s refused served"),
    ),
    "live predict": tables(
        "run lengths of system calls, as they were predicted",
        rows=part(
            "threshold load_pct requests failed measured_mean_ms simulated_mean_ms "
            "mean_error_pct measured_p99_ms simulated_p99_ms p99_error_pct"
        ),
        errors=part("threshold mean_error_pct p99_error_pct"),
        pools=part(
            "gamma alpha_ms",
            name=POOL,
            beta_ms=NUMBER.listed(),
        ),
    ),
    "live steer-day": tables(
        "a day through a real hybrid server, the simulated one, and the replay",
        part(replayed=FLAG.called("Whether the replay of the log repeats all decisions.")),
        slots=part(
            "slot start_s simulated_mean_ms simulated_p99_ms simulated_big_share "
            "simulated_w live_per_s live_mean_ms live_p99_ms live_big_share"
        ),
        servers=part(
            "requests failed mean_ms p99_ms big_share modelled_w modelled_always_on_w? "
            "wakes big_asleep_pct",
            server=choice("live", "simulated").called("Server that the day went through."),
        ),
    ),
}
