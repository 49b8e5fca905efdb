"""Cursors of lists: the position of the last row, as opaque text."""

import base64
import json
from typing import Any

from copydesk.core.errors import ErrorDetail, InvalidRequest


class InvalidCursor(InvalidRequest):
    message = "cursor: must be `nextCursor` of the previous page."

    def __init__(self) -> None:
        super().__init__(details=[ErrorDetail("cursor", "must be `nextCursor` of the previous page.")])


def encode_cursor(number: int, text: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([number, text]).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[int, str]:
    """Returns the number and the text. Raises InvalidCursor for anything that `encode_cursor` did not return."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        value: Any = json.loads(base64.b64decode(padded, altchars="-_", validate=True))
        match value:
            case [int(number), str(text)] if abs(number) < 1 << 62 and b"\x00" not in text.encode():
                return number, text
    except (ValueError, RecursionError):  # also the UnicodeEncodeError of a lone surrogate
        pass
    raise InvalidCursor
