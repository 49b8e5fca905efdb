"""Collects the settings in code blocks of YAML, JSON, TOML and INI: the keys that the product must know.

Names that a reader chooses and keys of other programs' files are left out as far as their place shows it.
"""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

from copydesk.jobs.checks.names.claimed_names import MAX_LINE_CHARS, ClaimedName, NameKind, is_name
from copydesk.jobs.pages.parsing.code_blocks import CodeBlock, list_code_blocks

NAME_PATTERN = re.compile(r"[a-z][A-Za-z0-9]*(?:[_.-]?[A-Za-z0-9]+)*")
MIN_NAME_CHARS = 3
MAX_DEPTH = 30
"""Keys of JSON that are nested deeper count as keys of this depth."""
FREE_KEYS = frozenset(
    (
        "aliases", "annotations", "args", "arguments", "attributes", "body", "build-args", "build_args", "context",
        "data", "defs", "env", "environment", "env_vars", "example", "examples", "extra", "fields", "headers", "inputs",
        "kwargs", "labels", "mapping", "mappings", "metadata", "outputs", "parameters", "params", "payload",
        "properties", "props", "query", "response", "result", "results", "secrets", "tags", "values", "variables",
        "vars", "with", "dependencies", "devDependencies", "optional-dependencies", "scripts",
    )
)  # fmt: skip
"""Keys below which everything is chosen by the reader or is data."""


class ForeignFormat(NamedTuple):
    """A format of another program: a block has it if all keys are at its top, and one of `inside` is anywhere."""

    top: frozenset[str]
    inside: frozenset[str] = frozenset()


def _foreign(top: str, inside: str = "") -> ForeignFormat:
    return ForeignFormat(frozenset(top.split()), frozenset(inside.split()))


FOREIGN_FORMATS = (
    _foreign("apiVersion kind"),  # Kubernetes
    _foreign("services", "image build"),  # Docker Compose
    _foreign("on jobs"),  # GitHub Actions, with the parts of a workflow that pages show
    _foreign("jobs", "runs-on steps"),
    _foreign("steps", "uses run"),
    _foreign("uses"),
    _foreign("stages", "script"),  # GitLab CI
    _foreign("", "before_script after_script"),
    _foreign("repos", "hooks rev"),  # pre-commit
    _foreign("updates", "package-ecosystem"),  # Dependabot
    _foreign("hosts tasks"),  # Ansible
    _foreign("openapi"),
    _foreign("swagger"),
    _foreign("asyncapi"),
    _foreign("AWSTemplateFormatVersion"),
    _foreign("Resources", "Type"),
    _foreign("compilerOptions"),  # TypeScript
    _foreign("devDependencies"),  # npm
    _foreign("dependencies"),
    _foreign("scripts"),
    _foreign("mcpServers"),
    _foreign("build-system"),  # Python
    _foreign("project", "requires-python dependencies"),
    _foreign("package", "edition"),  # Cargo
    _foreign("Service", "ExecStart"),  # systemd
    _foreign("Unit"),
)
FOREIGN_FILE_PATTERN = re.compile(
    r"compose[\w.-]*\.ya?ml|\.github/|\.gitlab-ci|\.pre-commit-config|\.vscode/|\b(?:package|tsconfig[\w.-]*|composer"
    r"|launch|tasks)\.json|\b(?:Cargo|Chart)\.(?:toml|yaml)|\.circleci/|\b(?:pubspec|buf)\.yaml|\bvercel\.json"
)
YAML_KEY_PATTERN = re.compile(
    r"(?P<lead>[ \t]*(?:- +)*)(?P<quote>[\"']?)(?P<key>[\w$.@/-]+)(?P=quote)[ \t]*:(?:[ \t]+(?P<value>.*))?"
)
YAML_SCALAR_PATTERN = re.compile(r"(?:[!&]\S+[ \t]+)*[|>][+-]?\d?[+-]?[ \t]*(?:#.*)?")
FLOW_KEY_PATTERN = re.compile(r"[{,][ \t]*[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?[ \t]*[:=]")
STRING_PATTERN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
JSON_TOKEN_PATTERN = re.compile(
    r"(?P<key>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_$][\w$]*)(?P<colon>\s*:)?|(?P<mark>[{}\[\]])"
    r"|//[^\n]*|/\*.*?\*/|(?P<newline>\n)",
    re.S,
)
OBJECT_START_PATTERN = re.compile(r"\s*\{")
TABLE_PATTERN = re.compile(r"[ \t]*\[{1,2}[ \t]*([\w\"'. -]+?)[ \t]*\]{1,2}[ \t]*(?:[#;].*)?")
ASSIGNMENT_PATTERN = re.compile(r"[ \t]*[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?[ \t]*=[ \t]*(?!=)(?P<value>.*)")
PROPERTY_PATTERN = re.compile(r"[ \t]*(?P<key>[A-Za-z_][\w.-]*)[ \t]*[=:][ \t]*(?!=).*")


class BlockKey(NamedTuple):
    line: int
    name: str
    parents: tuple[str, ...]
    has_children: bool = False


def collect_block_settings(path: str, body: str, added_lines: Set[int]) -> Iterator[ClaimedName]:
    """Yields the settings in these lines of the page's code blocks, in order."""
    for block in list_code_blocks(path, body):
        read = READERS.get(block.language)
        if read is None or not any(number in added_lines for number, _ in block.lines):
            continue
        if any(len(text) > MAX_LINE_CHARS for _, text in block.lines):
            continue
        for key in _list_own_keys(block, list(read(block.lines))):
            if key.line in added_lines and _is_setting(key):
                yield ClaimedName(NameKind.SETTING, key.name, path, key.line)


