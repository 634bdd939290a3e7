"""``halfwink query``: SQL over the tables of a finished run."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.console import formula_safe, plain, print_frame, print_tables, say
from halfwink.cli.console import out as stdout
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.results.results import Results, open_results, sql_tables
from halfwink.results.typesetting import latex, markdown

#: Endings of files, by which their format is chosen.
ENDINGS = (".parquet", ".csv", ".md", ".tex")
#: A file that holds the publications of what the run compares, for which there is no SQL.
REFERENCES = ".bib"


def query(
    folder: str,
    sql: str | None = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Ask the tables of a finished run, in SQL; without SQL, show what they hold.

    In the table `runs` each swept value has a column of its own; in names of columns what SQL
    cannot spell without quotes is `_`: gating_wake_up_ns.

    Parameters
    ----------
    folder
        Folder of a run, as made by compare or run; or its URL.
    sql
        Query to run, such as "select technique, avg(power_w) from runs group by technique".
    out
        File for the answer: .parquet, .csv, .md (Markdown) or .tex (LaTeX, booktabs). Without SQL:
        .bib, publications of the techniques.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if sql is None and (json or (out is not None and out.suffix in ENDINGS)):
        raise HalfwinkError("-o, --json: expected SQL to answer")
    wanted = ENDINGS if sql is not None else (REFERENCES,)
    if out is not None and out.suffix not in wanted:
        raise HalfwinkError(f"{out}: expected a name that ends in {', '.join(wanted)}")
    results = open_results(folder)
    if sql is None:
        if out is None:
            _overview(results)
        else:
            text = results.bibtex()
            write_whole(out, text.encode())
            count = len(re.findall("^@", text, flags=re.MULTILINE))
            say(f"{count} references: {out}", quiet=quiet)
        return 0
    found = results.query(sql)
    if out is not None:
        file = io.BytesIO()
        if out.suffix == ".csv":
            formula_safe(found).write_csv(file)
        elif out.suffix == ".tex":
            file.write(latex(found).encode())
        elif out.suffix == ".md":
            file.write(markdown(found).encode())
        else:
            found.write_parquet(file)
        write_whole(out, file.getvalue())
        say(f"{found.height:,} rows: {out}", quiet=quiet)
    if json:
        print_tables("query", {"rows": found}, {"sql": sql})
    elif out is None:
        print_frame(found)
    return 0


def _overview(results: Results) -> None:
    for name, table in sql_tables(results).items():
        line = f"{name} ({table.height:,} rows): {', '.join(table.columns)}"
        stdout.print(plain(line), markup=False)
