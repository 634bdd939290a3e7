"""A sweep with its Pareto front: which values of a technique trade energy against delay best."""

import marimo

app = marimo.App(app_title="halfwink: a sweep and its front")


@app.cell
def _():
    import altair as alt
    import marimo as mo

    import halfwink as hw

    return alt, hw, mo


@app.cell
def _(mo):
    mo.md("""
    # A sweep and its front

    PowerSave (Niccolini 2012) wakes and stops a router's cores by streaks and by how full a queue
    is. `studies/power-save-front.toml` sweeps them: of 320 combinations an adaptive design plays
    those that lead to less energy and less delay. Both are modelled.
    """)
    return


@app.cell
def _(hw):
    study = hw.run("power-save-front")
    design = study.results.design
    return design, study


@app.cell
def _(design, mo, study):
    mo.md(f"""
    {design.height} runs were asked for, to {", ".join(study.study["design"]["minimize"])};
    {design["on_front"].sum()} of them are on the front: nothing that was played is better in both.
    """)
    return


@app.cell
def _(design, study):
    keys = ["workload", "machine", "set", "technique"]
    points = study.results.runs.join(design, on=keys)
    front = points.filter(on_front=True).sort("latency_mean_us")
    return front, points


@app.cell
def _(alt, front, points):
    axes = {
        "x": alt.X("latency_mean_us", title="mean delay (us), modelled").scale(type="log"),
        "y": alt.Y("energy_j_per_unit", title="energy of a packet (J), modelled").scale(zero=False),
    }
    shown = ["latency_mean_us", "energy_j_per_unit", "technique"]
    dots = alt.Chart(points.select(*shown, "chosen")).mark_point().encode(color="chosen", **axes)
    line = alt.Chart(front.select(shown)).mark_line(color="gray").encode(**axes)
    line + dots
    return


@app.cell
def _(front):
    front.select("technique", "set", "latency_mean_us", "energy_j_per_unit", "round")
    return


if __name__ == "__main__":
    app.run()
