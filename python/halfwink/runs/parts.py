"""Sweeps in parts: which machine plays what, and which parts are lost."""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from halfwink.errors import HalfwinkError, RunError
from halfwink.files import Place, make_folder, write_whole
from halfwink.jobs import Planned

#: How many parts a sweep has, beside its results: every part writes the same bytes.
PARTS_FILE = "parts.json"
#: Arrays of jobs are shorter, and each part is dealt by all.
MOST_PARTS = 1_000_000


def distinct(planned: Sequence[Planned]) -> list[int]:
    """Returns the numbers of jobs with different results, in order: equal jobs are run once."""
    first: dict[str, int] = {}
    for number, job in enumerate(planned):
        first.setdefault(job.key, number)
    return list(first.values())


def deal(planned: Sequence[Planned], parts: int) -> list[list[int]]:
    """Deals distinct results to parts: numbers of jobs, those of equal keys once.

    No part has more than ceil(results / parts), and parts differ in work by no more than the
    largest jobs force. The deal depends on the jobs alone, so that all machines agree on it. Jobs
    of one pace stay together as far as that allows, since they may share a run.
    """
    numbers = distinct(planned)
    usual = median(known) if (known := [p.work for p in planned if p.work]) else 1
    by_work: defaultdict[int, list[int]] = defaultdict(list)
    for number in numbers:
        by_work[planned[number].work or (round(usual) or 1)].append(number)
    most = -(-len(numbers) // parts)
    # The largest first, each to the part with the least work that has room.
    open_parts = [(0, 0, part) for part in range(parts)]
    dealt: list[list[int]] = [[] for _ in range(parts)]
    for work in sorted(by_work, reverse=True):
        takes: Counter[int] = Counter()
        for _ in by_work[work]:
            load, count, part = heapq.heappop(open_parts)
            takes[part] += 1
            if count + 1 < most:
                heapq.heappush(open_parts, (load + work, count + 1, part))
        # Jobs of equal work are interchangeable: neighbours in pace go to one part.
        alike = iter(sorted(by_work[work], key=lambda n: (planned[n].pace or "", n)))
        for part, count in sorted(takes.items()):
            dealt[part] += [next(alike) for _ in range(count)]
    return dealt


def check_part(part: tuple[int, int]) -> None:
    """Checks that there is such a part; raises HalfwinkError in one line."""
    which, of = part
    if of < 1:
        raise HalfwinkError(f"{of} parts: expected 1 or more")
    if of > MOST_PARTS:
        raise HalfwinkError(f"part {which}/{of}: expected at most {MOST_PARTS:,} parts")
    if not 1 <= which <= of:
        raise HalfwinkError(f"part {which}/{of}: expected 1/{of} to {of}/{of}")


def note_parts(folder: Place, parts: int) -> None:
    """Records the number of parts of a sweep beside its results; raises RunError."""
    try:
        make_folder(folder)
        write_whole(folder / PARTS_FILE, json.dumps({"parts": parts}) + "\n")
    except OSError as error:
        where = error.filename or folder
        raise RunError(f"{where}: cannot note the parts: {error.strerror}") from error


def noted_parts(folder: Place) -> int | None:
    """Returns how many parts a sweep had when it last ran in parts."""
    try:
        parts = json.loads((folder / PARTS_FILE).read_bytes())["parts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return parts if isinstance(parts, int) and 0 < parts <= MOST_PARTS else None


def lost_parts(planned: Sequence[Planned], there: set[str], parts: int) -> list[int]:
    """Returns the parts, from 1 on, of which a result is not there."""
    return [
        which
        for which, numbers in enumerate(deal(planned, parts), 1)
        if any(planned[number].key not in there for number in numbers)
    ]
