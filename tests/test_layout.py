"""The layout of the code: the direction of imports, the length of files, and the schema as a sum of migrations."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import copydesk
import copydesk.analytics.tables
import copydesk.automations.tables
import copydesk.jobs.storage.tables  # adds its tables to the metadata
import copydesk.mail.tables
import copydesk.prompts.tables
import copydesk.sharing.tables
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from copydesk.core.db.tables import metadata

PACKAGE = Path(copydesk.__file__).parent
TESTS = Path(__file__).parent
REQUESTS = {"Client", "AsyncClient", "request", "stream", "get", "head", "options", "post", "put", "patch", "delete"}
LEAST_TIMEOUT_SECONDS = 20
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FOLDER_ENTRIES = 12

MAY_IMPORT = {
    "core": set[str](),
    "middleware": set[str](),
    "jobs": {"core"},
    "analytics": {"core"},
    "automations": {"core", "jobs"},
    "reader_signals": {"core", "analytics", "automations"},
    "mail": {"core"},
    "prompts": {"core", "jobs"},
    "sharing": {"core", "jobs", "analytics", "automations", "mail"},
    "webhooks": {"core", "jobs"},
    "mcp": {"core"},
    "desk": {"reader_signals", "core", "jobs", "analytics", "automations", "sharing", "mail", "prompts", "webhooks"},
    "transfer": {"core", "jobs", "analytics", "automations", "sharing", "mail", "prompts"},
    "web": {"core", "jobs", "analytics", "automations", "sharing", "mail", "prompts", "webhooks", "desk", "mcp"},
    "cli": {
        *(
            "core",
            "jobs",
            "analytics",
            "automations",
            "sharing",
            "mail",
            "prompts",
            "webhooks",
            "desk",
            "transfer",
            "web",
            "mcp",
        )
    },
    "__main__": {"cli"},
    "__init__": set[str](),
}


def list_imports(file: Path) -> Iterator[str]:
    """Lists the copydesk modules that a file imports, including imports inside functions."""
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
def test_imports_follow_the_layer_order(file: Path) -> None:
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    others = {name.split(".")[1] for name in list_imports(file)} - {part}
    assert others <= MAY_IMPORT[part]


def test_no_import_cycles_between_neighbors() -> None:
    """At every depth, the files and folders beside each other import in one direction."""
    assert [circle for neighbors in find_neighbor_imports().values() if (circle := find_circle(neighbors))] == []


def find_neighbor_imports() -> dict[str, dict[str, set[str]]]:
    """Returns, for each folder, which of its files and folders import which others of the same folder."""
    modules = {module_name(file) for file in FILES}
    imports: dict[str, dict[str, set[str]]] = {}
    for file in FILES:
        importer = module_name(file).split(".")
        for name in list_imported_modules(file, modules):
            target = name.split(".")
            shared = next((n for n, pair in enumerate(zip(importer, target, strict=False)) if pair[0] != pair[1]), None)
            if shared is not None:
                folder = imports.setdefault(".".join(importer[:shared]), {})
                folder.setdefault(importer[shared], set()).add(target[shared])
    return imports


def module_name(file: Path) -> str:
    return ".".join(("copydesk", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def list_imported_modules(file: Path, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else str(node.module) for name in names)


def find_circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_folder_has_at_most_a_dozen_entries() -> None:
    """Except the migrations, where every version adds one."""
    folders = [folder for folder in PACKAGE.rglob("*") if (folder / "__init__.py").exists()]
    sizes = {
        str(folder.relative_to(PACKAGE)): sum(
            entry.suffix == ".py" or (entry / "__init__.py").exists()
            for entry in folder.iterdir()
            if entry.name != "__init__.py"
        )
        for folder in folders
        if folder.name != "versions"
    }
    assert {name: size for name, size in sizes.items() if size > MAX_FOLDER_ENTRIES} == {}


def test_no_file_exceeds_the_line_limit() -> None:
    lengths = {str(file.relative_to(PACKAGE)): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_schema_equals_the_sum_of_its_migrations(database_url: str) -> None:
    database = Database(database_url)
    try:
        migrate(database)
        with database.read() as tx:
            assert compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), metadata) == []
    finally:
        database.close()


def test_test_requests_have_generous_timeouts() -> None:
    """The default of five seconds is too short while other tests use all cores."""
    hasty = [f"{file.relative_to(TESTS)}:{line}" for file in TESTS.rglob("*.py") for line in find_hasty_requests(file)]
    assert hasty == []


def find_hasty_requests(file: Path) -> Iterator[int]:
    """Yields the lines of HTTP calls without a timeout or with a short one."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx" | "httpx2"), attr=name)) if name in REQUESTS:
                timeouts = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
                values = [timeout.value for timeout in timeouts if isinstance(timeout, ast.Constant)]
                if not timeouts or any(isinstance(value, int) and value < LEAST_TIMEOUT_SECONDS for value in values):
                    yield node.lineno
