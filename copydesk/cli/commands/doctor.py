"""copydesk doctor: looks whether everything that Copydesk needs is there, and says what to do where not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from copydesk.cli.output import AsJson, print_json
from copydesk.core.errors import Explained

if TYPE_CHECKING:
    from copydesk.core.settings import Settings

OLDEST_GIT = (2, 37)
MAX_FILES_SHOWN = 5
Check = Callable[["Settings"], str]


class Ill(Exception):
    """What is wrong, and what to do about it."""


class Warn(Exception):
    """Names something that works and should be changed all the same."""


class Result(NamedTuple):
    check: str
    ok: bool
    says: str
    is_warning: bool = False

    @property
    def sign(self) -> str:
        return "!" if self.is_warning else "✓" if self.ok else "✗"


app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(json: AsJson = False) -> None:
    """Checks the settings, git, both stores, the data folder, the model and every project's repository."""
    results = _examine()
    if json:
        print_json([{"check": r.check, "ok": r.ok, "warning": r.is_warning, "says": r.says} for r in results])
    else:
        for result in results:
            typer.echo(f"{result.sign} {result.check}: {result.says}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _examine() -> list[Result]:
    from copydesk.core.settings import BadSettings, read_settings

    try:
        settings = read_settings()
    except BadSettings as error:
        return [Result("settings", False, str(error))]
    results = [Result("settings", True, "read")]
    for name, check in CHECKS.items():
        try:
            results.append(Result(name, True, check(settings)))
        except Warn as warning:
            results.append(Result(name, True, str(warning), is_warning=True))
        except Exception as error:
            results.append(Result(name, False, str(error)))
    return results


def _python(_settings: "Settings") -> str:
    return sys.version.split()[0]


def _git(_settings: "Settings") -> str:
    if shutil.which("git") is None:
        raise Ill("git is not installed; install it with your system's package manager.")
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_GIT:
        raise Ill(f"git {version} is too old; {'.'.join(map(str, OLDEST_GIT))} or newer is needed.")
    return version


def _data(settings: "Settings") -> str:
    folder: Path = settings.data.absolute()
    settings.make_data_folder()
    if not os.access(folder, os.W_OK):
        raise Ill(f"{folder} cannot be written to; set COPYDESK_DATA to a folder that can.")
    return f"{folder}, {shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


def _privacy(settings: "Settings") -> str:
    from copydesk.core.runtime.private_files import find_exposed_files

    exposed = find_exposed_files(settings)
    if not exposed:
        return "only this user can read the service's files"
    shown = ", ".join(map(str, exposed[:MAX_FILES_SHOWN])) + (", …" if len(exposed) > MAX_FILES_SHOWN else "")
    raise Warn(f"other users can read {shown}; restart the service, which repairs it, or run 'chmod go=' on them.")


def _database(settings: "Settings") -> str:
    from sqlalchemy import text

    from copydesk.desk import open_desk_lazily

    desk = open_desk_lazily(settings)
    try:
        with desk.database.read() as tx:
            tx.execute(text("select 1"))
        return "SQLite" if desk.database.is_sqlite else "PostgreSQL"
    finally:
        desk.close()


def _views(settings: "Settings") -> str:
    from copydesk.desk import open_desk_lazily

    desk = open_desk_lazily(settings)
    try:
        if desk.may_have_views:
            desk.store.ping()
        return "ClickHouse" if settings.analytics_url else "DuckDB"
    finally:
        desk.close()


def _model(settings: "Settings") -> str:
    from copydesk.jobs.agent.models.registry import ModelUnavailable, model_for

    try:
        model_for(settings.model, url=settings.model_url)
    except ModelUnavailable as error:
        raise Ill(str(error)) from None
    return settings.model


def _repositories(settings: "Settings") -> str:
    from copydesk.desk import open_desk_lazily
    from copydesk.jobs.publish.repository_access import usable_branch

    desk = open_desk_lazily(settings)
    try:
        projects = desk.projects.all()
        for project in projects:
            try:
                usable_branch(project, desk.secrets.all(project.id), project.ref)
            except Explained as error:
                raise Ill(f"{project.name}: {error}") from None
        return f"{len(projects)} can be used"
    finally:
        desk.close()


def _sandbox(settings: "Settings") -> str:
    """Only a project with a check command needs one."""
    from copydesk.desk import open_desk_lazily
    from copydesk.jobs.sandbox.probe import probe
    from copydesk.jobs.sandbox.sandbox import Unavailable

    desk = open_desk_lazily(settings)
    try:
        needed = [project.name for project in desk.projects.all() if project.policy.check_command]
    finally:
        desk.close()
    found = probe([settings.data.absolute(), Path.home()])
    if not isinstance(found, Unavailable):
        return f"{found.backend} holds"
    if needed:
        raise Ill(f"{needed[0]} has a check command. {found.why}")
    return f"none, and none is needed. {found.why}"


CHECKS: dict[str, Check] = {
    "python": _python,
    "git": _git,
    "data folder": _data,
    "private files": _privacy,
    "database": _database,
    "views": _views,
    "model": _model,
    "repositories": _repositories,
    "sandbox": _sandbox,
}
