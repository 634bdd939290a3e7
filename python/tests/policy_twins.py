"""Listed policies written anew in Python: they decide as the native ones do."""

from __future__ import annotations

from dataclasses import dataclass

from halfwink.policies import (
    US,
    Circuits,
    Completion,
    Gating,
    Offload,
    Parameter,
    Preheat,
    Scaling,
    Segregation,
    Steering,
    circuits,
    completion,
    gating,
    offload,
    preheat,
    scaling,
    segregation,
    steering,
)


class IdleGate(Gating):
    """Gates while the OS has halted the core."""

    events = (gating.IdleBegin, gating.IdleEnd)

    def on_event(self, now: int, event: gating.Event) -> gating.Action:
        return gating.Gate() if isinstance(event, gating.IdleBegin) else gating.Wake()


class InC1(Gating):
    """Stops the clock of an idle core, and nothing more."""

    events = (gating.IdleBegin,)

    def on_event(self, now: int, event: gating.Event) -> gating.Action:
        return gating.Rest(1)


PATIENCE = 20 * US


@dataclass
class Entry:
    """An access that is on its way; `earliest` is None while nothing is known."""

    line: int
    earliest: int | None
    since: int


class Tap(Gating):
    """Gates for as long as memory promises that nothing comes (Strong 2013, Sec 2.3.4)."""

    def on_start(self, start: gating.Start) -> None:
        self.start = start
        self.lead = start.wake_up + start.restore
        self.table: list[Entry] = []
        self.state = "running"
        self.stalled = False
        self.no_gate_before = 0
        self.granted: int | None = None

    def on_event(self, now: int, event: gating.Event) -> gating.Action | None:
        match event:
            case gating.Token():
                self.token(now, event)
                return self.reevaluate(now)
            case gating.Response(line):
                self.table = [entry for entry in self.table if entry.line != line]
                return self.wake(now) if self.state == "gated" else self.reevaluate(now)
            case gating.StallBegin():
                self.stalled, self.state = True, "stalled"
                self.forget(now)
                return self.reevaluate(now)
            case gating.StallEnd():
                self.stalled, self.state = False, "running"
                self.timer = None
            case gating.IdleBegin():
                self.state = "idle"
                return gating.Gate()
            case gating.IdleEnd():
                self.state = "waking"
                return gating.Wake()
            case gating.Granted(wake_up):
                self.granted = wake_up
                return self.reevaluate(now)
            case gating.Awake():
                self.granted = None
                self.state = "stalled" if self.stalled else "running"
        return None

    def on_timer(self, now: int) -> gating.Action | None:
        self.forget(now)
        return self.wake(now) if self.state == "gated" else None

    def token(self, now: int, token: gating.Token) -> None:
        unknown = token.bound == gating.Bound.UNKNOWN
        earliest = None if unknown else token.created + token.span
        for entry in self.table:
            if entry.line == token.line:
                entry.earliest = earliest
                return
        is_stale = earliest is not None and earliest < now
        if not is_stale and len(self.table) < self.start.loads:
            self.table.append(Entry(token.line, earliest, now))

    def forget(self, now: int) -> None:
        self.table = [e for e in self.table if now - max(e.since, e.earliest or 0) < PATIENCE]

    def wake_start(self, at: int, lead: int) -> int:
        begin, period, offset = max(at - lead, 0), self.start.slot_period, self.start.slot_offset
        if period == 0:
            return begin
        return 0 if begin < offset else begin - (begin - offset) % period

    def lead_now(self) -> int:
        wake_up = self.start.wake_up if self.granted is None else self.granted
        return wake_up + self.start.restore

    def reevaluate(self, now: int) -> gating.Action | None:
        known = min((e.earliest for e in self.table if e.earliest is not None), default=None)
        if self.state == "stalled":
            if known is None:
                pays = bool(self.table)
            else:
                enough = now + self.start.entry + self.start.break_even
                pays = self.wake_start(known, self.lead) > enough and known >= self.no_gate_before
            if pays:
                self.state = "gated"
                self.timer = None if known is None else self.wake_start(known, self.lead_now())
                return gating.Gate()
        elif self.state == "gated":
            alarm = None if known is None else self.wake_start(known, self.lead_now())
            if alarm is not None and alarm <= now:
                return self.wake(now)
            self.timer = alarm
        return None

    def wake(self, now: int) -> gating.Action:
        self.state, self.timer = "waking", None
        self.no_gate_before = now + self.lead_now()
        return gating.Wake()


class L3fwdPause(Scaling):
    """Pauses between empty polls, as `l3fwd-power --pmd-mgmt=pause` does."""

    def on_start(self, start: scaling.Start) -> None:
        self.empty = [0] * start.cores
        self.granted = [0] * start.cores

    def on_event(self, now: int, event: scaling.Event) -> scaling.Action | None:
        core = event.core
        if isinstance(event, scaling.Poll):
            if event.taken > 0:
                self.empty[core] = self.granted[core] = 0
            return None
        self.empty[core] += max(self.granted[core], 1)
        self.granted[core] = 0
        if self.empty[core] > 512:
            return scaling.Rest(core, scaling.Kind.PAUSE, US)
        self.granted[core] = max(513 - self.empty[core], 1)
        return scaling.Rest(core, scaling.Kind.AGAIN, self.granted[core])


