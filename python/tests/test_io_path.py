"""`halfwink trace io`: what an I/O takes in the kernel, from recordings of fio on a null device."""

from __future__ import annotations

from conftest import Halfwink


def test_one_queue_costs_more_than_many(halfwink: Halfwink) -> None:
    def both(queues: str) -> dict[str, float]:
        name = f"null-blk-{queues}"
        done = halfwink("trace", "io", name, "--beside", f"{name}-other", "--json")
        *each, both = done.rows("paths")
        assert [row["cpu"] for row in each] == [name, f"{name}-other"]
        assert both["ios"] == sum(row["ios"] for row in each) > 500
        return dict(both)

    one, many = both("one"), both("many")
    assert one["kernel_instructions"] > 1.1 * many["kernel_instructions"]
    assert one["transfers"] > 2 * many["transfers"]
    # Each I/O ends with a timer's interrupt; several may end with one.
    assert 0.9 < many["interrupts"] < 1.1


def test_it_says_what_it_counts(halfwink: Halfwink) -> None:
    text = halfwink("trace", "io", "null-blk-many-alone").out
    assert "instructions of the kernel" in text
    assert "other CPU" not in text
    both = halfwink("trace", "io", "null-blk-one", "--beside", "null-blk-one-other").out
    assert max(map(len, both.splitlines())) <= 80
    assert max(map(len, text.splitlines())) <= 80


def test_what_cannot_be_is_said(halfwink: Halfwink) -> None:
    wrong = halfwink("trace", "io", "null-blk-one", "--beside", "null-blk-many-other")
    assert "expected another CPU of the same run" in wrong.complaint
    assert "submits no I/Os" in halfwink("trace", "io", "gcc").complaint
    assert "expected a recording" in halfwink("trace", "io", "chase").complaint
