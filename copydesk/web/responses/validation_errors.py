"""Converts validation errors of bodies and parameters into readable messages."""

from collections.abc import Sequence
from typing import Any

from copydesk.core.errors import ErrorDetail, InvalidRequest


def to_invalid_request(errors: Sequence[Any]) -> InvalidRequest:
    """Converts Pydantic's errors. Drops the first part of each location, which only says body, query or header."""
    if any(fault["type"] == "json_invalid" for fault in errors):
        return InvalidRequest("The body is not valid JSON.")
    details = [ErrorDetail(_field_path(fault["loc"]), _describe_error(fault)) for fault in errors]
    first = details[0]
    return InvalidRequest(f"{first.field}: {first.message}" if first.field else first.message, details=details)


def _field_path(location: Sequence[Any]) -> str:
    return ".".join(str(part) for part in location[1:])


def _describe_error(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if error["type"] == "extra_forbidden":
        return "is not a known field."
    if error["type"] == "string_pattern_mismatch":
        return "does not have the required format."
    return message[:1].lower() + message[1:] + "."
