"""Checks requests and responses of a fake against the forge's published schema."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

JSON_TYPE_NAMES = ("str", "int", "bool", "float", "none")


@dataclass(frozen=True)
class Operation:
    """One published call: its query and body, its response, and its errors by status."""

    line: str
    """`METHOD /path` as published, with the names of the path's parameters in braces."""
    query: type[BaseModel]
    body: Any = None
    answer: Any = None
    errors: Mapping[int, Any] = field(default_factory=dict)
    open_models: bool = True
    """Whether models may really have extra fields; some generators allow them in every model."""
    complete_models: Mapping[type[BaseModel], frozenset[str]] = field(default_factory=dict)
    """Models of which a forge sends all fields except these, where the schema makes every field optional."""

    def check_query(self, query: Mapping[str, object]) -> "Problems":
        return find_problems(self.query, query, strict=False)

    def check_body(self, body: object) -> "Problems":
        if self.body is None:
            return Problems(unknown=[] if body is None else ["a body"])
        return find_problems(self.body, {} if body is None else body, open_models=self.open_models)

    def check_response(self, status: int, data: object) -> "Problems":
        described = self.answer if status < 300 else self.errors.get(status, self.errors.get(400))
        if described is None:
            return Problems(wrong=[] if data is None else [f"nothing is described for {status}"])
        return find_problems(described, data, open_models=self.open_models, complete_models=self.complete_models)


@dataclass
class Problems:
    """The forge rejects `wrong` fields; it ignores `unknown` ones, which are probably a mistake of the caller."""

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.wrong, *(f"{name}: not described" for name in self.unknown)])


def find_problems(
    described: Any,
    data: object,
    *,
    strict: bool = True,
    open_models: bool = True,
    complete_models: Mapping[type[BaseModel], frozenset[str]] | None = None,
) -> Problems:
    """Finds problems. Strict: a number in quotes is not a number. Queries are text, so they are parsed leniently."""
    text = json.dumps(data)
    try:
        value = _get_adapter(described).validate_json(text, strict=strict)
    except ValidationError as error:
        wrong = [one for one in error.errors() if not _is_ignorable(one)]
        if wrong:
            return Problems(wrong=[f"{_format_location(one['loc'])}: {one['msg']}" for one in wrong])
        value = _get_adapter(described).validate_json(text)
    lacking = [
        f"{at}{name}: always sent"
        for at, one in _walk_models(value, "")
        for name in _find_missing_fields(one, complete_models or {})
    ]
    return Problems(wrong=lacking, unknown=list(_find_unknown_fields(data, value, open_models, "")))


def build_query_model(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    """Builds a model of a query from name → (type, default)."""
    safe: dict[str, Any] = {key: value for key, value in fields.items() if key.isidentifier()}
    return create_model(name, __config__=ConfigDict(arbitrary_types_allowed=True), **safe)


def _find_unknown_fields(data: object, parsed: object, open_models: bool, at: str) -> Iterator[str]:
    if isinstance(parsed, BaseModel) and isinstance(data, dict):
        names = {(one.alias or name): name for name, one in type(parsed).model_fields.items()}
        closed = not (open_models and parsed.model_config.get("extra") == "allow")
        for key, value in data.items():
            if key in names:
                yield from _find_unknown_fields(value, getattr(parsed, names[key]), open_models, f"{at}{key}.")
            elif closed:
                yield f"{at}{key}"
    elif isinstance(parsed, list) and isinstance(data, list):
        for index, (value, one) in enumerate(zip(data, parsed, strict=True)):
            yield from _find_unknown_fields(value, one, open_models, f"{at}{index}.")


def _walk_models(parsed: object, at: str) -> Iterator[tuple[str, BaseModel]]:
    if isinstance(parsed, BaseModel):
        yield at, parsed
        for name in type(parsed).model_fields:
            yield from _walk_models(getattr(parsed, name), f"{at}{name}.")
    elif isinstance(parsed, list):
        for index, one in enumerate(parsed):
            yield from _walk_models(one, f"{at}{index}.")


def _find_missing_fields(model: BaseModel, complete_models: Mapping[type[BaseModel], frozenset[str]]) -> set[str]:
    optional = complete_models.get(type(model))
    return set() if optional is None else set(type(model).model_fields) - model.model_fields_set - optional


def _is_ignorable(problem: ErrorDetails) -> bool:
    """Returns whether to ignore a problem: generated models try "unset" first, and some reject times that are text."""
    if problem["type"] == "datetime_type" and isinstance(problem["input"], str):
        return datetime.fromisoformat(problem["input"]).tzinfo is not None
    return "UNSET" in problem["msg"]


def _format_location(loc: tuple[int | str, ...]) -> str:
    """Formats the field of a problem, without the alternatives that a generated model tries in turn."""
    parts = [str(one) for one in loc]
    return ".".join(one for one in parts if one.isdigit() or (one.isidentifier() and one not in JSON_TYPE_NAMES))


@cache
def _get_adapter(described: Any) -> TypeAdapter[Any]:
    return TypeAdapter(described)
