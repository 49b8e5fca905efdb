"""Parses HTML forms."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import Request

from copydesk.core.errors import InvalidRequest, WrongMediaType

MAX_FORM_FIELDS = 500


@dataclass(frozen=True)
class FormData:
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Returns the first value of the field, or an empty string."""
        return next((value for field, value in self.fields if field == name), "")

    def get_all(self, name: str) -> list[str]:
        """Returns all values of the field. A group of checkboxes sends one value per ticked box."""
        return [value for field, value in self.fields if field == name]

    def __contains__(self, name: str) -> bool:
        return any(field == name for field, _ in self.fields)


async def read_form(request: Request) -> FormData:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise WrongMediaType("Send this form as application/x-www-form-urlencoded.")
    try:
        text = (await request.body()).decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise InvalidRequest("The form data could not be parsed.") from None
    if any("\0" in value for _, value in fields):
        raise InvalidRequest("The form contains a null character.")
    return FormData(tuple((name, value.replace("\r\n", "\n")) for name, value in fields))
