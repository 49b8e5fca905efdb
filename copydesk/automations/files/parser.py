"""Parses automation files: front matter in YAML with the fields of the API, and the prompt below it.

Anyone who can push to the branch writes these files, so everything in them is bounded. This module does no input or
output.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import yaml

from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.service import parse_definition
from copydesk.core.errors import InvalidRequest
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.pages.parsing.yaml_reader import MERGE_TAG, YAML_ERRORS, compose_yaml, load_yaml

MAX_FILE_BYTES = 64 * 1024
MAX_DEPTH = 5
MAX_YAML_EVENTS = 1000
"""All fields with all the values that they can have are about 200."""
MAX_VALUE_CHARS = 1000
MAX_PROBLEMS_PER_FILE = 10
MAX_MESSAGE_CHARS = 400
FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\.md")
FENCE_PATTERN = re.compile(r"^---[ \t]*$", re.M)
STRING_TAG = "tag:yaml.org,2002:str"
FIRST_FIELD_LINE = 2
"""The line of the file that is the first one of the front matter, after the opening fence."""
FILE_FIELDS = tuple(
    field.alias or name for name, field in AutomationDefinition.model_fields.items() if name != "prompt"
)
"""The fields that front matter can have, as the API spells them."""

NO_FRONT_MATTER = (
    "The file has no front matter. Begin it with a line of three hyphens (---), then fields such as "
    "kind: broken_links, then another line of three hyphens."
)
NOT_CLOSED = "The front matter has no end. Add a line of three hyphens (---) after its last field."
NOT_UTF8 = "The file is not UTF-8 text. Save it as UTF-8."
BAD_FILE_NAME = (
    "The name of the file cannot be used. Name it with letters, digits, dots, hyphens and underscores, such as "
    "weekly-links.md."
)
NOT_REGULAR = "This is not a regular file. Symbolic links, folders and submodules are not read."


class FileProblem(NamedTuple):
    """A fault of a file and what to do about it. `line` is None if the fault is not in one line."""

    line: int | None
    message: str


class FileInvalid(Exception):
    """The file is not valid. Its problems are sorted by line; those of no line come last."""

    def __init__(self, *problems: FileProblem) -> None:
        super().__init__(problems[0].message)
        in_order = sorted(problems[:MAX_PROBLEMS_PER_FILE], key=lambda problem: problem.line or MAX_FILE_BYTES)
        self.problems = tuple(FileProblem(line, clean_message(message)) for line, message in in_order)


def parse_automation_file(data: bytes) -> AutomationDefinition:
    """Returns the definition in a file. It is not enabled unless the file says so. Raises FileInvalid."""
    refuse_large_file(len(data))
    text = _decode(data).replace("\r\n", "\n")
    front_matter, body, body_line = _split(text)
    values, lines = _read_fields(front_matter)
    unknown_names = [name for name in values if name not in FILE_FIELDS][:MAX_PROBLEMS_PER_FILE]
    if unknown_names:
        raise FileInvalid(*(_explain_unknown_field(name, lines.get((name,))) for name in unknown_names))
    lines[("prompt",)] = body_line
    try:
        return parse_definition({"enabled": False, **values, "prompt": body})
    except InvalidRequest as error:
        problems = [_locate(detail.field, detail.message, lines) for detail in error.details]
        raise FileInvalid(*problems) from None


def find_unknown_contexts(definition: AutomationDefinition, context_names: Sequence[str]) -> list[FileProblem]:
    """Returns a problem for each context repository that the file names and the project does not have."""
    named = dict.fromkeys([*(definition.context or ()), *definition.watched_names])
    unknown = [name for name in named if name not in context_names]
    known = f"It has {', '.join(context_names)}." if context_names else "It has none."
    return [
        FileProblem(None, f"This project has no context repository named {name}. {known} Add it, or correct the name.")
        for name in unknown
    ]


def refuse_large_file(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise FileInvalid(
            FileProblem(None, f"The file has {size:,} bytes. At most {MAX_FILE_BYTES:,} are allowed; shorten it.")
        )


def clean_message(message: str) -> str:
    """Returns the message as one line without control characters: it may quote the file."""
    printable = "".join(char if char.isprintable() else " " for char in message)
    return truncate(to_single_line(printable), MAX_MESSAGE_CHARS)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileInvalid(FileProblem(data.count(b"\n", 0, error.start) + 1, NOT_UTF8)) from None


def _split(text: str) -> tuple[str, str, int]:
    """Returns the front matter, the text below it, and the line on which that begins."""
    opening = FENCE_PATTERN.match(text)
    if opening is None:
        raise FileInvalid(FileProblem(1, NO_FRONT_MATTER))
    closing = FENCE_PATTERN.search(text, opening.end())
    if closing is None:
        raise FileInvalid(FileProblem(1, NOT_CLOSED))
    front_matter = text[opening.end() + 1 : closing.start()]
    return front_matter, text[closing.end() :], FIRST_FIELD_LINE + front_matter.count("\n") + 1


def _read_fields(text: str) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Returns the fields of the front matter, and the line of each field and nested value by its path."""
    try:
        _refuse_costly_yaml(text)
        node = compose_yaml(text)
        if node is None:
            return {}, {}
        if not isinstance(node, yaml.MappingNode):
            message = "The front matter is not a list of fields. Write one field per line, such as kind: broken_links."
            raise FileInvalid(FileProblem(FIRST_FIELD_LINE, message))
        lines = dict(_check_nodes(node, ()))
        return load_yaml(text), lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + FIRST_FIELD_LINE if error.problem_mark else None
        message = f"The front matter is not valid YAML: {error.problem}. Put text that has special signs in quotes."
        raise FileInvalid(FileProblem(line, message)) from None
    except YAML_ERRORS as error:
        reason = to_single_line(str(error)) or type(error).__name__
        raise FileInvalid(FileProblem(None, f"The front matter cannot be read: {reason}.")) from None


