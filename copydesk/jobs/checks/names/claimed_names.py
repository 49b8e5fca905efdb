"""Collects the names that a page claims to exist: flags, environment variables, endpoints, settings and packages.

Only code counts, in the text or in blocks. Prose has too many words that only look like names.
"""

import re
from collections.abc import Iterator, Set
from enum import StrEnum
from typing import NamedTuple

from copydesk.jobs.checks.names.packages import find_packages
from copydesk.jobs.pages.lines import split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.front_matter import find_body_start
from copydesk.jobs.pages.parsing.prose import find_code_lines, mask_non_prose

MAX_LINE_CHARS = 2000
"""Longer lines hold data, such as an image in base64."""
MAX_NAME_CHARS = 100


class NameKind(StrEnum):
    FLAG = "flag"
    VARIABLE = "environment variable"
    ENDPOINT = "endpoint"
    SETTING = "setting"
    PACKAGE = "package"


class ClaimedName(NamedTuple):
    kind: NameKind
    name: str
    path: str
    line: int

    @property
    def display_name(self) -> str:
        return display_name(self.kind, self.name)


def display_name(kind: NameKind, name: str) -> str:
    return f"--{name}" if kind is NameKind.FLAG else name


FLAG_PATTERN = re.compile(r"(?<![\w./-])--(?P<name>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-])")
VARIABLE_PATTERN = re.compile(r"(?<![\w.{<%-])(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w>}%-])")
ENDPOINT_PATTERN = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) (?P<name>/[A-Za-z0-9_{}<>:./-]{2,200})")
SETTING_PATTERN = re.compile(
    r"(?<![\w$@#%./:\\-])"
    r"(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+|[a-z][\w-]*(?:\.[A-Za-z][\w-]*)+)"
    r"(?![\w@/\\-]|\.\w|\()"
)
COMMAND_START_PATTERN = re.compile(r"[|;&(]")
PROMPT_PATTERN = re.compile(r"[$%>#]|sudo|\w+=.*")
"""Words before the program of a command."""
OTHER_PROGRAM_PATTERN = re.compile(
    r"apk|apt|apt-get|awk|aws|az|bash|brew|bun|bundle|cargo|chmod|choco|cmake|conda|cp|curl|deno"
    r"|dnf|docker|docker-compose|dotnet|echo|find|gcloud|gem|gh|git|go|gradle|grep|gunicorn|hatch"
    r"|helm|java|jq|kubectl|ls|make|mkdir|mvn|mypy|nginx|node|npm|npx|openssl|pacman|pip|pip3"
    r"|pipenv|pipx|pnpm|podman|poetry|powershell|psql|pytest|python|python3|rm|rsync|ruff|rustup"
    r"|scoop|scp|sed|sh|snap|ssh|systemctl|tar|terraform|tox|unzip|uvicorn|wget|winget|xargs|yarn"
    r"|yum|zsh"
)
"""Programs whose flags are their own."""
PATTERNS = {
    NameKind.FLAG: FLAG_PATTERN,
    NameKind.VARIABLE: VARIABLE_PATTERN,
    NameKind.ENDPOINT: ENDPOINT_PATTERN,
    NameKind.SETTING: SETTING_PATTERN,
}
BLOCK_KINDS = (NameKind.FLAG, NameKind.VARIABLE, NameKind.ENDPOINT, NameKind.PACKAGE)
"""The kinds that count in blocks. Other names there may be the example's own."""
FILE_NAME_PATTERN = re.compile(
    r"\.(?:bat|c|cfg|cjs|cmd|conf|cpp|cs|css|csv|dll|env|exe|fish|gif|git|go|gz|h|html?|ini|ipynb|java|jpe?g|js|json[5c]?"
    r"|jsx|key|kt|lock|log|map|mdx?|mjs|pdf|pem|php|png|proto|ps1|pub|py|pyi|rb|rs|rst|sh|sql|sqlite|svelte|svg|swift"
    r"|tar|tf|toml|tsx?|txt|vue|wasm|whl|xml|ya?ml|zip|zsh|com|org|io|dev|net|local|internal|example|test)$"
)
RST_LABEL_PATTERN = re.compile(r"^\s*\.\. _.*|:(?:doc|download|numref|ref|term|any)(?::[\w-]+)?:`[^`\n]*`")
"""Labels and links between pages of reStructuredText, which are no names of the product."""
PLACEHOLDER_PATTERN = re.compile(r"(?:^|[_.-])(?:my|your|foo|bar|baz|example|some|xxx+)(?:[_.-]|$)|^(?:my|your)[A-Z]")


class CodeLine(NamedTuple):
    number: int
    text: str
    """The line with spaces in place of everything that is not code."""
    is_in_block: bool


def collect_names(path: str, body: str, added_lines: Set[int]) -> Iterator[ClaimedName]:
    """Yields the names in these lines of a page, in order."""
    for line in list_code_lines(path, body, added_lines):
        kinds = BLOCK_KINDS if line.is_in_block else NameKind
        found = ((kind, name) for kind in kinds for name in find_names(kind, line.text))
        yield from (ClaimedName(kind, name, path, line.number) for kind, name in found)


def list_code_lines(path: str, body: str, only: Set[int] | None = None) -> Iterator[CodeLine]:
    """Yields the lines of a page that have code, in the text or in blocks; with `only`, those of these numbers."""
    prose = mask_non_prose(path, body)
    block_lines = find_code_lines(path, body)
    body_start = find_body_start(body) if extension(path) in MARKDOWN_EXTENSIONS else 0
    for line in split_lines(body):
        if only is not None and line.number not in only:
            continue
        if line.start < body_start or len(line.text) > MAX_LINE_CHARS:
            continue
        code = "".join(
            char if masked == " " else " " for char, masked in zip(line.text, prose[line.start : line.end], strict=True)
        )
        if extension(path) == ".rst":
            code = RST_LABEL_PATTERN.sub(" ", code)
        code = code.replace("`", " ")
        if code.strip():
            yield CodeLine(line.number, code, line.number in block_lines)


def find_names(kind: NameKind, text: str) -> Iterator[str]:
    """Yields the names of one kind in a text, without placeholders and file names."""
    if kind is NameKind.PACKAGE:
        lines = text.split("\n")
        yield from (name for line in lines for name in find_packages(line) if is_name(kind, name))
        return
    for match in PATTERNS[kind].finditer(text):
        name = match["name"]
        if not is_name(kind, name):
            continue
        if kind is not NameKind.FLAG or not _belongs_to_other_program(text, match.start()):
            yield name


def _belongs_to_other_program(text: str, position: int) -> bool:
    """Returns whether the command up to this position runs a program whose flags are not the product's."""
    line_start = max(text.rfind("\n", 0, position) + 1, position - MAX_LINE_CHARS)
    words = COMMAND_START_PATTERN.split(text[line_start:position])[-1].split()
    program = next((word for word in words if not PROMPT_PATTERN.fullmatch(word)), "")
    return OTHER_PROGRAM_PATTERN.fullmatch(program.rpartition("/")[2]) is not None


def is_name(kind: NameKind, name: str) -> bool:
    if len(name) > MAX_NAME_CHARS or PLACEHOLDER_PATTERN.search(name.lower() if kind is not NameKind.SETTING else name):
        return False
    return kind is not NameKind.SETTING or FILE_NAME_PATTERN.search(name) is None
