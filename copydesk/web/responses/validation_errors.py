"""What is wrong with a body or a parameter, in sentences for a person."""

from collections.abc import Sequence
from typing import Any

from copydesk.core.errors import Detail, InvalidRequest


def explained(faults: Sequence[Any]) -> InvalidRequest:
    """From the faults that pydantic found; the first part of each place says only where to look."""
    if any(fault["type"] == "json_invalid" for fault in faults):
        return InvalidRequest("The body is not valid JSON.")
    details = [Detail(_field(fault["loc"]), _sentence(fault)) for fault in faults]
    first = details[0]
    return InvalidRequest(f"{first.field}: {first.message}" if first.field else first.message, details=details)


def _field(place: Sequence[Any]) -> str:
    return ".".join(str(part) for part in place[1:])


def _sentence(fault: Any) -> str:
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if fault["type"] == "extra_forbidden":
        return "is not a known field."
    if fault["type"] == "string_pattern_mismatch":
        return "does not have the right form."
    return message[:1].lower() + message[1:] + "."
