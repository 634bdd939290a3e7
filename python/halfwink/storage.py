"""Block I/Os on machines of several sockets: which CPU completes them (Nellans 2014, ch. 6).

import halfwink as hw

found = hw.storage_runs("westmere-ex", policies=["single-thread", "issuer", "cache-aware"])
found.runs  # a row for each policy and number of issuing CPUs (modelled)
found.peaks()  # where each policy is best
found.chart().save("saw-tooth.html")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.frames import frames, titled
from halfwink.jobs import Settings, names, pairs
from halfwink.library import library

if TYPE_CHECKING:
    import altair as alt

    from halfwink.block_advice import Load

#: Policies that the work measured.
PUBLISHED = ("single-thread", "issuer", "cache-aware")
#: Short names that commands take.
SHORT = {"single": "single-thread", "round-robin": "round-robin-socket"}


@dataclass(frozen=True)
class StorageRuns:
    """Policies by the number of CPUs that issue. Everything is modelled, also the energy.

    Attributes:
        runs: a row for each policy and number of issuing CPUs: I/Os a second, CPUs that the driver
            had, their time for an I/O (microseconds), CPUs that did anything, share of that spent
            waiting for locks (percent), latency (microseconds), energy of an I/O (microjoules).
        sockets: numbers of issuing CPUs at which a socket is full.
    """

    runs: pl.DataFrame
    sockets: list[int] = field(default_factory=list[int])

    def _repr_html_(self) -> str:
        return titled("peaks", self.peaks()) + titled("runs", self.runs)

    def peaks(self) -> pl.DataFrame:
        """The row of each policy with the most I/Os a second."""
        return (
            self.runs.sort("iops", descending=True)
            .group_by("policy", maintain_order=True)
            .first()
            .sort("iops")
        )

    def chart(self) -> alt.LayerChart | alt.FacetChart:
        """I/Os a second by issuing CPUs, a line for each policy, dotted where a socket is full."""
        import altair as alt

        lines = (
            alt.Chart(self.runs)
            .mark_line(point=True)
            .encode(
                x=alt.X("issuers:Q", title="CPUs that issue"),
                y=alt.Y("iops:Q", title="I/Os a second (modelled)"),
                color=alt.Color("policy:N", title="policy"),
                tooltip=["policy", "issuers", "iops", "driver_cpus", "driver_us_per_io"],
            )
        )
        full = alt.Chart(pl.DataFrame({"issuers": self.sockets}, schema={"issuers": pl.Int64}))
        rules = full.mark_rule(strokeDash=[2, 4], opacity=0.5).encode(x="issuers:Q")
        return alt.layer(rules, lines).properties(
            title="Who completes block I/Os, by the CPUs that issue them", width=640, height=360
        )


def storage_runs(
    name: str = "westmere-ex",
    *,
    policies: str | Sequence[str] = PUBLISHED,
    issuers: int | Sequence[int] = (),
    through: str = "driver",
    depth: int = 32,
    rate: float = 0.0,
    ios: int = 100_000,
    seed: int = 1,
    set: Settings | None = None,
) -> StorageRuns:
    """Plays policies by the number of CPUs that issue I/Os, and so keeps a device busy.

    Args:
        name: a machine (``westmere-ex``), or a TOML file.
        policies: techniques of the world ``storage``, with parameters
            (``cache-aware:period_ms=1``); ``single`` for ``single-thread``.
        issuers: numbers of issuing CPUs; all of the machine if there are none.
        through: what lies between issuers and device: ``driver``, ``queue-and-driver``, or
            ``queue`` over a driver with nothing to do.
        depth: I/Os that each issuing CPU has in flight.
        rate: I/Os a second of all together, at most; 0 for no limit.
        ios: I/Os that are counted; as many go before.
        seed: of all random streams.
        set: values to change, as ``{"coherence.one_hop_ns": 120}``.

    Raises:
        HalfwinkError: there is none of a name, or a value is impossible.
    """
    counts = [issuers] if isinstance(issuers, int) else list(issuers)
    for what, number in [("issuers", n) for n in counts] + [("depth", depth), ("ios", ios)]:
        if not 1 <= number <= 1_000_000_000:
            raise HalfwinkError(f"{what} {number}: expected 1 or more")
    if not 0 <= rate < float("inf"):
        raise HalfwinkError(f"rate {rate}: expected I/Os a second, or 0 for no limit")
    settings = pairs(set)
    sockets, cores = _core.storage_topology(library(), name, settings)
    chosen = counts or list(range(1, sockets * cores + 1))
    if max(chosen) > sockets * cores:
        raise HalfwinkError(f"{max(chosen)} issuing CPUs: {name} has {sockets * cores}")
    chosen_policies = [SHORT.get(policy, policy) for policy in names(policies)]
    load = (through, depth, float(rate), ios, seed)
    found = frames(_core.storage_runs(library(), name, settings, chosen_policies, chosen, load))
    full = [cores * n for n in range(1, sockets + 1) if cores * n <= max(chosen)]
    return StorageRuns(found["runs"], full)


#: Seeds of a load that is played to see what to expect.
_SEEDS = (1, 2, 3)
#: Lines between sockets.
_FAR = ("coherence.one_hop_ns", "coherence.two_hops_ns")
#: Stages of the described driver, in microseconds: their sum is what an I/O takes there.
_STAGES = {"driver.interrupt_us": 0.99, "driver.structures_us": 5.1, "driver.completion_us": 2.8}


def as_measured(measured: Mapping[str, Any], load: Load) -> dict[str, Any]:
    """What to set in `westmere-ex` so that it is a measured machine: caches as sockets, its line
    times, and stages that take together what an I/O takes here.

    Args:
        measured: see :func:`halfwink.block_advice.measure`.
        load: what an I/O takes.
    """
    caches: dict[tuple[int, int], int] = {}
    for cpu in measured["machine"]["cpus"]:
        place = (cpu["package"], cpu["cache"])
        caches[place] = caches.get(place, 0) + 1
    # The described machines have as many CPUs in each socket, and eight sockets at most.
    sockets, cores = min(len(caches), 8), min(caches.values())
    values: dict[str, Any] = {"topology.sockets": sockets, "topology.cores_per_socket": cores}
    # The clock at which the stages were measured: they are set to this machine's own times.
    values["topology.ghz"] = 3.46
    scale = load.io_us / sum(_STAGES.values())
    values |= {path: us * scale for path, us in _STAGES.items()}
    for same, paths in (
        (True, ["coherence.same_socket_ns"]),
        (False, list(_FAR)),
    ):
        trips = [t["line_ns"] for t in measured["trips"] if t["same_cache"] is same]
        if trips:
            # There and back: two transfers.
            values |= dict.fromkeys(paths, sum(trips) / len(trips) / 2)
    # Who is given an I/O is not interrupted: it finds it in a line of the giver's.
    lines_ns = [values.get(path, 0.0) for path in ("coherence.same_socket_ns", *_FAR)]
    values |= dict.fromkeys(("driver.ipi_send_us", "driver.ipi_receive_us"), max(lines_ns) / 1e3)
    return values


def simulate(measured: Mapping[str, Any], load: Load) -> dict[str, float]:
    """What to expect of a load on a measured machine: `westmere-ex` with its caches as sockets, its
    line times, and stages that take together what an I/O takes here.

    Args:
        measured: see :func:`halfwink.block_advice.measure`.
        load: what the device is asked.

    Returns:
        Modelled, of ``cache-aware``, the mean and the ends over three seeds: ``iops``, ``cpus``
        (the driver's CPU time a second) and ``uj_per_io``, each with ``_low`` and ``_high``.
    """
    values = as_measured(measured, load)
    cpus = values["topology.sockets"] * values["topology.cores_per_socket"]
    runs = [
        storage_runs(
            "westmere-ex",
            policies=["cache-aware"],
            issuers=[cpus],
            rate=load.iops,
            ios=20_000,
            seed=seed,
            set=values,
        ).runs
        for seed in _SEEDS
    ]
    rows = pl.concat(runs).with_columns(cpus=pl.col("driver_us_per_io") * pl.col("iops") / 1e6)
    found: dict[str, float] = {}
    for name, column in (("iops", "iops"), ("cpus", "cpus"), ("uj_per_io", "energy_uj_per_io")):
        values_of = rows[column].to_list()
        found[name] = sum(values_of) / len(values_of)
        found[f"{name}_low"], found[f"{name}_high"] = min(values_of), max(values_of)
    return found
