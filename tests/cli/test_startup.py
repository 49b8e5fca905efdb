"""Commands import only the modules that they need, and the list of commands matches the commands' own help."""

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from copydesk import cli
from copydesk.cli.command_table import COMMANDS, load_command
from copydesk.core.settings import Settings
from copydesk.desk import open_desk, open_desk_lazily
from tests.support.drills import mark_drills

ROOT = Path(__file__).parent.parent.parent
IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.M)

SERVER = {"fastapi", "jinja2", "mcp", "starlette", "uvicorn"}
STORES = {"alembic", "duckdb", "pydantic_settings", "sqlalchemy"}
JOBS = {"cryptography", "pygit2", "re2", "regex", "yaml"}
NETWORK = {"http_message_signatures", "httpx2", "msgspec"}
PARSERS = {"docutils", "justhtml", "markdown_it", "nh3"}
EVERYTHING = {*SERVER, *STORES, *JOBS, *NETWORK, *PARSERS, "rich"}
NEEDED_BY_DATABASE = {"pydantic_settings", "sqlalchemy"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the environment of a person with a current database and without a running server."""
    data = tmp_path_factory.mktemp("startup") / "data"
    desk = open_desk_lazily(Settings(data=data))
    project = desk.projects.create("Docs", repository=str(data), ref="main", actor="test")
    desk.close()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return inherited | {
        "PYTHONPATH": str(ROOT),
        "COPYDESK_DATA": str(data),
        "COPYDESK_PROJECT": project.id,
        "COPYDESK_URL": "http://127.0.0.1:9",
        "COPYDESK_API_KEY": "unused",
    }


def list_imported_packages(arguments: str, environment: dict[str, str]) -> set[str]:
    """Returns the top-level packages that a command imports in a separate process."""
    command = [sys.executable, "-X", "importtime", "-m", "copydesk", *arguments.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    packages = {name.partition(".")[0] for name in IMPORTED.findall(done.stderr)}
    assert "copydesk" in packages, done.stderr
    assert "Traceback" not in done.stderr
    return packages


HELP = ("--version", "--help", "project --help", "job --help", "analytics visitors -h")
ON_DATABASE = (
    "project list",
    "project audit --project {project}",
    "project set --project {project} draft=true model=mechanic",
    "key list",
    "key create",
    "person list",
    "person first-link",
    "secret list",
    "pull list",
)


@pytest.mark.deep
@pytest.mark.parametrize("arguments", mark_drills(HELP, default=("--help", "project --help")))
def test_help_imports_no_part_of_the_service(arguments: str, environment: dict[str, str]) -> None:
    assert list_imported_packages(arguments, environment) & EVERYTHING == set()


def test_version_does_not_import_pydantic(environment: dict[str, str]) -> None:
    assert "pydantic" not in list_imported_packages("--version", environment)


@pytest.mark.deep
@pytest.mark.parametrize("arguments", mark_drills(ON_DATABASE, default=("project list", "pull list")))
def test_commands_on_the_database_import_nothing_else(arguments: str, environment: dict[str, str]) -> None:
    packages = list_imported_packages(arguments.format(project=environment["COPYDESK_PROJECT"]), environment)
    assert packages & EVERYTHING == NEEDED_BY_DATABASE


@pytest.mark.deep
def test_commands_on_the_api_import_only_its_client(environment: dict[str, str]) -> None:
    assert list_imported_packages("job list", environment) & EVERYTHING == {"httpx2"}


@pytest.mark.deep
def test_the_demo_prints_its_first_line_before_it_imports_the_service(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "copydesk", "demo"]
    inherited = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=inherited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        before = list(takewhile(lambda line: line.startswith("import time:"), process.stdout))
        process.kill()
    packages = {name.partition(".")[0] for name in IMPORTED.findall("".join(before))}
    assert "copydesk" in packages
    assert packages & EVERYTHING == set()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [20, 45, 60, 200])
def test_the_list_of_commands_shows_the_help_of_each_command(name: str, width: int) -> None:
    outline = typer.core.TyperCommand(name, help=COMMANDS[name].help)
    assert outline.get_short_help_str(width) == load_command(name).get_short_help_str(width)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_python_types(name: str) -> None:
    command = load_command(name)
    for each in getattr(command, "commands", {name: command}).values():
        assert re.search(r"[{}]|<[a-z]", each.get_help(typer.Context(each))) is None


def test_every_command_of_a_module_is_in_the_table() -> None:
    for module in {entry.module for entry in COMMANDS.values()}:
        names = [name for name, entry in COMMANDS.items() if entry.module == module]
        commands = [load_command(name) for name in names]
        if not isinstance(commands[0], typer.core.TyperGroup):
            app = sys.modules[f"copydesk.cli.commands.{module}"].app
            assert names == list(typer.main.get_group(app).commands)
        else:
            assert names == [commands[0].name]


def test_command_tree_can_be_traversed() -> None:
    root = typer.main.get_command(cli.app)
    assert isinstance(root, typer.core.TyperGroup)
    assert list(root.commands) == list(COMMANDS)
    assert [command.name for command in root.commands.values()] == list(COMMANDS)


@pytest.mark.deep
def test_misspelled_command_gets_a_suggestion(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "copydesk", "projct", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Did you mean 'project'" in done.stderr


def test_open_desk_creates_every_part_before_threads_start(tmp_path: Path) -> None:
    desk = open_desk(Settings(data=tmp_path))
    try:
        assert {"jobs", "pulls", "sites", "store", "fold_scheduler", "feedback"} <= vars(desk).keys()
    finally:
        desk.close()
