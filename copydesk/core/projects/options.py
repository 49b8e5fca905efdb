"""The base class of a project's options: named values that a person types, validated one by one."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from copydesk.core.errors import ErrorDetail, InvalidRequest


def _split_commas(value: Any) -> Any:
    """Splits a list that the command line passes as one comma-separated text."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_commas), Field(max_length=50)]


class ProjectOptions(BaseModel):
    """A set of options. The docstring below each field is its help text on the dashboard.

    The dashboard reads the docstrings from the source when it shows them; Pydantic would read them at every start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Returns a copy with these values. Raises InvalidRequest, which names each invalid value."""
        try:
            return self.model_validate({**self.model_dump(), **values})
        except ValidationError as error:
            details = [ErrorDetail(str(fault["loc"][0]), _describe_error(fault["msg"])) for fault in error.errors()]
            raise InvalidRequest("; ".join(f"{d.field}: {d.message}" for d in details), details=details) from None


def _describe_error(message: str) -> str:
    return "unknown setting" if message.startswith("Extra inputs") else message.removeprefix("Value error, ")
