"""The command `copydesk doctor`: checks everything that Copydesk needs, and says how to fix problems."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from copydesk.cli.output import JsonOption, print_json
from copydesk.core.errors import UserFacingError
from copydesk.core.text.plurals import pluralize

if TYPE_CHECKING:
    from copydesk.core.projects.projects import Project
    from copydesk.core.settings import Settings
    from copydesk.desk import Desk

MIN_GIT_VERSION = (2, 37)
MAX_FILES_SHOWN = 5


class CheckFailed(Exception):
    """A check failed. The message says why, and what to do."""


class CheckWarning(Exception):
    """A check found something that works but should be changed. The message says what to do."""


class CheckSkipped(Exception):
    """A check cannot run. The message says why; the fault itself is reported by another check."""


class CheckResult(NamedTuple):
    check: str
    ok: bool
    message: str
    is_warning: bool = False
    is_skipped: bool = False

    @property
    def sign(self) -> str:
        if self.is_skipped:
            return "–"
        return "!" if self.is_warning else "✓" if self.ok else "✗"


@dataclass
class Checkup:
    """The settings, the desk once its database is open, and the checks that did not succeed, each with the reason."""

    settings: "Settings"
    desk: "Desk | None" = None
    blocked: dict[str, str] = field(default_factory=dict)

    @property
    def open_desk(self) -> "Desk":
        if self.desk is None:
            raise CheckSkipped("there is no database yet")
        return self.desk

    def list_projects(self) -> "list[Project]":
        return self.desk.projects.all() if self.desk else []


class Check(NamedTuple):
    name: str
    run: Callable[[Checkup], str]
    needs: tuple[str, ...] = ()
    """The checks that must succeed first. Without them, this one would only report the same fault again."""


app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Checks the settings, stores, model and repositories.

    Also checks Python, git, the data folder, file permissions, the proxy, the mail server, webhooks and the sandbox
    for check commands.
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
        checkup = Checkup(read_settings())
    except BadSettings as error:
        return [CheckResult("settings", False, str(error)), *_check_variables_alone()]
    results = [CheckResult("settings", True, "valid")]
    try:
        results += [_run_check(check, checkup) for check in CHECKS]
    finally:
        if checkup.desk is not None:
            checkup.desk.close()
    return results


def _run_check(check: Check, checkup: Checkup) -> CheckResult:
    for needed in check.needs:
        if needed in checkup.blocked:
            checkup.blocked[check.name] = checkup.blocked[needed]
            return CheckResult(check.name, True, f"not checked, because {checkup.blocked[needed]}", is_skipped=True)
    try:
        return CheckResult(check.name, True, check.run(checkup))
    except CheckWarning as warning:
        return CheckResult(check.name, True, str(warning), is_warning=True)
    except CheckSkipped as reason:
        checkup.blocked[check.name] = str(reason)
        return CheckResult(check.name, True, f"not checked, because {reason}", is_skipped=True)
    except Exception as error:
        checkup.blocked[check.name] = f"the check '{check.name}' failed"
        return CheckResult(check.name, False, str(error))


def _check_variables_alone() -> list[CheckResult]:
    """Checks the names of the variables, when the settings are invalid and no other check can run."""
    try:
        _report_unknown_variables([])
    except CheckWarning as warning:
        return [CheckResult("variables", True, str(warning), is_warning=True)]
    return []


def _check_python(_checkup: Checkup) -> str:
    return sys.version.split()[0]


def _check_git(_checkup: Checkup) -> str:
    if shutil.which("git") is None:
        raise CheckFailed("git is not installed. Install it with your system's package manager.")
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_GIT_VERSION:
        raise CheckFailed(f"git {version} is too old. Install {'.'.join(map(str, MIN_GIT_VERSION))} or newer.")
    return version


def _check_data_folder(checkup: Checkup) -> str:
    folder: Path = checkup.settings.data.absolute()
    if not folder.exists():
        raise CheckWarning(
            f"{folder} does not exist yet. 'copydesk serve' creates it. If you have one elsewhere, set COPYDESK_DATA."
        )
    if not folder.is_dir():
        raise CheckFailed(f"{folder} is not a folder. Set COPYDESK_DATA to a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CheckFailed(f"{folder} is not writable. Set COPYDESK_DATA to a writable folder.")
    return f"{folder}, {shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


def _check_private_files(checkup: Checkup) -> str:
    from copydesk.core.runtime.private_files import find_exposed_files

    if not checkup.settings.data.exists():
        raise CheckSkipped("there is no data folder yet")
    exposed = find_exposed_files(checkup.settings)
    if not exposed:
        return "only this user can read the service's files"
    file_list = ", ".join(map(str, exposed[:MAX_FILES_SHOWN])) + (", …" if len(exposed) > MAX_FILES_SHOWN else "")
    raise CheckWarning(
        f"other users can read {file_list}. Restart the service, which fixes this, or run 'chmod go=' on them."
    )


def _check_database(checkup: Checkup) -> str:
    from copydesk.desk import open_desk_on_database

    file = checkup.settings.database_file
    if file is not None and not file.exists():
        raise CheckSkipped("there is no database yet")
    desk = open_desk_on_database(checkup.settings)
    try:
        desk.projects.all()
    except Exception:
        desk.close()
        raise
    checkup.desk = desk
    return "SQLite" if desk.database.is_sqlite else "PostgreSQL"


def _check_variables(checkup: Checkup) -> str:
    _report_unknown_variables([project.token_env for project in checkup.list_projects() if project.token_env])
    return "all names are known"


def _report_unknown_variables(known: list[str]) -> None:
    from copydesk.core.settings import find_unknown_variables

    unknown = find_unknown_variables(os.environ, known)
    if unknown:
        raise CheckWarning(
            " ".join(
                f"{name} is not a setting, so it has no effect." + (f" Did you mean {nearest}?" if nearest else "")
                for name, nearest in unknown.items()
            )
        )


def _check_analytics_store(checkup: Checkup) -> str:
    desk = checkup.open_desk
    if desk.may_have_views:
        desk.store.ping()
    return "ClickHouse" if checkup.settings.analytics_url else "DuckDB"


def _check_model(checkup: Checkup) -> str:
    from copydesk.jobs.agent.models.model_names import check_model_names
    from copydesk.jobs.agent.models.registry import ModelUnavailable, create_model

    settings = checkup.settings
    check_model_names(settings)
    try:
        create_model(settings.model, url=settings.model_url)
    except ModelUnavailable as error:
        raise CheckFailed(str(error)) from None
    return settings.model


def _check_secrets(checkup: Checkup) -> str:
    desk = checkup.open_desk
    return f"{sum(len(desk.secrets.all(project.id)) for project in checkup.list_projects())} can be decrypted"


def _check_repositories(checkup: Checkup) -> str:
    from copydesk.jobs.publish.repository_access import find_usable_branch

    desk = checkup.open_desk
    projects = checkup.list_projects()
    names_by_problem: dict[str, list[str]] = {}
    for project in projects:
        try:
            find_usable_branch(project, desk.secrets.all(project.id), project.ref)
        except UserFacingError as error:
            names_by_problem.setdefault(str(error), []).append(project.name)
    if names_by_problem:
        problems = (f"{', '.join(names)}: {problem}" for problem, names in names_by_problem.items())
        raise CheckFailed(" ".join(problems))
    return f"{len(projects)} configured"


def _check_sandbox(checkup: Checkup) -> str:
    """Checks that a sandbox works. Without one, fails only if a project has a check command, which needs it."""
    from copydesk.jobs.sandbox.probe import probe
    from copydesk.jobs.sandbox.sandbox import SandboxUnavailable

    projects_with_command = [project.name for project in checkup.list_projects() if project.policy.check_command]
    sandbox = probe([checkup.settings.data.absolute(), Path.home()])
    if not isinstance(sandbox, SandboxUnavailable):
        return f"{sandbox.backend} works"
    if projects_with_command:
        raise CheckFailed(f"{projects_with_command[0]} has a check command, which needs a sandbox. {sandbox.reason}")
    return f"none, and no project needs one. {sandbox.reason}"


def _check_mail(checkup: Checkup) -> str:
    from copydesk.mail.smtp import SmtpServer

    server = SmtpServer.from_settings(checkup.settings)
    return server.check() if server else "not configured, so no mail is sent (COPYDESK_SMTP_HOST)"


def _check_webhooks(checkup: Checkup) -> str:
    endpoints = checkup.open_desk.webhooks.endpoints
    if refused := endpoints.list_refused():
        problems = (f"{each.endpoint.id} to {each.endpoint.shown_url}: {each.reason}" for each in refused[:5])
        raise CheckWarning(f"The address of {pluralize(len(refused), 'webhook')} is not allowed. {' '.join(problems)}")
    unhealthy = endpoints.list_unhealthy()
    if unhealthy:
        problems = (f"{each.id} to {each.shown_url}: {each.last_error or 'answered 410'}" for each in unhealthy[:5])
        raise CheckWarning(
            f"Deliveries to {pluralize(len(unhealthy), 'webhook')} fail. {' '.join(problems)} "
            "See 'copydesk webhook deliveries', then fix, disable or remove them."
        )
    waiting = checkup.open_desk.webhooks.read_stats().waiting
    return f"{endpoints.count()} configured, {pluralize(waiting, 'delivery', 'deliveries')} waiting"


def _check_proxy(checkup: Checkup) -> str:
    """Checks that the proxy is trusted. There must be one if the base URL has https, which Copydesk does not speak."""
    settings = checkup.settings
    if settings.trusted_proxies:
        return f"{', '.join(settings.trusted_proxies)} trusted"
    if settings.base_url.startswith("https://"):
        raise CheckWarning(
            f"COPYDESK_BASE_URL is {settings.base_url}, so a proxy with TLS is in front of the service, but "
            "COPYDESK_TRUSTED_PROXIES is not set. All callers seem to have the proxy's address: they share its rate "
            "limits, and readers with the same browser count as one visitor. Set it to the proxy's address."
        )
    return "none (COPYDESK_TRUSTED_PROXIES)"


CHECKS = (
    Check("python", _check_python),
    Check("git", _check_git),
    Check("data folder", _check_data_folder),
    Check("private files", _check_private_files, needs=("data folder",)),
    Check("database", _check_database, needs=("data folder",)),
    Check("variables", _check_variables),
    Check("proxy", _check_proxy),
    Check("views", _check_analytics_store, needs=("database",)),
    Check("model", _check_model),
    Check("secrets", _check_secrets, needs=("database",)),
    Check("repositories", _check_repositories, needs=("git", "database", "secrets")),
    Check("sandbox", _check_sandbox),
    Check("mail", _check_mail),
    Check("webhooks", _check_webhooks, needs=("database", "secrets")),
)
