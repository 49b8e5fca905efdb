"""The command line. Each command parses its arguments, makes one call and prints the result.

Exit codes: 0 success, 1 failure, 2 wrong usage.
"""

import gc
import logging
import os
import sys

import typer
from typer._completion_classes import completion_init

from copydesk import __version__
from copydesk.cli.command_table import LazyGroup
from copydesk.cli.output import fail
from copydesk.cli.quick_exit import QuickExit
from copydesk.core.errors import UserFacingError
from copydesk.core.runtime.private_umask import create_files_privately

app = typer.Typer(
    cls=LazyGroup,
    help="Copydesk: turns prompts into pull requests and measures who reads your docs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

GC_THRESHOLD = (20_000, 20, 20)
"""Thresholds of Python's garbage collector. Imports create many objects and no garbage; with the default thresholds the
collector would run dozens of times."""


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Runs the command line and ends the process."""
    quick_exit = QuickExit()
    gc.set_threshold(*GC_THRESHOLD)
    create_files_privately()
    # Without this, Pydantic reads the metadata of every installed package to look for plugins, which is slow.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        if sys.argv[1:] == ["--version"]:  # typer would import Pydantic to read this option
            typer.echo(__version__)
            sys.exit(0)
        if "_COPYDESK_COMPLETE" in os.environ:  # set by the script of `copydesk completion`
            completion_init()
        _run_command()
    except SystemExit as exit_error:
        if isinstance(exit_error.code, int):
            quick_exit.status = exit_error.code
        raise


def _run_command() -> None:
    """Runs the command. Prints errors that the user can fix as one sentence, without a traceback."""
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        app()
    except UserFacingError as error:
        fail(str(error))
    except Exception as error:
        if not _is_from_client(error):
            raise
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _is_from_client(error: Exception) -> bool:
    """Returns whether the API client raised this error. Imports the client here because most commands never use it."""
    from copydesk_client import ApiError, NotConfigured, Unreachable

    return isinstance(error, ApiError | NotConfigured | Unreachable)