def _list_own_keys(block: CodeBlock, keys: list[BlockKey]) -> list[BlockKey]:
    """Returns the keys of a block that are no part of another program's format."""
    tool_keys = [key for key in keys if key.parents[:1] == ("tool",)]  # of pyproject.toml
    if tool_keys:
        return tool_keys
    first_line = next((text for _, text in block.lines if text.strip()), "")
    comment = first_line if first_line.lstrip().startswith(("#", "//")) else ""
    if FOREIGN_FILE_PATTERN.search(f"{block.opening} {comment}"):
        return []
    top = {key.name for key in keys if not key.parents}
    top |= {key.parents[0] for key in keys if key.parents}
    names = {key.name for key in keys}
    is_foreign = any(each.top <= top and (not each.inside or each.inside & names) for each in FOREIGN_FORMATS)
    return [] if is_foreign else keys


def _is_setting(key: BlockKey) -> bool:
    """Returns whether the product must know a key. A section of a collection has a name that the reader chooses."""
    if (
        len(key.name) < MIN_NAME_CHARS
        or not NAME_PATTERN.fullmatch(key.name)
        or not is_name(NameKind.SETTING, key.name)
    ):
        return False
    if not FREE_KEYS.isdisjoint(key.parents):
        return False
    return not (key.has_children and key.parents and key.parents[-1].endswith("s"))


Lines = Sequence[tuple[int, str]]


def _read_yaml(lines: Lines) -> Iterator[BlockKey]:
    parents: list[tuple[int, str]] = []
    scalar_indent: int | None = None
    for index, (number, text) in enumerate(lines):
        indent = len(text) - len(text.lstrip())
        if not text.strip() or (scalar_indent is not None and indent > scalar_indent):
            continue
        scalar_indent = None
        match = YAML_KEY_PATTERN.fullmatch(text)
        if match is None:
            continue
        column = len(match["lead"])
        while parents and parents[-1][0] >= column:
            parents.pop()
        names = tuple(name for _, name in parents)
        value = (match["value"] or "").strip()
        if YAML_SCALAR_PATTERN.fullmatch(value):
            scalar_indent = indent
        has_children = value.startswith("{") or (_is_empty(value) and _find_next_indent(lines, index) > column)
        yield BlockKey(number, match["key"], names, has_children)
        parents.append((column, match["key"]))
        if value.startswith(("{", "[")):
            yield from _read_flow(number, value, (*names, match["key"]))


def _is_empty(value: str) -> bool:
    return not value or value.startswith(("#", "&", "!"))


def _find_next_indent(lines: Lines, index: int) -> int:
    """Returns the indent of the next line with a key; that of a list's entry is none, since a list has no keys."""
    for following in range(index + 1, len(lines)):
        text = lines[following][1]
        if text.strip() and not text.lstrip().startswith("#"):
            return -1 if text.lstrip().startswith("-") else len(text) - len(text.lstrip())
    return -1


def _read_flow(number: int, value: str, parents: tuple[str, ...]) -> Iterator[BlockKey]:
    plain = STRING_PATTERN.sub(lambda match: match.group() if ":" not in match.group() else '""', value)
    for match in FLOW_KEY_PATTERN.finditer(plain):
        yield BlockKey(number, match["key"], parents)


def _read_json(lines: Lines) -> Iterator[BlockKey]:
    text = "\n".join(text for _, text in lines)
    index = 0
    position = 0
    path: list[str] = []
    last_key = ""
    for match in JSON_TOKEN_PATTERN.finditer(text):
        index += text.count("\n", position, match.start())
        position = match.start()
        if match["mark"] in ("{", "["):
            path.append(last_key)
            last_key = ""
        elif match["mark"]:
            del path[-1:]
        elif match["colon"]:
            last_key = match["key"].strip("\"'")
            has_children = OBJECT_START_PATTERN.match(text, match.end()) is not None
            yield BlockKey(lines[index][0], last_key, tuple(filter(None, path[:MAX_DEPTH])), has_children)


def _read_toml(lines: Lines) -> Iterator[BlockKey]:
    table: tuple[str, ...] = ()
    closer = ""
    for number, text in lines:
        if closer:
            closer = "" if closer in text else closer
        elif match := TABLE_PATTERN.fullmatch(text):
            table = tuple(name.strip("\"' ") for name in match[1].split("."))
            yield from (BlockKey(number, name, table[:index], True) for index, name in enumerate(table))
        elif match := ASSIGNMENT_PATTERN.fullmatch(text):
            *outer, name = match["key"].split(".")
            yield from (BlockKey(number, each, (*table, *outer[:i]), True) for i, each in enumerate(outer))
            value = match["value"]
            yield BlockKey(number, name, (*table, *outer), value.startswith("{"))
            closer = next((mark for mark in ('"""', "'''") if value.count(mark) == 1), "")
            if value.startswith(("{", "[")):
                yield from _read_flow(number, value, (*table, *outer, name))


def _read_ini(lines: Lines) -> Iterator[BlockKey]:
    """Yields the keys. The names of sections are parents alone, since readers choose many of them."""
    section: tuple[str, ...] = ()
    for number, text in lines:
        if match := TABLE_PATTERN.fullmatch(text):
            section = (match[1],)
        elif match := PROPERTY_PATTERN.fullmatch(text):
            yield BlockKey(number, match["key"], section)


READERS: dict[str, Callable[[Lines], Iterator[BlockKey]]] = {
    **dict.fromkeys(("yaml", "yml"), _read_yaml),
    **dict.fromkeys(("json", "jsonc", "json5"), _read_json),
    "toml": _read_toml,
    **dict.fromkeys(("ini", "properties", "cfg"), _read_ini),
}
