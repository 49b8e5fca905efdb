"""JSON schemas of the tools: of arguments, which are Pydantic models, and of results, which are typed dictionaries."""

from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel

SIMPLE_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_from_arguments(arguments: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of a model of arguments, without generated titles and without null for optional fields."""
    schema: dict[str, Any] = arguments.model_json_schema(by_alias=True)
    properties = {name: _simplify(field) for name, field in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _simplify(field: dict[str, Any]) -> dict[str, Any]:
    simple = {name: value for name, value in field.items() if name not in ("title", "anyOf")}
    choices = [choice for choice in field.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        simple = {**choices[0], **simple}
    elif choices:
        simple["anyOf"] = choices
    if simple.get("default", "") is None:
        del simple["default"]
    return simple


def schema_from_type(kind: Any) -> dict[str, Any]:
    """Returns the schema of a type. Results may gain fields, so that other properties are allowed."""
    if kind is Any:
        return {}
    if is_typeddict(kind):
        fields = get_type_hints(kind, include_extras=True)
        return {
            "type": "object",
            "properties": {name: schema_from_type(field) for name, field in fields.items()},
            "required": sorted(kind.__required_keys__),
        }
    if kind in SIMPLE_TYPES:
        return {"type": SIMPLE_TYPES[kind]}
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(parts)}
    if origin in (NotRequired, Required):
        return schema_from_type(parts[0])
    if origin is list:
        return {"type": "array", "items": schema_from_type(parts[0])}
    if origin is dict:
        return {"type": "object"}
    if origin in (UnionType, Union):
        return _merge_choices([schema_from_type(part) for part in parts])
    raise TypeError(f"{kind} has no JSON schema")


def _merge_choices(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns one schema: a list of types if all choices are plain types, which every client understands."""
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}
