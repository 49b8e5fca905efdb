"""How the code is laid out: which way imports go, how long a file may grow, what the schema is the sum of."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import copydesk
import copydesk.analytics.tables
import copydesk.jobs.storage.tables  # their tables join the others' metadata
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from copydesk.core.db.tables import metadata

PACKAGE = Path(copydesk.__file__).parent
TESTS = Path(__file__).parent
REQUESTS = {"Client", "AsyncClient", "request", "stream", "get", "head", "options", "post", "put", "patch", "delete"}
LEAST_TIMEOUT_SECONDS = 20
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE = 400

MAY_IMPORT = {
    "core": set[str](),
    "client": set[str](),  # but for copydesk_client, a package of its own
    "middleware": set[str](),
    "jobs": {"core"},
    "analytics": {"core"},
    "desk": {"core", "jobs", "analytics"},
    "transfer": {"core", "jobs", "analytics"},
    "web": {"core", "jobs", "analytics", "desk"},
    "cli": {"core", "jobs", "analytics", "desk", "transfer", "web", "client"},
    "__main__": {"cli"},
    "__init__": set[str](),
}


def imported(file: Path) -> Iterator[str]:
    """The names of copydesk's own modules in a file, also of those imported within a function."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "copydesk")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports by a relative name"
            if node.module == "copydesk":
                yield from (f"copydesk.{alias.name}" for alias in node.names if alias.name != "__version__")
            elif node.module and node.module.startswith("copydesk."):
                yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    others = {name.split(".")[1] for name in imported(file)} - {part}
    assert others <= MAY_IMPORT[part]


def test_no_file_outgrows_its_reader() -> None:
    lengths = {str(file.relative_to(PACKAGE)): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_the_schema_is_the_sum_of_its_migrations(database_url: str) -> None:
    database = Database(database_url)
    try:
        migrate(database)
        with database.read() as tx:
            assert compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), metadata) == []
    finally:
        database.close()


def test_requests_of_tests_allow_for_a_busy_machine() -> None:
    """The default of five seconds is too short while other tests take all the cores."""
    hasty = [f"{file.relative_to(TESTS)}:{line}" for file in TESTS.rglob("*.py") for line in find_hasty_requests(file)]
    assert hasty == []


def find_hasty_requests(file: Path) -> Iterator[int]:
    """Yields the lines of HTTP calls that have no timeout or a short one."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx" | "httpx2"), attr=name)) if name in REQUESTS:
                timeouts = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
                values = [timeout.value for timeout in timeouts if isinstance(timeout, ast.Constant)]
                if not timeouts or any(isinstance(value, int) and value < LEAST_TIMEOUT_SECONDS for value in values):
                    yield node.lineno
