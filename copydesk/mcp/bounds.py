"""Limits the size of results, so that one answer does not fill a model's context. What was cut is named."""

import json
from typing import Any

from copydesk.core.text.plurals import pluralize

MAX_RESULT_CHARS = 60_000
LIMITS = ((8_000, 250), (2_000, 100), (500, 40), (200, 15), (100, 5))
"""The longest string and the longest list, tried in order until the result fits."""


def bound_result(result: dict[str, Any]) -> dict[str, Any]:
    """Returns the result with long strings and lists cut. `truncated` then names each place and what it had."""
    for max_string, max_list in LIMITS:
        notes: list[str] = []
        bounded: dict[str, Any] = _bound(result, max_string, max_list, "", notes)
        if notes:
            bounded["truncated"] = [*result.get("truncated", ()), *_shorten_notes(notes)]
        if len(to_json(bounded)) <= MAX_RESULT_CHARS:
            break
    return bounded


def cut_text(text: str, offset: int, max_chars: int) -> tuple[str, int | None]:
    """Returns a part of the text that ends with a whole line if it can, and the offset of the next part, or None."""
    part = text[offset : offset + max_chars]
    if offset + len(part) >= len(text):
        return part, None
    whole_lines = part.rfind("\n") + 1
    part = part[:whole_lines] if whole_lines else part
    return part, offset + len(part)


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bound(value: Any, max_string: int, max_list: int, place: str, notes: list[str]) -> Any:
    if isinstance(value, str) and len(value) > max_string:
        notes.append(f"{place}: the first {max_string} of {len(value)} characters")
        return value[:max_string] + "…"
    if isinstance(value, list):
        if len(value) > max_list:
            notes.append(f"{place}: the first {max_list} of {len(value)} entries")
        return [_bound(each, max_string, max_list, f"{place}[{n}]", notes) for n, each in enumerate(value[:max_list])]
    if isinstance(value, dict):
        return {
            name: _bound(each, max_string, max_list, f"{place}.{name}" if place else name, notes)
            for name, each in value.items()
        }
    return value


def _shorten_notes(notes: list[str]) -> list[str]:
    most = 20
    return notes if len(notes) <= most else [*notes[:most], f"and {pluralize(len(notes) - most, 'more place')}"]
