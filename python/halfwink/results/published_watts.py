"""Watts of servers that others have published, beside those of the model."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from halfwink.library import declared, root
from halfwink.results.relate import IDENTITY, KEYS

#: The table's name among results.
PUBLISHED = "published_watts"
#: Points of load that differ by no more than this are the same one.
SAME_LOAD_PCT = 0.5
#: Its columns behind those that name a run.
COLUMNS = (
    "load_pct",
    "power_w",
    "published_w",
    "above_published_pct",
    "published_use",
    "published_result",
    "published_server",
)
_NODE = "node"
_MODELS = "models"
_above = 100 * (pl.col("power_w") / pl.col("published_w") - 1)


@lru_cache(maxsize=1)
def published_watts() -> pl.DataFrame:
    """Returns published watts by load: ``machine`` and ``set`` say what models the server,
    ``published_use`` whether a value of the machine file follows from the point (``input``) or
    ours is held to it (``target``)."""
    file = root() / "machines/published/specpower.csv"
    return pl.read_csv(file, comment_prefix="#").with_columns(
        pl.col("load_pct", "published_w").cast(pl.Float64)
    )


def published_of(machine: str, values: str) -> pl.DataFrame:
    """Returns the published points of the server that this machine is with these values set; empty
    if there are none. What is set of the run alone, as its length, makes no other server."""
    return published_watts().filter(machine=machine, set=_of_the_machine(values))


def beside_published(runs: pl.DataFrame) -> pl.DataFrame | None:
    """Returns the watts of runs beside published ones at the same load; none if there are none.

    ``above_published_pct`` is how far ours are above them. Of a point that is an input it says
    nothing of the model.
    """
    if not {"load_pct", "power_w", "idle_w"} <= set(runs.columns):
        return None
    ours = runs.filter(pl.col("load") == "open").with_columns(
        pl.col("set").map_elements(_of_the_machine, return_dtype=pl.String).alias(_MODELS)
    )
    points = published_watts().rename({"set": _MODELS, "load_pct": "at_pct"})
    found = (
        ours.select(*IDENTITY, _MODELS, "load_pct", "power_w")
        .join(points, on=["machine", _MODELS], how="inner", maintain_order="left_right")
        .filter((pl.col("load_pct") - pl.col("at_pct")).abs() <= SAME_LOAD_PCT)
        .with_columns(_above.alias("above_published_pct"))
    )
    return found.select(*IDENTITY, *COLUMNS) if found.height else None


def of_chart(runs: pl.DataFrame) -> pl.DataFrame:
    """Returns published points of the one server that all these runs are of; empty if they are of
    several, or none is published."""
    servers = runs.select(KEYS[1:]).unique().rows()
    return published_of(*servers[0]) if len(servers) == 1 else published_watts().clear()


def _of_the_machine(values: str) -> str:
    of_runs = {option["name"] for option in declared(_NODE)["options"]}
    kept = [value for value in values.split() if value.partition("=")[0] not in of_runs]
    return " ".join(kept)
