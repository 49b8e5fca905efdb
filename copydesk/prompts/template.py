"""A prompt template: text with placeholders such as `{{version}}`, and the fields that fill them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.core.text.display_names import validate_display_name
from copydesk.jobs.job import MAX_PROMPT_CHARS

FIELD_NAME = r"[a-z][a-z0-9_]{0,39}"
PLACEHOLDER_PATTERN = re.compile(rf"\{{\{{[ \t]*({FIELD_NAME})[ \t]*\}}\}}")
"""Matches `{{name}}`. Other text in double braces, such as `{{ page.title }}`, is not a placeholder."""
NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")
RESERVED_NAMES = ("new",)
"""Names that are paths of the dashboard."""
MAX_DESCRIPTION_CHARS = 500
MAX_TEMPLATE_CHARS = 20_000
MAX_FIELDS = 20
MAX_LABEL_CHARS = 100
MAX_VALUE_CHARS = 8_000
MAX_CHOICES = 50
MAX_CHOICE_CHARS = 200


@dataclass(frozen=True)
class TemplateField:
    name: str
    label: str
    required: bool = True
    default: str = ""
    """The value if none is given. A required field with a default is never missing."""
    choices: tuple[str, ...] = ()
    """The values that are allowed; empty if every text is."""
    multiline: bool = False
    """Whether forms offer several lines."""


@dataclass(frozen=True)
class TemplateText:
    """What a person writes: everything of a template except who wrote it and when."""

    name: str
    title: str
    description: str
    prompt: str
    fields: tuple[TemplateField, ...]


def build_template(
    name: str, title: str, description: str, prompt: str, fields: Sequence[TemplateField] | None = None
) -> TemplateText:
    """Validates the parts of a template. InvalidRequest names each invalid one.

    Without `fields`, each placeholder of the prompt becomes a required field."""
    faults = list(_find_text_faults(name, title, description, prompt))
    names = list_placeholders(prompt)
    if fields is None:
        fields = match_fields(prompt, ())
    faults += _find_field_faults(fields, names)
    raise_faults(faults)
    return TemplateText(name, title.strip(), description.strip(), prompt.strip(), tuple(fields))


def list_placeholders(prompt: str) -> list[str]:
    """Returns the names of the placeholders, each once, in the order of their first use."""
    return list(dict.fromkeys(PLACEHOLDER_PATTERN.findall(prompt)))


def match_fields(prompt: str, known: Iterable[TemplateField]) -> list[TemplateField]:
    """Returns a field for each placeholder of the prompt: the known one, or else a required one."""
    known_by_name = {field.name: field for field in known}
    return [
        known_by_name.get(name) or TemplateField(name, name.replace("_", " ").capitalize())
        for name in list_placeholders(prompt)
    ]


def render_prompt(template: TemplateText, values: Mapping[str, str]) -> str:
    """Returns the prompt with the values in place of the placeholders.

    Values are inserted as they are, in one pass: a placeholder in a value stays text. A line whose placeholders are all
    empty is left out. InvalidRequest names each missing, unknown or invalid field."""
    faults = [
        ErrorDetail(name[:60], f"The template {template.name} has no field '{name[:60]}'.")
        for name in values
        if name not in {field.name for field in template.fields}
    ]
    texts = {field.name: values.get(field.name, "").strip() or field.default for field in template.fields}
    for field in template.fields:
        faults += [ErrorDetail(field.name, message) for message in _find_value_faults(field, texts[field.name])]
    raise_faults(faults)
    lines = (_render_line(line, texts) for line in template.prompt.splitlines(keepends=True))
    prompt = "".join(line for line in lines if line is not None).strip()
    if not 1 <= len(prompt) <= MAX_PROMPT_CHARS:
        message = (
            f"The prompt with these values has {len(prompt):,} characters. It must have 1 to {MAX_PROMPT_CHARS:,}."
        )
        raise InvalidRequest(message)
    return prompt


def _render_line(line: str, texts: Mapping[str, str]) -> str | None:
    """Returns None for a line whose placeholders are all empty."""
    names = PLACEHOLDER_PATTERN.findall(line)
    if names and not any(texts[name] for name in names):
        return None
    return PLACEHOLDER_PATTERN.sub(lambda match: texts[match[1]], line)


def _find_value_faults(field: TemplateField, text: str) -> Iterator[str]:
    if not text:
        if field.required:
            yield f"Enter a value for '{field.label}'."
    elif len(text) > MAX_VALUE_CHARS:
        yield f"The value of '{field.label}' has {len(text):,} characters. The limit is {MAX_VALUE_CHARS:,}."
    elif "\0" in text:
        yield f"The value of '{field.label}' contains a NUL character."
    elif field.choices and text not in field.choices:
        yield f"The value of '{field.label}' must be one of: {', '.join(field.choices)}."


def _find_text_faults(name: str, title: str, description: str, prompt: str) -> Iterator[ErrorDetail]:
    if not NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        yield ErrorDetail(
            "name", "A name has 1 to 60 lowercase letters, digits and hyphens, such as update-for-release."
        )
    try:
        validate_display_name(title, "A title")
    except InvalidRequest as error:
        yield ErrorDetail("title", error.message)
    if len(description) > MAX_DESCRIPTION_CHARS or "\0" in description:
        yield ErrorDetail("description", f"A description has at most {MAX_DESCRIPTION_CHARS} characters.")
    if not prompt.strip():
        yield ErrorDetail("prompt", "Enter the text of the prompt.")
    elif len(prompt) > MAX_TEMPLATE_CHARS or "\0" in prompt:
        yield ErrorDetail("prompt", f"The text of a template has at most {MAX_TEMPLATE_CHARS:,} characters.")


def _find_field_faults(fields: Sequence[TemplateField], placeholders: Sequence[str]) -> Iterator[ErrorDetail]:
    names = [field.name for field in fields]
    if len(names) > MAX_FIELDS:
        yield ErrorDetail("fields", f"A template has at most {MAX_FIELDS} fields. This one has {len(names)}.")
        return
    if len(set(names)) < len(names):
        yield ErrorDetail("fields", "Two fields have the same name.")
    for name in placeholders:
        if name not in names:
            yield ErrorDetail("fields", f"The prompt uses {{{{{name}}}}}, which is not a field.")
    for field in fields:
        if field.name not in placeholders:
            yield ErrorDetail("fields", f"The prompt does not use the field {{{{{field.name[:60]}}}}}.")
        yield from (ErrorDetail(field.name[:60], message) for message in _find_definition_faults(field))


def _find_definition_faults(field: TemplateField) -> Iterator[str]:
    name = field.name[:60]
    if not field.label.strip() or len(field.label) > MAX_LABEL_CHARS or not field.label.isprintable():
        yield f"The label of the field {name} must be one line of 1 to {MAX_LABEL_CHARS} characters."
    if len(field.choices) > MAX_CHOICES:
        yield f"The field {name} has {len(field.choices)} choices. The limit is {MAX_CHOICES}."
    if any(not choice.strip() or len(choice) > MAX_CHOICE_CHARS or "\0" in choice for choice in field.choices):
        yield f"A choice of the field {name} must have 1 to {MAX_CHOICE_CHARS} characters."
    if len(field.default) > MAX_VALUE_CHARS or "\0" in field.default:
        yield f"The default of the field {name} has more than {MAX_VALUE_CHARS:,} characters."
    elif field.default and field.choices and field.default not in field.choices:
        yield f"The default of the field {name} must be one of its choices."


def raise_faults(faults: Sequence[ErrorDetail]) -> None:
    if faults:
        raise InvalidRequest(" ".join(fault.message for fault in faults), details=list(faults))


def field_to_json(field: TemplateField) -> dict[str, Any]:
    return {**vars(field), "choices": list(field.choices)}


def field_from_json(values: Mapping[str, Any]) -> TemplateField:
    return TemplateField(**{**values, "choices": tuple(values.get("choices", ()))})
