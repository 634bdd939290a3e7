"""The first minute: techniques on one workload, who wins, at what cost, and why."""

import marimo

app = marimo.App(app_title="halfwink: the first minute")


@app.cell
def _():
    import marimo as mo

    import halfwink as hw

    return hw, mo


@app.cell
def _(mo):
    mo.md("""
    # The first minute

    A web server at a tenth of its load, recorded with its kernel. What do techniques that sleep
    through its waits save, and what do they cost? Every energy and time is modelled.
    """)
    return


@app.cell
def _(hw):
    results = hw.compare(
        "nginx-10pct",
        techniques=["idle-menu", "idle-gate", "tap", "oracle"],
        machine="ev6-1",
        instructions=2_000_000,
    )
    return (results,)


@app.cell
def _(results):
    results.verdict()
    return


@app.cell
def _(results):
    results.table()
    return


@app.cell
def _(results):
    results.chart()
    return


@app.cell
def _(mo):
    mo.md("""
    ## Why

    The ledger is double-entry: every picosecond and every joule of each component has a row with
    its state and cause. Any SQL will do.
    """)
    return


@app.cell
def _(results):
    states = results.query("""
        select technique, state, sum(time_s) as time_s, sum(energy_j) as energy_j
        from ledger where component = 'core0'
        group by technique, state order by technique, time_s desc
    """)
    states
    return (states,)


if __name__ == "__main__":
    app.run()
