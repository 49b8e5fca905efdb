"""The base class of a project's options: named values that a person types, validated one by one."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

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
    former_names: ClassVar[Mapping[str, str]] = {}
    """The former name of each option that was renamed. It is accepted as input, and the database stores it."""

    @model_validator(mode="before")
    @classmethod
    def _accept_former_names(cls, values: Any) -> Any:
        return cls.use_current_names(values) if isinstance(values, Mapping) else values

    @classmethod
    def use_current_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values with the current names of their options."""
        current_names = {former: current for current, former in cls.former_names.items()}
        return {current_names.get(name, name): value for name, value in values.items()}

    @classmethod
    def has_option(cls, name: str) -> bool:
        """Returns whether there is an option of this name or former name."""
        return name in cls.model_fields or name in cls.former_names.values()

    def to_stored(self) -> dict[str, Any]:
        """Returns the options as the database stores them, which older versions can read too."""
        values = self.model_dump(mode="json")
        return {self.former_names.get(name, name): value for name, value in values.items()}

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Returns a copy with these values. Raises InvalidRequest, which names each invalid value."""
        try:
            return self.model_validate({**self.model_dump(), **self.use_current_names(values)})
        except ValidationError as error:
            details = [ErrorDetail(str(fault["loc"][0]), _describe_error(fault["msg"])) for fault in error.errors()]
            raise InvalidRequest("; ".join(f"{d.field}: {d.message}" for d in details), details=details) from None


def _describe_error(message: str) -> str:
    return "unknown setting" if message.startswith("Extra inputs") else message.removeprefix("Value error, ")
