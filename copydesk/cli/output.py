"""Output of the commands: tables and sentences for people, JSON for programs."""

import getpass
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from copydesk.desk import Desk
    from copydesk_client import Client

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ProjectOption = Annotated[
    str, typer.Option("--project", metavar="PROJECT", envvar="COPYDESK_PROJECT", help="The project's ID or name.")
]

TERMINAL_OVERRIDES = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables that override whether the output counts as a terminal."""


def find_terminal(*, stderr: bool = False) -> "Console | None":
    """Returns a console when standard output, or standard error, is a terminal. Imports Rich only then."""
    if not (sys.stderr if stderr else sys.stdout).isatty() and not any(map(os.environ.get, TERMINAL_OVERRIDES)):
        return None
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else None


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def camelize_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values under names in camel case, as all JSON of commands and of the API has them."""
    return {_to_camel_case(name): value for name, value in values.items()}


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def make_printable(text: Any) -> str:
    """Replaces control characters, so that text from a model, a repository or a person cannot control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in str(text))


def print_facts(facts: dict[str, Any]) -> None:
    """Prints a line for each fact. Further lines of a value are indented below its first one."""
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {indent_further_lines(make_printable(_format_fact(value)), width + 2)}")


def indent_further_lines(text: str, width: int) -> str:
    return "\n".join(line and f"{' ' * width}{line}" if n else line for n, line in enumerate(text.split("\n")))


def _format_fact(value: Any) -> str:
    match value:
        case None | "" | [] | ():
            return "–"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def print_once(
    noun: str, secret: str, facts: dict[str, Any], *, quiet: bool = False, json: bool = False, note: str = ""
) -> None:
    """Prints what was created with a secret that is not shown again: only the secret, as JSON, or for people.

    `note` is printed to standard error, except with JSON.
    """
    if quiet:
        typer.echo(secret)
        if note:
            typer.echo(note, err=True)
    elif json:
        print_json(facts)
    else:
        print_facts(facts)
        typer.echo(f"\nSave this {noun} now. It is not shown again. {note}".rstrip(), err=True)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Any]], empty_message: str) -> None:
    """Prints a table in a terminal, or tab-separated lines when piped. Prints `empty_message` if there are no rows."""
    if not rows:
        typer.echo(empty_message, err=True)
    elif console := find_terminal():
        _draw_table(console, headings, rows)
    else:
        for row in rows:
            typer.echo("\t".join("" if cell is None else make_printable(cell) for cell in row))


def _draw_table(console: "Console", headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Draws a table whose words stay whole; below that width, prints each row as lines, so that IDs can be copied."""
    from rich.table import Table
    from rich.text import Text

    cells = [["–" if cell is None else make_printable(cell) for cell in row] for row in rows]
    columns = [(heading, *column) for heading, *column in zip(headings, *cells, strict=True)]
    widths = [max(len(word) for text in column for word in (text.split() or [""])) for column in columns]
    if sum(widths) + 2 * (len(widths) - 1) > console.width:
        _print_rows_as_lines(console, headings, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, overflow="fold", min_width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_rows_as_lines(console: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.text import Text

    width = max(map(len, headings))
    for number, row in enumerate(rows):
        if number:
            console.print()
        for heading, cell in zip(headings, row, strict=True):
            console.print(Text(f"{heading:<{width}}  ", "bold"), Text(cell), sep="", soft_wrap=True)


def fail(message: str) -> NoReturn:
    typer.echo(f"copydesk: {message}", err=True)
    sys.exit(1)


def current_actor() -> str:
    """Returns the actor for the audit log: `cli:` and the name of the user."""
    try:
        return f"cli:{getpass.getuser()}"
    except OSError:
        return "cli"


@contextmanager
def open_configured_desk(*, create: bool = False) -> Iterator["Desk"]:
    """Opens the database directly, whether or not a server runs. Creates other parts of the desk on first use.

    Without `create`, fails with the name of the data folder if there is none.
    """
    from copydesk.core.settings import read_settings
    from copydesk.desk import open_desk_lazily

    desk = open_desk_lazily(read_settings(), create=create)
    try:
        yield desk
    finally:
        desk.close()


def open_client(id_or_name: str) -> "Client":
    """Returns an API client for a project. Imports it here because the help of a command does not need it."""
    from copydesk.cli.project_lookup import find_project_id
    from copydesk_client import Client

    return Client(project=find_project_id(open_configured_desk, id_or_name))
