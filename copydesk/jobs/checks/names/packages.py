"""Reads the packages that commands install, without versions, extras and options."""

import re
from collections.abc import Iterator

COMMAND_PATTERN = re.compile(
    r"\b(?:pip3? install|uv add|uv pip install|poetry add|npm (?:install|i)|pnpm add|yarn add|cargo (?:add|install)"
    r"|gem install|go get)[ \t]+(?=(?P<arguments>[^\n]{1,2000}))"
)
ARGUMENT_PATTERN = re.compile(r"\"[^\"]*\"|'[^']*'|\S+")
PACKAGE_PATTERN = re.compile(
    r"(?P<name>@[\w.-]+/[\w.-]*\w|[A-Za-z](?:[\w./-]*\w)?)(?:\[[\w ,.-]*\])?(?:(?:@|[=<>!~^:;]).*)?[).,\"']*"
)
LOCAL_PATH_PATTERN = re.compile(r"[\w-]+/")
"""A folder that a package is installed from. A package with a slash begins with a scope or a host."""
FILE_PATTERN = re.compile(r".*\.(?:whl|zip|tgz|gz|txt|toml)")
END_PATTERN = re.compile(r"[|;&>#\\].*|<|2>.*")
OPTIONS_WITH_VALUE = frozenset(
    (
        "-r", "-c", "-e", "-i", "-f", "-t", "-G", "-v", "-C", "-w", "-F", "-p", "--requirement", "--constraint",
        "--editable", "--target", "--index-url", "--extra-index-url", "--find-links", "--python", "--prefix", "--root",
        "--group", "--optional", "--extra", "--features", "--git", "--branch", "--tag", "--rev", "--version", "--path",
        "--registry", "--source", "--index", "--platform", "--python-version", "--workspace", "--filter", "--bin",
    )
)  # fmt: skip
COMMAND_START_PATTERN = re.compile(r"[|;&(`]|\s{2,}")
PREFIX_PATTERN = re.compile(r"[$%>!-]|sudo|\w+=\S*|RUN|run:|python[\d.]*|py|-m")
"""Words before the program of a command. A `#` may begin a comment, whose words after the package are prose."""


def find_packages(text: str) -> Iterator[str]:
    """Yields the packages of each command in a line; in a sentence or a comment only the first one of a command."""
    for command in COMMAND_PATTERN.finditer(text):
        packages = list(_list_packages(command["arguments"]))
        words = COMMAND_START_PATTERN.split(text[: command.start()])[-1].split()
        is_command = all(PREFIX_PATTERN.fullmatch(word) for word in words)
        yield from packages if is_command else packages[:1]


def _list_packages(arguments: str) -> Iterator[str]:
    """Yields the names in the arguments of a command, which end where another piece of code begins."""
    is_value = False
    for word in ARGUMENT_PATTERN.findall(re.split(r"\s{2,}", arguments)[0]):
        if END_PATTERN.fullmatch(word):
            return
        if is_value or word.startswith("-"):
            is_value = not is_value and word in OPTIONS_WITH_VALUE
            continue
        match = PACKAGE_PATTERN.fullmatch(word.strip("\"'"))
        if match and not LOCAL_PATH_PATTERN.match(match["name"]) and not FILE_PATTERN.fullmatch(match["name"]):
            yield match["name"]
        if word.endswith((";", ")")):
            return
