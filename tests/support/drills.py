"""Selects the cases of a test that run by default."""

from collections.abc import Collection
from typing import Any

import pytest


def drills(points: Collection[Any], *, but: Collection[Any]) -> list[Any]:
    """Marks all points as drills, which run with --all, except the few that run by default."""
    assert set(but) <= set(points)
    return [point if point in but else _drill(*(point if isinstance(point, tuple) else (point,))) for point in points]


def _drill(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.drill)
