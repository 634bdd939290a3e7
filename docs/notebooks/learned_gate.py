"""A learned policy: lengths of memory stalls, learnt from a log, decide when a core is gated."""

import marimo

app = marimo.App(app_title="halfwink: a learned policy")


@app.cell
def _():
    import json
    import tempfile
    from pathlib import Path

    import marimo as mo

    import halfwink as hw

    return Path, hw, json, mo, tempfile


@app.cell
def _(mo):
    mo.md("""
    # A learned policy

    A core that waits for memory can be gated if the wait is long enough. TAP is told by the memory
    how long it is. A policy that is told nothing has to learn it: a stall that has lasted for
    `after_ns` is one of memory, and then lasts for `length_ns` in all. Both are learnt from a log
    of `mcf`, then tuned there, and judged on `lemon`, which neither has seen. All energies are
    modelled.
    """)
    return


@app.cell
def _(hw):
    from halfwink.policies import NS, Gating, Parameter
    from halfwink.policies.gating import Gate, IdleBegin, IdleEnd, StallBegin, StallEnd, Wake

    class Learned(Gating):
        """Gates a stall that has lasted for a while until it should end, and halts."""

        events = (StallBegin, StallEnd, IdleBegin, IdleEnd)
        after_ns = Parameter(20, least=0, most=1000, unit="ns", title="stall before it gates")
        length_ns = Parameter(60, least=0, most=1000, unit="ns", title="length of a long stall")

        def on_start(self, start):
            self.lead = start.wake_up + start.restore
            self.is_gated = False

        def on_event(self, now, event):
            if isinstance(event, StallBegin):
                self.began = now
                self.timer = now + int(self.after_ns * NS)
            elif isinstance(event, IdleBegin):
                self.is_gated, self.timer = True, None
                return Gate()
            else:
                self.timer = None
                return self.woken()
            return None

        def on_timer(self, now):
            if self.is_gated:
                return self.woken()
            wake = self.began + int(self.length_ns * NS) - self.lead
            if wake <= now:
                return None
            self.is_gated, self.timer = True, wake
            return Gate()

        def woken(self):
            was_gated, self.is_gated = self.is_gated, False
            return Wake() if was_gated else None

    return (Learned,)


@app.cell
def _(Path, hw, json, tempfile):
    # The log of a run in which nothing is gated has every stall.
    where = {"world": "chip", "machine": "ev6-4", "instructions": 300_000}
    stalls = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "learn.log"
        hw.compare("mcf", techniques=["always-on"], log=log, **where)
        lines = [json.loads(text) for text in log.read_text().splitlines()]
    for line in lines:
        ended = line.get("event")
        if isinstance(ended, dict) and "stall-end" in ended:
            stalls.append((line["now_ps"] - ended["stall-end"]["began_ps"]) / 1000)
    return stalls, where


@app.cell
def _(stalls):
    # Costs of this machine in ns: to gate and to be back; asleep for less than the second pays not.
    lead, pays = 14.0, 18.0

    def gain(after, length):
        """Returns the time asleep that pays, less twice what stalls that end early lose."""
        asleep = length - after - lead - pays
        return sum(asleep if stall >= length else -2 * lead for stall in stalls if stall > after)

    steps = [2.5 * n for n in range(1, 60)]
    after, length = max(
        ((a, b) for a in steps for b in steps if b > a), key=lambda pair: gain(*pair)
    )
    return after, length


@app.cell
def _(Learned, after, hw, length, where):
    learnt = Learned(after_ns=after, length_ns=length)
    tuned = hw.tune(
        Learned,
        {"after_ns": (0.0, 2 * after + 10), "length_ns": (0.5 * length, 2 * length)},
        workload="mcf",
        keep={"slowdown_pct": 0.5},
        points=40,
        **where,
    )
    return learnt, tuned


@app.cell
def _(Learned, hw, learnt, tuned, where):
    best = Learned(**tuned.values)
    found = {
        name: hw.compare(name, techniques=["mapg-counter", "tap", learnt, best], **where)
        for name in ("mcf", "lemon")
    }
    found["lemon"].runs.select("technique", "energy_saving_pct", "slowdown_pct", "wakes")
    return (found,)


@app.cell
def _(found, mo):
    def row(name):
        runs = found[name].runs.select("technique", "energy_saving_pct", "slowdown_pct").rows()
        return "; ".join(
            f"{technique} saves {saved:.2f} %, {slower:.2f} % slower"
            for technique, saved, slower in runs[1:]
        )

    mo.md(f"""
    Learnt and tuned on mcf: {row("mcf")}.

    Held out, lemon: {row("lemon")}.

    What a policy cannot be told, learning does not replace: that is the case for TAP's tokens.
    """)
    return


if __name__ == "__main__":
    app.run()
