"""The command `copydesk doctor`: checks everything that Copydesk needs, and says how to fix problems."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from copydesk.cli.output import JsonOption, print_json
from copydesk.core.errors import UserFacingError

if TYPE_CHECKING:
    from copydesk.core.settings import Settings

MIN_GIT_VERSION = (2, 37)
MAX_FILES_SHOWN = 5
Check = Callable[["Settings"], str]


class CheckFailed(Exception):
    """A check failed. The message says why, and what to do."""


class CheckWarning(Exception):
    """A check found something that works but should be changed. The message says what to do."""


class CheckResult(NamedTuple):
    check: str
    ok: bool
    message: str
    is_warning: bool = False

    @property
    def sign(self) -> str:
        return "!" if self.is_warning else "✓" if self.ok else "✗"


app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Checks the settings, stores, model and repositories.

    Also checks Python, git, the data folder, file permissions and the sandbox for check commands.
    """
    results = _run_checks()
    if json:
        print_json([{"check": r.check, "ok": r.ok, "warning": r.is_warning, "says": r.message} for r in results])
    else:
        for result in results:
            typer.echo(f"{result.sign} {result.check}: {result.message}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _run_checks() -> list[CheckResult]:
    from copydesk.core.settings import BadSettings, read_settings

    try:
        settings = read_settings()
    except BadSettings as error:
        return [CheckResult("settings", False, str(error))]
    results = [CheckResult("settings", True, "valid")]
    for name, check in CHECKS.items():
        try:
            results.append(CheckResult(name, True, check(settings)))
        except CheckWarning as warning:
            results.append(CheckResult(name, True, str(warning), is_warning=True))
        except Exception as error:
            results.append(CheckResult(name, False, str(error)))
    return results


def _check_python(_settings: "Settings") -> str:
    return sys.version.split()[0]


def _check_git(_settings: "Settings") -> str:
    if shutil.which("git") is None:
        raise CheckFailed("git is not installed. Install it with your system's package manager.")
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_GIT_VERSION:
        raise CheckFailed(f"git {version} is too old. Install {'.'.join(map(str, MIN_GIT_VERSION))} or newer.")
    return version


def _check_data_folder(settings: "Settings") -> str:
    folder: Path = settings.data.absolute()
    settings.make_data_folder()
    if not os.access(folder, os.W_OK):
        raise CheckFailed(f"{folder} is not writable. Set COPYDESK_DATA to a writable folder.")
    return f"{folder}, {shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


def _check_private_files(settings: "Settings") -> str:
    from copydesk.core.runtime.private_files import find_exposed_files

    exposed = find_exposed_files(settings)
    if not exposed:
        return "only this user can read the service's files"
    file_list = ", ".join(map(str, exposed[:MAX_FILES_SHOWN])) + (", …" if len(exposed) > MAX_FILES_SHOWN else "")
    raise CheckWarning(
        f"other users can read {file_list}. Restart the service, which fixes this, or run 'chmod go=' on them."
    )


def _check_database(settings: "Settings") -> str:
    from sqlalchemy import text

    from copydesk.desk import open_desk_lazily

    desk = open_desk_lazily(settings)
    try:
        with desk.database.read() as tx:
            tx.execute(text("select 1"))
        return "SQLite" if desk.database.is_sqlite else "PostgreSQL"
    finally:
        desk.close()


def _check_analytics_store(settings: "Settings") -> str:
    from copydesk.desk import open_desk_lazily

    desk = open_desk_lazily(settings)
    try:
        if desk.may_have_views:
            desk.store.ping()
        return "ClickHouse" if settings.analytics_url else "DuckDB"
    finally:
        desk.close()


def _check_model(settings: "Settings") -> str:
    from copydesk.jobs.agent.models.registry import ModelUnavailable, create_model

    try:
        create_model(settings.model, url=settings.model_url)
    except ModelUnavailable as error:
        raise CheckFailed(str(error)) from None
    return settings.model


def _check_repositories(settings: "Settings") -> str:
    from copydesk.desk import open_desk_lazily
    from copydesk.jobs.publish.repository_access import find_usable_branch

    desk = open_desk_lazily(settings)
    try:
        projects = desk.projects.all()
        for project in projects:
            try:
                find_usable_branch(project, desk.secrets.all(project.id), project.ref)
            except UserFacingError as error:
                raise CheckFailed(f"{project.name}: {error}") from None
        return f"{len(projects)} configured"
    finally:
        desk.close()


def _check_sandbox(settings: "Settings") -> str:
    """Checks that a sandbox works. Without one, fails only if a project has a check command, which needs it."""
    from copydesk.desk import open_desk_lazily
    from copydesk.jobs.sandbox.probe import probe
    from copydesk.jobs.sandbox.sandbox import SandboxUnavailable

    desk = open_desk_lazily(settings)
    try:
        projects_with_command = [project.name for project in desk.projects.all() if project.policy.check_command]
    finally:
        desk.close()
    sandbox = probe([settings.data.absolute(), Path.home()])
    if not isinstance(sandbox, SandboxUnavailable):
        return f"{sandbox.backend} works"
    if projects_with_command:
        raise CheckFailed(f"{projects_with_command[0]} has a check command, which needs a sandbox. {sandbox.reason}")
    return f"none, and no project needs one. {sandbox.reason}"


CHECKS: dict[str, Check] = {
    "python": _check_python,
    "git": _check_git,
    "data folder": _check_data_folder,
    "private files": _check_private_files,
    "database": _check_database,
    "views": _check_analytics_store,
    "model": _check_model,
    "repositories": _check_repositories,
    "sandbox": _check_sandbox,
}
