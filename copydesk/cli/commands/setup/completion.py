"""The command `copydesk completion`: prints a script that completes commands and options in a shell."""

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

PROGRAM = "copydesk"
COMPLETION_VARIABLE = "_COPYDESK_COMPLETE"
"""With this environment variable, the program prints completions. Typer derives the name from that of the program."""

app = typer.Typer(rich_markup_mode=None)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_choices=False)],
) -> None:
    """Prints a script that completes commands and options in your shell.

    For bash, save it as ~/.local/share/bash-completion/completions/copydesk, for fish as
    ~/.config/fish/completions/copydesk.fish, and for zsh as _copydesk in a folder of $fpath.
    """
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell))
