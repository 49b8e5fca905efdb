"""Collects the names that a page claims to exist: flags, environment variables, endpoints, settings and packages.

Only code counts, in the text or in blocks. Prose has too many words that only look like names.
"""

import re
from collections.abc import Iterator, Set
from enum import StrEnum
from typing import NamedTuple

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
    line: int


FLAG_PATTERN = re.compile(r"(?<![\w./-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-])")
VARIABLE_PATTERN = re.compile(r"(?<![\w.{<%-])([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w>}%-])")
ENDPOINT_PATTERN = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) (/[A-Za-z0-9_{}<>:./-]{2,200})")
SETTING_PATTERN = re.compile(
    r"(?<![\w$@#%./:\\-])"
    r"([a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+|[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+)"
    r"(?![\w@/\\-]|\.\w|\()"
)
PACKAGE_PATTERN = re.compile(
    r"\b(?:pip3? install|uv add|uv pip install|poetry add|npm (?:install|i)|pnpm add|yarn add|cargo (?:add|install)|gem install"
    r"|go get) ((?:-{1,2}[\w-]+ )*)([@A-Za-z][\w@/.-]*)"
)
FILE_NAME_PATTERN = re.compile(
    r"\.(?:bat|c|cfg|cjs|cmd|conf|cpp|cs|css|csv|dll|env|exe|fish|gif|git|go|gz|h|html?|ini|ipynb|java|jpe?g|js|json[5c]?"
    r"|jsx|key|kt|lock|log|map|mdx?|mjs|pdf|pem|php|png|proto|ps1|pub|py|pyi|rb|rs|rst|sh|sql|sqlite|svelte|svg|swift"
    r"|tar|tf|toml|tsx?|txt|vue|wasm|whl|xml|ya?ml|zip|zsh|com|org|io|dev|net|local|internal|example|test)$"
)
RST_LABEL_PATTERN = re.compile(r"^\s*\.\. _.*|:(?:doc|download|numref|ref|term|any)(?::[\w-]+)?:`[^`\n]*`")
"""Labels and links between pages of reStructuredText, which are no names of the product."""
PLACEHOLDER_PATTERN = re.compile(r"(?:^|[_.-])(?:my|your|foo|bar|baz|example|some|xxx+)(?:[_.-]|$)|^(?:my|your)[A-Z]")


def collect_names(path: str, body: str, added_lines: Set[int]) -> Iterator[ClaimedName]:
    """Yields the names in these lines of a page, in order."""
    prose = mask_non_prose(path, body)
    block_lines = find_code_lines(path, body)
    body_start = find_body_start(body) if extension(path) in MARKDOWN_EXTENSIONS else 0
    for line in split_lines(body):
        if line.number not in added_lines or line.start < body_start or len(line.text) > MAX_LINE_CHARS:
            continue
        code = "".join(
            char if masked == " " else " " for char, masked in zip(line.text, prose[line.start : line.end], strict=True)
        )
        if extension(path) == ".rst":
            code = RST_LABEL_PATTERN.sub(" ", code)
        code = code.replace("`", " ")
        if code.strip():
            yield from _collect_from_code(code, line.number, is_block=line.number in block_lines)


def _collect_from_code(code: str, line: int, *, is_block: bool) -> Iterator[ClaimedName]:
    found = [
        *((NameKind.FLAG, match[1]) for match in FLAG_PATTERN.finditer(code)),
        *((NameKind.VARIABLE, match[1]) for match in VARIABLE_PATTERN.finditer(code)),
        *((NameKind.ENDPOINT, match[1]) for match in ENDPOINT_PATTERN.finditer(code)),
        *((NameKind.PACKAGE, match[2]) for match in PACKAGE_PATTERN.finditer(code)),
    ]
    if not is_block:
        found += [(NameKind.SETTING, match[1]) for match in SETTING_PATTERN.finditer(code)]
    for kind, name in found:
        if len(name) <= MAX_NAME_CHARS and _is_name(kind, name):
            yield ClaimedName(kind, name, line)


def _is_name(kind: NameKind, name: str) -> bool:
    if PLACEHOLDER_PATTERN.search(name.lower() if kind is not NameKind.SETTING else name):
        return False
    return kind is not NameKind.SETTING or FILE_NAME_PATTERN.search(name) is None