def _refuse_costly_yaml(text: str) -> None:
    """Raises FileInvalid for anchors, aliases, tags, further documents, deep nesting and too many values.

    Reads events, which needs no recursion, and stops at the first fault, before anything is built.
    """
    depth = documents = 0
    for number, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
        line = event.start_mark.line + FIRST_FIELD_LINE
        if getattr(event, "anchor", None):  # an alias has the name of its anchor
            message = "Anchors and aliases (& and *) are not supported. Write the value out, or put it in quotes."
            raise FileInvalid(FileProblem(line, message))
        if getattr(event, "tag", None):
            raise FileInvalid(FileProblem(line, "Tags (!) are not supported. Remove it, or put the value in quotes."))
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise FileInvalid(FileProblem(line, "The front matter has a second document. Remove this line."))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if number > MAX_YAML_EVENTS:
            raise FileInvalid(FileProblem(line, "The front matter has too many fields and values. Remove some."))
        if depth > MAX_DEPTH:
            raise FileInvalid(FileProblem(line, "The front matter is nested too deeply. No field needs this."))


def _check_nodes(node: yaml.Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yields the line of each field and value. Raises FileInvalid for repeated fields and for values of no use."""
    line = node.start_mark.line + FIRST_FIELD_LINE
    if path:
        yield path, line
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _check_nodes(item, (*path, str(number)))
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            yield from _check_key(key, path, names)
            names.add(key.value)
            yield from list(_check_nodes(value, (*path, key.value)))[1:]  # the field's own line is that of its name
    elif len(node.value) > MAX_VALUE_CHARS:
        raise FileInvalid(FileProblem(line, f"A value has more than {MAX_VALUE_CHARS:,} characters. Shorten it."))
    elif not node.value.isprintable():
        raise FileInvalid(FileProblem(line, "A value has a line break or a control character. Write it on one line."))


def _check_key(key: yaml.Node, path: tuple[str, ...], names: set[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    line = key.start_mark.line + FIRST_FIELD_LINE
    if key.tag == MERGE_TAG:
        raise FileInvalid(FileProblem(line, "Merge keys (<<) are not supported. Write the fields out."))
    if not isinstance(key, yaml.ScalarNode) or key.tag != STRING_TAG or len(key.value) > MAX_VALUE_CHARS:
        raise FileInvalid(FileProblem(line, "The name of a field must be a word, such as kind."))
    if key.value in names:
        raise FileInvalid(FileProblem(line, f"The field {'.'.join((*path, key.value))} occurs twice. Remove one."))
    yield (*path, key.value), line


def _explain_unknown_field(name: str, line: int | None) -> FileProblem:
    if name == "prompt":
        return FileProblem(line, "prompt: write the prompt below the front matter, not as a field.")
    close = get_close_matches(name[:60], FILE_FIELDS, n=1, cutoff=0.75)
    advice = f"Did you mean {close[0]}?" if close else f"Fields are {', '.join(FILE_FIELDS)}."
    return FileProblem(line, f"{truncate(name, 60)} is not a field. {advice}")


def _locate(field: str, message: str, lines: Mapping[tuple[str, ...], int]) -> FileProblem:
    """Returns the problem with the line of the field, or of the nearest value that contains it."""
    path = tuple(field.split("."))
    while path and path not in lines:
        path = path[:-1]
    advice = " Write it below the front matter." if field == "prompt" else ""
    return FileProblem(lines.get(path), f"{field}: {message}{advice}")
