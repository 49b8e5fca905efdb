"""Selects the cases of a test that run by default."""

from collections.abc import Collection
from typing import Any

import pytest


def mark_drills(points: Collection[Any], *, default: Collection[Any]) -> list[Any]:
    """Marks all points as drills, which run with --all, except the few that run by default."""
    assert set(default) <= set(points)
    return [
        point if point in default else _make_drill(*(point if isinstance(point, tuple) else (point,)))
        for point in points
    ]


def _make_drill(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.drill)
