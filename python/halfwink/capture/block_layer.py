"""The block layer of Linux, as it can be captured by name: fio on a device without a medium."""

from __future__ import annotations

from .guest import STORAGE
from .workload import Workload

DEVICE_NS = 10_000
"""What an I/O takes in the device."""
DEPTH = 32
"""I/Os that each issuer has in flight."""


def _null_blk(name: str, what: str, issuers: tuple[int, ...], **variables: str) -> Workload:
    common = {"DEVICE_NS": str(DEVICE_NS), "DEPTH": str(DEPTH)}
    # The same for both recordings of a run, so that it is the same run and tells so.
    cpus = sorted(issuers)
    on = " and ".join(f"CPU {cpu}" for cpu in cpus)
    return Workload(
        name=name,
        description=f"fio reading 4 KiB at random, {DEPTH} deep, from a null block device of"
        f" {DEVICE_NS // 1000} us ({what}), on {on}",
        kind="program",
        script="null-blk",
        command=("fio", "/run/job.fio"),
        guest=STORAGE,
        issuers=issuers,
        record_after_s=2.0,
        variables=common | {"ISSUERS": " ".join(map(str, cpus))} | variables,
        instructions=4_000_000,
    )


def _pair(name: str, what: str, **variables: str) -> tuple[Workload, ...]:
    """One issuer; two, of which the second is recorded; and the other one of the same two."""
    return (
        _null_blk(f"{name}-alone", what, (1,), **variables),
        _null_blk(name, what, (0, 1), **variables),
        _null_blk(f"{name}-other", what, (1, 0), **variables),
    )


BLOCK_LAYER = (
    *_pair("null-blk-one", "one queue, mq-deadline", QUEUES="1", SCHEDULER="mq-deadline"),
    *_pair("null-blk-many", "a queue for each CPU, no scheduler", QUEUES="2", SCHEDULER="none"),
)
"""One queue behind one scheduler's lock, and a queue for each CPU."""
