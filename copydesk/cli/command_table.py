"""The table of commands, and the group that imports the module of a command when the command is first used."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

Command = TyperCommand | TyperGroup
MAX_HELP_CHARS = 300
"""Longer than any first sentence."""


class CommandEntry(NamedTuple):
    module: str
    """The module in `copydesk.cli.commands`. Its `app` is the command itself, or holds a command of this name."""
    help: str
    """The first sentence of the command's help, repeated here so that `copydesk --help` imports no command."""


COMMANDS = {
    "serve": CommandEntry("serve", "Runs the API and a worker in one process."),
    "work": CommandEntry("serve", "Runs only a worker."),
    "mcp": CommandEntry("serve", "Serves MCP on standard input and output."),
    "demo": CommandEntry("serve", "Runs a sample job up to its pull request."),
    "backup": CommandEntry("stores.backup", "Copies all data into a new folder."),
    "restore": CommandEntry("stores.backup", "Restores a backup, completely or not at all."),
    "migrate-stores": CommandEntry("stores.migrate_stores", "Moves all data to other stores."),
    "doctor": CommandEntry("setup.doctor", "Checks the settings, stores, model and repositories."),
    "project": CommandEntry("project", "Creates, shows, changes and deletes projects."),
    "secret": CommandEntry("secret", "Stores a project's forge token and model keys."),
    "context": CommandEntry("context", "Manages the repositories that a project's agent may read."),
    "key": CommandEntry("accounts.key", "Creates, lists and revokes a project's API keys."),
    "person": CommandEntry("accounts.person", "Manages the people who sign in to the dashboard."),
    "job": CommandEntry("jobs.job", "Creates, watches and manages jobs over the API."),
    "prompt": CommandEntry("jobs.prompt", "Shows and manages prompt templates over the API."),
    "automation": CommandEntry("automation", "Creates and manages automations over the API."),
    "pull": CommandEntry("jobs.pull", "Shows, merges and closes local pull requests."),
    "analytics": CommandEntry("analytics.reports", "Shows who reads your docs, and imports access logs."),
    "mail": CommandEntry("sharing.mail", "Sends a test mail."),
    "webhook": CommandEntry("sharing.webhook", "Sends a project's events to other services or to Slack."),
    "completion": CommandEntry(
        "setup.completion", "Prints a script that completes commands and options in your shell."
    ),
    "share": CommandEntry("sharing.share", "Shares a project's analytics by public links and badges, read-only."),
}

COMMAND_GROUPS = {
    "Service": ("serve", "work", "mcp", "demo", "doctor", "mail", "backup", "restore", "migrate-stores"),
    "Projects": ("project", "secret", "context", "key", "person", "webhook"),
    "Jobs": ("job", "prompt", "automation", "pull"),
    "Analytics": ("analytics", "share"),
}
"""The sections of `copydesk --help`. Other commands follow under "More"."""


def load_command(name: str) -> Command:
    """Imports the module of a command and returns the command; raises KeyError when there is no such command."""
    app: typer.Typer = import_module(f"copydesk.cli.commands.{COMMANDS[name].module}").app
    group = typer.main.get_group(app)
    for leaf in group.commands.values():
        for parameter in leaf.params:
            if isinstance(parameter, TyperArgument):
                parameter.__class__ = PlainArgument  # Typer has no option for the class of arguments
    command = group.commands.get(name, group)
    assert isinstance(command, Command)
    if isinstance(command, TyperGroup):
        command.__class__ = PlainGroup
    command.name = name
    return command


class PlainArgument(TyperArgument):
    """An argument that help and errors show as `FOLDER`, where Typer shows `{folder}` and `folder <path>`."""

    @property
    def display_name_raw(self) -> str:
        return super().display_name_raw.upper()

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().get_usage_pieces(ctx)]

    def display_type_rich(self, ctx: Any) -> None:
        """Returns None, which leaves out the Python type."""


class PlainGroup(TyperGroup):
    """A group whose help shows the first sentence of each command in full, where Typer cuts it at the line's end."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [
            (name, each.get_short_help_str(MAX_HELP_CHARS)) for name, each in self.commands.items() if not each.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


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
    """A group of all commands in the table that imports only the commands that are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands()  # Any: the type of the base class is in a private module

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands by section, with the help texts from the table in full."""
        grouped = {name for names in COMMAND_GROUPS.values() for name in names}
        width = max(map(len, COMMANDS))
        for title, names in {**COMMAND_GROUPS, "More": tuple(name for name in COMMANDS if name not in grouped)}.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name].help) for name in names if name in COMMANDS])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completes the names of commands from the table, without importing any of them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        table = TyperGroup(commands={name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()})
        return table.shell_complete(typer.Context(table), incomplete)
