"""Printing: tables and sentences for people, JSON for programs."""

import getpass
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from copydesk.desk import Desk

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
InProject = Annotated[str, typer.Option("--project", envvar="COPYDESK_PROJECT", help="The project's id.")]

console = Console(highlight=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def plain(text: Any) -> str:
    """Text from a model, a repository or a person, without what would steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in str(text))


def print_facts(facts: dict[str, Any]) -> None:
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {'–' if value in (None, '', []) else plain(value)}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """A table in a terminal; lines with tabs between when piped."""
    if not rows:
        typer.echo(empty, err=True)
    elif not console.is_terminal:
        for row in rows:
            typer.echo("\t".join("" if cell is None else plain(cell) for cell in row))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*(Text("–" if cell is None else plain(cell)) for cell in row))
        console.print(table)


def fail(message: str) -> NoReturn:
    typer.echo(f"copydesk: {message}", err=True)
    sys.exit(1)


def actor() -> str:
    """Who did it, for the audit log."""
    try:
        return f"cli:{getpass.getuser()}"
    except OSError:
        return "cli"


@contextmanager
def the_desk() -> Iterator["Desk"]:
    """The database itself, whether or not a server runs. Loaded here, so that commands without it start at once."""
    from copydesk.core.settings import read_settings
    from copydesk.desk import open_desk

    desk = open_desk(read_settings())
    try:
        yield desk
    finally:
        desk.close()
