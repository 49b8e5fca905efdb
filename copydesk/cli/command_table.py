"""The table of commands, and the group that imports the module of a command when the command is first used."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

Command = TyperCommand | TyperGroup


class CommandEntry(NamedTuple):
    module: str
    """The module in `copydesk.cli.commands`. Its `app` is the command itself, or holds a command of this name."""
    help: str
    """The first sentence of the command's own help, so that `copydesk --help` imports no command."""


COMMANDS = {
    "serve": CommandEntry(
        "serve", "Serves the API and a worker in one process, on the embedded stores unless set otherwise."
    ),
    "work": CommandEntry("serve", "Runs a worker alone."),
    "demo": CommandEntry(
        "serve",
        "A sample repository and a job through to its pull request, here and now; exit code 0 when all of it worked.",
    ),
    "backup": CommandEntry(
        "backup",
        "Copies everything into a new folder, while everything goes on: the database, the views, the address ranges.",
    ),
    "restore": CommandEntry("backup", "Puts a back-up into the stores that the settings name, all of it or nothing."),
    "migrate-stores": CommandEntry("migrate_stores", "Moves everything to other stores."),
    "doctor": CommandEntry(
        "doctor", "Checks the settings, git, both stores, the data folder, the model and every project's repository."
    ),
    "project": CommandEntry("project", "Projects: a documentation repository each."),
    "secret": CommandEntry(
        "secret", "A project's sealed secrets: forge tokens and model keys, encrypted and never shown again."
    ),
    "key": CommandEntry("key", "Admin API keys of a project."),
    "person": CommandEntry("person", "People who sign in to the dashboard."),
    "job": CommandEntry("job", "Jobs, over the API: reads COPYDESK_URL, COPYDESK_API_KEY and COPYDESK_PROJECT."),
    "pull": CommandEntry("pull", "Pull requests that Copydesk itself keeps (forge: local)."),
    "analytics": CommandEntry(
        "analytics.reports",
        "Who reads the pages, over the API: reads COPYDESK_URL, COPYDESK_API_KEY and COPYDESK_PROJECT.",
    ),
}


def load_command(name: str) -> Command:
    """Imports the module of a command and returns the command; raises KeyError when there is no such command."""
    app: typer.Typer = import_module(f"copydesk.cli.commands.{COMMANDS[name].module}").app
    group = typer.main.get_group(app)
    command = group.commands.get(name, group)
    assert isinstance(command, Command)
    command.name = name
    return command


class LazyCommands(MutableMapping[str, Command]):
    """Maps each name in the table to its command; loads a command when it is first looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Command | None] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Command:
        command = self._loaded[name]
        if command is None:
            command = self._loaded[name] = load_command(name)
        return command

    def __setitem__(self, name: str, command: Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


class LazyGroup(TyperGroup):
    """Behaves as a group of all commands in the table, and imports only those that are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands()  # Any: the type of the base class is in a private module

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands with the help that the table holds."""
        outlines = [TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()]
        TyperGroup(commands=outlines).format_commands(ctx, formatter)
