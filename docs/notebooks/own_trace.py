"""Your own trace: a recording of your service under every technique that the machine can play.

python own_trace.py -- --trace my.hwt    # without one, a recording that comes along
"""

import marimo

app = marimo.App(app_title="halfwink: your own trace")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    import halfwink as hw

    return Path, hw, mo


@app.cell
def _(mo):
    mo.md("""
    # Your own trace

    `halfwink capture -- ./program` records a program of yours with the kernel below it;
    `halfwink trace import` brings traces of other simulators. Either gives a `.hwt` file.
    """)
    return


@app.cell
def _(Path, mo):
    ours = Path(__file__).resolve().parents[2] / "workloads" / "memcached.hwt"
    trace = str(mo.cli_args().get("trace") or ours)
    return (trace,)


@app.cell
def _(hw, trace):
    results = hw.compare(trace, machine="ev6-1", instructions=300_000)
    return (results,)


@app.cell
def _(results):
    results.verdict()
    return


@app.cell
def _(mo):
    mo.md("""
    ## Would it still pay if waking up took longer?

    Any value of the machine can be set by its path; results of equal jobs are never mixed up.
    """)
    return


@app.cell
def _(hw, trace):
    later = {
        wake_up_ns: hw.compare(
            trace,
            techniques=["tap"],
            machine="ev6-1",
            set={"gating.wake_up_ns": wake_up_ns},
            instructions=300_000,
        )
        for wake_up_ns in (5, 50, 500)
    }
    return (later,)


@app.cell
def _(later):
    saved = {
        wake_up_ns: results.query(
            "select technique, energy_saving_pct, slowdown_pct from runs where technique = 'tap'"
        ).to_dicts()[0]
        for wake_up_ns, results in later.items()
    }
    saved
    return (saved,)


if __name__ == "__main__":
    app.run()
