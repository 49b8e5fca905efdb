"""Checks requests and responses of a fake against the forge's published schema."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

TYPES = ("str", "int", "bool", "float", "none")


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
    whole: Mapping[type[BaseModel], frozenset[str]] = field(default_factory=dict)
    """Models of which a forge sends all fields except these, where the schema makes every field optional."""

    def wrong_query(self, query: Mapping[str, object]) -> "Problems":
        return check(self.query, query, strict=False)

    def wrong_body(self, body: object) -> "Problems":
        if self.body is None:
            return Problems(unknown=[] if body is None else ["a body"])
        return check(self.body, {} if body is None else body, open_models=self.open_models)

    def wrong_answer(self, status: int, data: object) -> "Problems":
        described = self.answer if status < 300 else self.errors.get(status, self.errors.get(400))
        if described is None:
            return Problems(wrong=[] if data is None else [f"nothing is described for {status}"])
        return check(described, data, open_models=self.open_models, whole=self.whole)


@dataclass
class Problems:
    """The forge rejects `wrong` fields; it ignores `unknown` ones, which are probably a mistake of the caller."""

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.wrong, *(f"{name}: not described" for name in self.unknown)])


def check(
    described: Any,
    data: object,
    *,
    strict: bool = True,
    open_models: bool = True,
    whole: Mapping[type[BaseModel], frozenset[str]] | None = None,
) -> Problems:
    """Finds problems. Strict: a number in quotes is not a number. Queries are text, so they are parsed leniently."""
    text = json.dumps(data)
    try:
        found = _adapter(described).validate_json(text, strict=strict)
    except ValidationError as error:
        wrong = [one for one in error.errors() if not _no_matter(one)]
        if wrong:
            return Problems(wrong=[f"{_place(one['loc'])}: {one['msg']}" for one in wrong])
        found = _adapter(described).validate_json(text)
    lacking = [f"{at}{name}: always sent" for at, one in _models(found, "") for name in _lacking(one, whole or {})]
    return Problems(wrong=lacking, unknown=list(_unknown(data, found, open_models, "")))


def parameters(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    """Builds a model of a query from name → (type, default)."""
    safe: dict[str, Any] = {key: value for key, value in fields.items() if key.isidentifier()}
    return create_model(name, __config__=ConfigDict(arbitrary_types_allowed=True), **safe)


def _unknown(data: object, found: object, open_models: bool, at: str) -> Iterator[str]:
    if isinstance(found, BaseModel) and isinstance(data, dict):
        names = {(one.alias or name): name for name, one in type(found).model_fields.items()}
        closed = not (open_models and found.model_config.get("extra") == "allow")
        for key, value in data.items():
            if key in names:
                yield from _unknown(value, getattr(found, names[key]), open_models, f"{at}{key}.")
            elif closed:
                yield f"{at}{key}"
    elif isinstance(found, list) and isinstance(data, list):
        for index, (value, one) in enumerate(zip(data, found, strict=True)):
            yield from _unknown(value, one, open_models, f"{at}{index}.")


def _models(found: object, at: str) -> Iterator[tuple[str, BaseModel]]:
    if isinstance(found, BaseModel):
        yield at, found
        for name in type(found).model_fields:
            yield from _models(getattr(found, name), f"{at}{name}.")
    elif isinstance(found, list):
        for index, one in enumerate(found):
            yield from _models(one, f"{at}{index}.")


def _lacking(model: BaseModel, whole: Mapping[type[BaseModel], frozenset[str]]) -> set[str]:
    optional = whole.get(type(model))
    return set() if optional is None else set(type(model).model_fields) - model.model_fields_set - optional


def _no_matter(problem: ErrorDetails) -> bool:
    """Returns whether to ignore a problem: generated models try "unset" first, and some reject times that are text."""
    if problem["type"] == "datetime_type" and isinstance(problem["input"], str):
        return datetime.fromisoformat(problem["input"]).tzinfo is not None
    return "UNSET" in problem["msg"]


def _place(loc: tuple[int | str, ...]) -> str:
    """Formats the field of a problem, without the alternatives that a generated model tries in turn."""
    parts = [str(one) for one in loc]
    return ".".join(one for one in parts if one.isdigit() or (one.isidentifier() and one not in TYPES))


@cache
def _adapter(described: Any) -> TypeAdapter[Any]:
    return TypeAdapter(described)
