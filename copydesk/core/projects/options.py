"""What a project chooses: named values that a person types, checked one by one."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from copydesk.core.errors import ErrorDetail, InvalidRequest


def _split_commas(value: Any) -> Any:
    """A command line gives a list as one text, with commas between."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_commas), Field(max_length=50)]


class ProjectOptions(BaseModel):
    """The docstring below a field is its help on the dashboard, which reads it there: Pydantic would at every start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """The same with these values; InvalidRequest names each that is wrong."""
        try:
            return self.model_validate({**self.model_dump(), **values})
        except ValidationError as error:
            details = [ErrorDetail(str(fault["loc"][0]), _describe_error(fault["msg"])) for fault in error.errors()]
            raise InvalidRequest("; ".join(f"{d.field}: {d.message}" for d in details), details=details) from None


def _describe_error(message: str) -> str:
    return "there is no such setting" if message.startswith("Extra inputs") else message.removeprefix("Value error, ")
