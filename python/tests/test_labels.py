"""Labels of charts: none hides a point or another label."""

from __future__ import annotations

import random
from itertools import combinations

from halfwink.report.labels import GAP, LETTER, LINE, SIDES, Label, labels

SIZE = (620, 400)


def box(label: Label, points: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    """As a browser draws it: letters of a fixed width, beside its point."""
    x, y = points[label.point]
    across, up = SIDES[label.side]
    width = LETTER * len(label.names)
    near = GAP if across == "center" or up == "middle" else GAP // 2
    left = {"left": x + near, "center": x - width / 2, "right": x - near - width}[across]
    top = {"top": y + GAP, "middle": y - LINE / 2, "bottom": y - GAP - LINE}[up]
    return left, top, left + width, top + LINE


def apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return any(one[i] >= other[i + 2] or other[i] >= one[i + 2] for i in (0, 1))


def test_a_name_stands_at_the_right_where_there_is_room() -> None:
    assert labels([(100, 100)], ["tap"], SIZE, 9) == [Label(0, "tap", "right")]
    assert labels([(610, 100)], ["tap"], SIZE, 9) == [Label(0, "tap", "above")]
    assert labels([(618, 100)], ["tap"], SIZE, 9) == [Label(0, "tap", "left")]


def test_points_at_one_place_share_a_label_at_the_outermost() -> None:
    points = [(100.0, 100.0), (104.0, 97.0), (300.0, 100.0)]
    found = labels(points, ["a", "b", "c"], SIZE, 9)
    assert found == [Label(1, "a, b", "right"), Label(2, "c", "right")]
    assert labels(points, ["a", "a", "c"], SIZE, 9)[0].names == "a"


def test_in_a_corner_beside_a_neighbour_a_name_still_has_room() -> None:
    # Nothing fits at its right, nor in the middle above or below it.
    points = [(24.0, 376.0), (44.0, 369.0)]
    found = labels(points, ["packet-switch", "most-needed, edmonds, hedera"], SIZE, 9)
    assert [label.side for label in found] == ["right below", "right"]


def test_too_many_places_have_no_labels() -> None:
    points = [(30.0 * n, 30.0 * n) for n in range(10)]
    assert labels(points, map(str, range(10)), SIZE, 9) == []


def test_no_label_hides_a_point_or_another_label() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        count = draw.randrange(1, 17)
        points = [(draw.uniform(24, 596), draw.uniform(24, 376)) for _ in range(count)]
        names = ["n" * draw.randrange(1, 20) + str(n) for n in range(count)]
        found = [box(label, points) for label in labels(points, names, SIZE, 16)]
        assert found
        assert all(apart(one, other) for one, other in combinations(found, 2))
        assert all(apart(one, (x - 4, y - 4, x + 4, y + 4)) for one in found for x, y in points)
        assert all(b[0] >= 0 and b[1] >= 0 and b[2] <= SIZE[0] and b[3] <= SIZE[1] for b in found)
