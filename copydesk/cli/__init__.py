"""The command line: parse, call, print. Exit codes: 0 ok, 1 failed, 2 wrong usage."""

import logging
import sys

import typer

from copydesk import __version__
from copydesk.cli import analytics, backup, doctor, job, key, migrate, person, project, pull, secret, serve
from copydesk.cli.output import fail
from copydesk.client import ApiError, NotConfigured, Unreachable
from copydesk.core.errors import Explained

app = typer.Typer(
    help="Copydesk: a prompt becomes a pull request, a page view becomes a number.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(project.app, name="project")
app.add_typer(secret.app, name="secret")
app.add_typer(key.app, name="key")
app.add_typer(person.app, name="person")
app.add_typer(job.app, name="job")
app.add_typer(pull.app, name="pull")
app.add_typer(analytics.app, name="analytics")
serve.add_to(app)
backup.add_to(app)
migrate.add_to(app)
doctor.add_to(app)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        app()
    except (Explained, ApiError, Unreachable, NotConfigured) as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
