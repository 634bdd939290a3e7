"""Results as data frames, with everything relative to the baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.checked import checked
from halfwink.errors import HalfwinkError
from halfwink.files import Place, make_folder, place, write_whole
from halfwink.jobs import Job, Pairs, Planned
from halfwink.library import declared, library
from halfwink.remote import Remote
from halfwink.results.frames import Stack
from halfwink.results.judgement import judge
from halfwink.results.mpki import with_mpki
from halfwink.results.proportionality import PROPORTIONALITY, proportionality
from halfwink.results.published_watts import PUBLISHED, beside_published
from halfwink.results.relate import IDENTITY, ends, relate
from halfwink.results.saw_tooth import PEAKS, STEPS, saw_tooth
from halfwink.results.seeds import over_seeds
from halfwink.results.store import HOST, RunStore

if TYPE_CHECKING:
    import altair as alt

    from halfwink.results.against import Changes
    from halfwink.results.verdict import Verdict

#: Results that are read from the store at once.
CHUNK = 256
#: The table of one row for each run. Its file has a name of its own.
RUN = "run"
RUN_FILE = "results"
#: Marks of plots that studies describe.
MARKS = ("point", "line", "bar")
#: The study as it was run, beside the tables.
STUDY_FILE = "study.toml"
#: Tables that relate runs of several loads.
CURVES = (PROPORTIONALITY, PUBLISHED, PEAKS, STEPS)
#: Pieces of each run, from which intervals of differences come.
SLICES = "slices"
#: Columns of the short table beside those that a world declares, of those that it has.
SHORT = (
    "unit_of_work",
    "energy_j_per_unit",
    "energy_saving_pct",
    "core_energy_saving_pct",
    "core_clock_saving_pct",
    "equal_rate_saving_pct",
    "beyond_today_pct",
    "slowdown_pct",
    "energy_delay_pct",
    "latency_mean_us",
    "latency_p99_us",
    "power_w",
    "gated_share",
    "available",
    "breaks",
)


def check_mark(plot: Mapping[str, Any]) -> None:
    """Checks that a plot of a study has a mark that can be drawn; raises HalfwinkError."""
    if plot["mark"] not in MARKS:
        known = f"{', '.join(MARKS[:-1])} or {MARKS[-1]}"
        line = f"plot `{plot['title']}`: unknown mark `{plot['mark']}`; expected {known}"
        raise HalfwinkError(line)


@dataclass(frozen=True)
class Results:
    """Runs of one or more techniques on one or more workloads, of any world.

    Every table is also an attribute: ``results.counters``.

    Attributes:
        world: world in which they were played.
        tables: all tables by name, each row led by workload, machine, set and technique: ``run``,
            ``ledger``, ``host`` (what the host took), and the world's own; ``proportionality`` of
            servers at load 0 and two more, ``published_watts`` of servers of which there are some,
            ``peaks`` and ``steps`` of storage with several numbers
            of issuing CPUs. Units stand last in names of columns; energies and times are modelled.
        baseline: the technique that others are compared with.
        baseline_machine: the machine on which it ran, if not each run's own.
    """

    world: str
    tables: dict[str, pl.DataFrame]
    baseline: str
    baseline_machine: str | None = None

    def __getattr__(self, name: str) -> pl.DataFrame:
        # Asked only for what is no field; while unpickling not even those are there.
        tables: dict[str, pl.DataFrame] = self.__dict__.get("tables", {})
        if name not in tables:
            raise AttributeError(f"these results have no table `{name}`")
        return tables[name]

    @property
    def runs(self) -> pl.DataFrame:
        """One row per run, with what it saves and costs relative to the baseline."""
        return self.tables[RUN]

    @property
    def ledger(self) -> pl.DataFrame:
        """Seconds and joules by run, component, state, mode and cause."""
        return self.tables["ledger"]

    @checked
    def has(self, name: str) -> bool:
        """Returns whether the world has this table and the runs filled it."""
        return name in self.tables and not self.tables[name].is_empty()

    @checked
    def named(self, name: str) -> pl.DataFrame:
        """Returns a table by its name.

        Raises:
            HalfwinkError: there is none of that name.
        """
        if name not in self.tables:
            raise HalfwinkError(f"no table `{name}`; there are: {', '.join(self.tables)}")
        return self.tables[name]

    def table(self) -> pl.DataFrame:
        """Returns the savings and costs of each technique, one row per workload, machine and
        technique.

        Where seeds were swept these are means over them; ``power_low_w`` and ``power_high_w`` are
        the 95 % interval of ``power_w``, where one is known.
        """
        runs = over_seeds(self.runs)
        own = [short["column"] for short in declared(self.world).get("short", ())]
        shown = [name for name in dict.fromkeys((*SHORT, *own)) if name in runs.columns]
        limits = [limit for name in shown for limit in ends(name)]
        known = [name for name in limits if name in runs.columns and runs[name].count() > 0]
        return runs.select(*IDENTITY, *shown, *known)

    @checked
    def to_pandas(self, table: str = RUN) -> Any:
        """Returns a table as a ``pandas.DataFrame``.

        Raises:
            HalfwinkError: there is no such table; or pandas or pyarrow is missing, with the line
                that adds them.
        """
        try:
            for module in ("pandas", "pyarrow"):
                import_module(module)
        except ImportError as error:
            line = "to_pandas needs pandas and pyarrow; run: pip install 'halfwink[pandas]'"
            raise HalfwinkError(f"{line} ({error})") from None
        return self.named(table).to_pandas()

    def bibtex(self) -> str:
        """Returns BibTeX of the publications of all techniques compared, and of halfwink."""
        from halfwink.results.references import bibtex

        return bibtex(self.runs["technique"], self.world)

    def verdict(self) -> Verdict:
        """Returns the verdict in sentences: the winner, its cost, and its gain over idle states."""
        from halfwink.results.verdict import verdict

        return verdict(self)

    @checked
    def against(self, before: Results) -> Changes:
        """Returns what changed against another run of the same workloads and techniques.

        Raises:
            HalfwinkError: the runs are of different worlds, or share nothing; one line.
        """
        from halfwink.results.against import against

        return against(self, before)

    def _repr_html_(self) -> str:
        from halfwink.results.summary import as_html

        return self.verdict().as_html() + as_html(self)

    def chart(self) -> alt.LayerChart | alt.FacetChart:
        """Saving against slowdown, a point per technique and workload."""
        from halfwink.report.charts import savings

        return savings(self)

    @checked
    def query(self, sql: str) -> pl.DataFrame:
        """Queries the tables by their names, and ``runs``, in SQL.

        In ``runs`` each swept value has a column; in names of columns what SQL cannot spell without
        quotes is ``_``: ``gating_wake_up_ns``.

        Raises:
            HalfwinkError: the SQL is wrong, in one line.
        """
        tables = sql_tables(self)
        try:
            return pl.SQLContext(tables, eager=True).execute(sql)
        except pl.exceptions.PolarsError as error:
            said = str(error).splitlines()[0]
            if re.match("relation .* was not found", said):
                said += f"; there are: {', '.join(sorted(tables))}"
            raise HalfwinkError(f"SQL: {said}") from error

    @checked
    def write(self, folder: Place | str) -> None:
        """Writes each table as NAME.parquet, the runs as results.parquet; raises OSError."""
        folder = place(folder)
        make_folder(folder)
        for name, frame in self.tables.items():
            # Through memory, since the library's own complaint about a full disk is unreadable.
            content = BytesIO()
            frame.write_parquet(content)
            file = RUN_FILE if name == RUN else name
            write_whole(folder / f"{file}.parquet", content.getvalue())


def open_results(folder: Place | str) -> Results:
    """Opens the results of a finished run, from its folder or URL.

    Raises:
        HalfwinkError: the folder is not a run, or an older halfwink wrote it.
        OSError: the URL does not answer.
    """
    folder = place(folder)
    for name in (f"{RUN_FILE}.parquet", STUDY_FILE):
        if not (folder / name).exists():
            raise HalfwinkError(f"{folder}: no {name}; expected the folder of a finished run")
    study = study_of(folder)
    tables: dict[str, pl.DataFrame] = {}
    for path in _parquet(folder):
        name = RUN if path.stem == RUN_FILE else path.stem
        tables[name] = read_table(path, _heads(study["world"], name))
    if tables[RUN].is_empty():
        raise HalfwinkError(f"{folder}: {RUN_FILE}.parquet has no runs, expected one or more")
    return Results(study["world"], tables, study["baseline"], study["baseline_machine"])


#: Kinds of columns as a world names them, and what a table of a file has for them.
_KINDS: dict[str, tuple[type[pl.DataType], ...]] = {
    "text": (pl.String, pl.Categorical, pl.Enum),
    "integer": (pl.Int64, pl.UInt64, pl.Int32, pl.UInt32),
    "real": (pl.Float64, pl.Float32, pl.Int64, pl.UInt64),
}


def _heads(world: str, table: str) -> list[tuple[str, str]]:
    """Columns that a table of a world has, with their kinds."""
    own = declared(world).get("tables", {}).get(table, [])
    return [*((name, "text") for name in IDENTITY), *((name, kind) for name, kind in own)]


def read_table(path: Path | Remote, heads: Sequence[tuple[str, str]] = ()) -> pl.DataFrame:
    """A table of results as it was written: the one reader of what runs left.

    Args:
        path: a file in Parquet.
        heads: columns that it must have, and their kinds: ``text``, ``integer``, ``real``.

    Raises:
        HalfwinkError: the file is damaged, or lacks a column, or has another kind of it; one line.
        OSError: the file cannot be read.
    """
    content = path.read_bytes()
    try:
        found = pl.read_parquet(BytesIO(content))
    except BaseException as error:
        # The decoder panics at some damage; what stops a program is passed on.
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not isinstance(error, Exception):
            raise
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        raise HalfwinkError(
            f"{path}: damaged: {why}; `halfwink run` of its study.toml, "
            "with -o of the folder, writes it again"
        ) from None
    for name, kind in heads:
        if name not in found.columns:
            raise HalfwinkError(
                f"{path}: no column `{name}`: another version wrote it, or it is "
                "another table; `halfwink run` of its study.toml writes it again"
            )
        dtype = found.schema[name]
        if dtype != pl.Null and not isinstance(dtype, _KINDS.get(kind, (pl.DataType,))):
            raise HalfwinkError(f"{path}: column `{name}` is {dtype}, expected {kind}")
    return found


def study_of(folder: Place) -> dict[str, Any]:
    """The study of a finished run, as it was run.

    Raises:
        HalfwinkError: the folder is not a run; one line.
        OSError: the URL does not answer.
    """
    path = folder / STUDY_FILE
    if not isinstance(path, Remote):
        return library().study(str(path))
    with TemporaryDirectory(prefix="halfwink-") as own:
        copy = Path(own) / STUDY_FILE
        copy.write_bytes(path.read_bytes())
        return library().study(str(copy))


def _parquet(folder: Place) -> list[Path] | list[Remote]:
    if isinstance(folder, Remote):
        return [folder / name for name in sorted(folder.names()) if name.endswith(".parquet")]
    return sorted(folder.glob("*.parquet"))


def collect(
    jobs: Sequence[Job],
    planned: Sequence[Planned],
    store: RunStore,
    baseline: str,
    machine: str | None = None,
) -> Results:
    """Reads what jobs found from the store, some hundreds at a time, and relates each run to its
    baseline (on ``machine``, if one is named).

    Raises:
        RunError: a result is damaged.
    """
    hosts = store.hosts()
    parts: dict[str, list[pl.DataFrame]] = {}
    numbered = list(zip(jobs, planned, strict=True))
    for begin in range(0, len(jobs), CHUNK):
        stacks: dict[str, Stack] = {}
        chunk = numbered[begin : begin + CHUNK]
        every = store.loaded(known.key for _, known in chunk)
        for (job, known), found in zip(chunk, every, strict=True):
            # A result does not say whose it is: jobs of other names may share it.
            whose = (job.workload, job.machine, said(job.set), job.technique)
            if known.key in hosts:
                found[HOST] = hosts[known.key]
            for name, columns in found.items():
                stacks.setdefault(name, Stack(IDENTITY)).push(whose, columns)
        for name, stack in stacks.items():
            parts.setdefault(name, []).append(stack.frame())
    tables = {name: pl.concat(frames, how="vertical") for name, frames in parts.items()}
    world = jobs[0].world
    if "counters" in tables:
        tables[RUN] = with_mpki(tables[RUN], tables["counters"], list(IDENTITY))
    runs = relate(tables[RUN], baseline, machine)
    tables[RUN] = judge(runs, tables.get(SLICES), world, baseline, machine)
    if (curves := proportionality(tables[RUN])) is not None:
        tables[PROPORTIONALITY] = curves
    if (beside := beside_published(tables[RUN])) is not None:
        tables[PUBLISHED] = beside
    tables |= saw_tooth(tables[RUN])
    return Results(world, tables, baseline, machine)


def sql_tables(results: Results) -> dict[str, pl.DataFrame]:
    """Tables by name; of the runs, columns whose names SQL cannot spell without quotes."""
    runs = sweep_columns(results.runs)
    safe = {name: re.sub(r"\W", "_", name) for name in runs.columns}
    return results.tables | {"runs": runs.rename(safe)}


def said(values: Pairs) -> str:
    """Values that were set, as the column ``set`` has them."""
    return " ".join(f"{path}={value}" for path, value in values)


def sweep_columns(runs: pl.DataFrame) -> pl.DataFrame:
    """Makes the values that a sweep set into columns of their own."""
    for path in _swept(runs["set"].unique(maintain_order=True)):
        value = pl.col("set").str.extract(rf"(?:^| ){re.escape(path)}=(\S+)")
        number = value.cast(pl.Float64, strict=False)
        column = runs.select(number.alias("n"), value.alias("v"))
        kept = column["n"] if column["n"].null_count() == column["v"].null_count() else column["v"]
        runs = runs.with_columns(kept.alias(path))
    return runs


def _swept(texts: Iterable[str]) -> list[str]:
    paths: dict[str, None] = {}
    for text in texts:
        paths.update(dict.fromkeys(item.partition("=")[0] for item in text.split()))
    return list(paths)
