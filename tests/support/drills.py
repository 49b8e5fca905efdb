"""Selects the cases of a test that do not wait for the drills."""

from collections.abc import Collection
from typing import Any

import pytest


def mark_drills(points: Collection[Any], *, default: Collection[Any]) -> list[Any]:
    """Marks all points as drills except the default ones, of which those on PostgreSQL are in the deep tier."""
    assert set(default) <= set(points)
    return [_mark(point if isinstance(point, tuple) else (point,), is_default=point in default) for point in points]


def _mark(values: tuple[Any, ...], *, is_default: bool) -> Any:
    if not is_default:
        return pytest.param(*values, marks=pytest.mark.drill)
    return pytest.param(*values, marks=pytest.mark.deep if "postgres" in values else ())