class BigOnly(Steering):
    """Sends all to the big machine; the small one sleeps for ever."""

    def on_start(self, start: steering.Start) -> steering.Action:
        return steering.Sleep(0)

    def on_event(self, now: int, event: steering.Event) -> steering.Action | None:
        return steering.Send(1) if isinstance(event, steering.Arrive) else None


class OsAlways(Offload):
    """Moves all kernel entries."""

    def on_event(self, now: int, event: offload.Event) -> offload.Action | None:
        return offload.OsCore() if isinstance(event, offload.Enter) else None


class Issuer(Completion):
    """Completes each I/O where it was issued."""

    events = (completion.Done,)

    def on_event(self, now: int, event: completion.Event) -> completion.Action | None:
        match event:
            case completion.Done():
                return completion.Give(event.io, event.issuer)
            case completion.Empty(cpu):
                return completion.Rest(cpu, completion.Kind.HALT_C1)
            case _:
                return None


class Jukebox(Preheat):
    """Replays what the last request of a service missed, and records this one."""

    events = (preheat.Arrived, preheat.Idle, preheat.Built, preheat.Loaded)

    def on_start(self, start: preheat.Start) -> None:
        self.runs: list[int] = []
        self.recorded: list[int] = []
        self.building: set[int] = set()
        self.ready: set[int] = set()
        self.loading: set[int] = set()

    def on_event(self, now: int, event: preheat.Event) -> list[preheat.Action]:
        match event:
            case preheat.Arrived(port) if port not in self.runs:
                return self.arrived(port)
            case preheat.Idle():
                built, self.recorded, self.runs = self.recorded, [], []
                self.building |= set(built)
                return [preheat.Build(port) for port in built]
            case preheat.Built(service, lines):
                self.building.discard(service)
                if lines > 0:
                    self.ready.add(service)
            case preheat.Loaded(service):
                self.loading.discard(service)
            case _:
                pass
        return []

    def arrived(self, port: int) -> list[preheat.Action]:
        actions: list[preheat.Action] = []
        self.runs.append(port)
        if port in self.ready and port not in self.loading:
            self.loading.add(port)
            actions.append(preheat.Load(port, cores=0, order=preheat.Order.FIRST_USE))
        if port not in self.building:
            if port not in self.recorded:
                self.recorded.append(port)
            actions.append(preheat.Record(port, preheat.Recorded.MISSES))
        return actions


class RoundRobin(Circuits):
    """Each host's turn to send to each other."""

    events = (circuits.Next, circuits.Lost, circuits.Back)
    day_us = Parameter(123.5, least=1e-3, most=1e9, unit="us", title="length of a day")

    def on_start(self, start: circuits.Start) -> None:
        self.hosts = start.hosts
        self.lost: set[int] = set()

    def on_event(self, now: int, event: circuits.Event) -> list[circuits.Action]:
        match event:
            case circuits.Next(plane, slot):
                shift = 1 + slot % (self.hosts - 1)
                pairs = [(host, (host + shift) % self.hosts) for host in range(self.hosts)]
                joined = [circuits.Join(plane, *p) for p in pairs if self.lost.isdisjoint(p)]
                return [*joined, circuits.Day(plane, int(self.day_us * US))]
            case circuits.Lost(host):
                self.lost.add(host)
            case circuits.Back(host):
                self.lost.discard(host)
            case _:
                pass
        return []


class Ucp(Segregation):
    """Gives each side the ways that it makes most of (Qureshi, Patt 2006)."""

    events = (segregation.Begin, segregation.Sample, segregation.Utility)

    def on_start(self, start: segregation.Start) -> None:
        self.ways = start.ways
        self.hits = [[0, 0] for _ in range(start.ways)]
        self.seen = [(0, 0)] * start.ways

    def on_event(self, now: int, event: segregation.Event) -> tuple[segregation.Action, ...]:
        match event:
            case segregation.Utility(rank, user, kernel):
                self.seen[rank] = (user, kernel)
                return ()
            case segregation.Begin():
                kernel_ways = self.ways // 2
            case segregation.Sample():
                pairs = zip(self.hits, self.seen, strict=True)
                self.hits = [[old // 2 + new for old, new in zip(*p, strict=True)] for p in pairs]
                self.seen = [(0, 0)] * self.ways
                kernel_ways = max(range(self.ways - 1, 0, -1), key=self.worth)
        cycles = segregation.SampleAfter(100_000, segregation.Unit.CYCLES)
        return segregation.Set(kernel_ways), cycles

    def worth(self, kernel_ways: int) -> tuple[int, int]:
        user = sum(hits for hits, _ in self.hits[: self.ways - kernel_ways])
        kernel = sum(hits for _, hits in self.hits[:kernel_ways])
        return user + kernel, -abs(2 * kernel_ways - self.ways)


class DataWays(Segregation):
    """Three ways for the kernel's data."""

    events = (segregation.Begin,)

    def on_event(self, now: int, event: segregation.Event) -> segregation.Action:
        return segregation.Set(split=3, route=segregation.Route.DATA)
