"""The layout of the code: imports in one direction, and a schema that equals the tables."""

import ast
from collections.abc import Iterator
from functools import cache
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
FILES = sorted(PACKAGE.rglob("*.py"))

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


def test_imports_follow_the_layer_order() -> None:
    wrong = []
    for file in FILES:
        part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        others = {name.split(".")[1] for name in list_imports(file)} - {part}
        wrong += [f"{file.relative_to(PACKAGE)} imports {other}" for other in others - MAY_IMPORT[part]]
    assert wrong == []


def list_imports(file: Path) -> Iterator[str]:
    """Lists the copydesk modules that a file imports, including imports inside functions."""
    for node in parse_imports(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "copydesk")
        else:
            assert node.level == 0, f"{file}:{node.lineno} imports by a relative name"
            if node.module == "copydesk":
                yield from (f"copydesk.{alias.name}" for alias in node.names if alias.name != "__version__")
            elif node.module and node.module.startswith("copydesk."):
                yield node.module


@cache
def parse_imports(file: Path) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.deep
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
    for node in parse_imports(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif node.module in modules:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else str(node.module) for name in names)


def find_circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_schema_equals_the_sum_of_its_migrations(database_url: str) -> None:
    database = Database(database_url)
    try:
        migrate(database)
        with database.read() as tx:
            assert compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), metadata) == []
    finally:
        database.close()
