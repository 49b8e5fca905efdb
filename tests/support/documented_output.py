"""Compares real output with the documented one, in which … stands for what is left out."""

import json
import re
from typing import Any


def parse_shortened(text: str) -> Any:
    """Parses JSON of a page in which … at the end of an object or a list stands for further entries."""
    return json.loads(re.sub(r"…(?=\s*\])", '"…"', re.sub(r"…(?=\s*\})", '"…": null', text)))


def find_differences(expected: Any, actual: Any, at: str = "") -> list[str]:
    """Returns the keys of the page's JSON that the real one lacks, and the real ones that the page leaves out."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        shown = {key: value for key, value in expected.items() if key != "…"}
        left_out = [] if "…" in expected else [f"{at}.{key} is left out" for key in actual if key not in shown]
        return left_out + [
            fault
            for key, value in shown.items()
            for fault in (find_differences(value, actual[key], f"{at}.{key}") if key in actual else [f"{at}.{key}"])
        ]
    if isinstance(expected, list) and isinstance(actual, list):
        shown_items = [item for item in expected if item != "…"]
        is_whole = len(shown_items) == len(actual) or ("…" in expected and len(shown_items) < len(actual))
        faults = [] if is_whole else [f"{at} has {len(actual)} items"]
        pairs = zip(shown_items, actual, strict=False)
        return faults + [fault for n, pair in enumerate(pairs) for fault in find_differences(*pair, f"{at}[{n}]")]
    return [at] if isinstance(expected, dict | list) else []


def matches_shortened(expected: list[str], actual: list[str]) -> bool:
    """Returns whether these are the actual lines, where a line with … stands for any number of lines."""
    if not expected:
        return not actual
    if expected[0] == "…":
        return any(matches_shortened(expected[1:], actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and matches_shortened(expected[1:], actual[1:])


def stable_lines(text: str) -> list[str]:
    """Returns lines without varying parts: addresses, times, ids, hashes, numbers of events."""
    for pattern in (
        r"http://\S+",
        r"\b\d{4}-\d\d-\d\dT[\d:.]+Z",
        r"\b\d\d:\d\d:\d\d\b",
        r"\bjob_\w{26}",
        r"\b[0-9a-f]{12,40}\b",
        r"(?<=^id: )\d+",
    ):
        text = re.sub(pattern, "•", text, flags=re.M)
    return [line for line in text.splitlines() if line.strip()]
