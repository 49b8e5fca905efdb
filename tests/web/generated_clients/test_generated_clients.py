"""Clients that public generators build from /openapi.json: they can call every operation of a running Copydesk."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import require_node, skip_missing
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

PYTHON_GENERATOR = "openapi-python-client==0.29.1"
NPM_PACKAGES = ("@hey-api/openapi-ts@0.99.0", "typescript@5.9.3", "zod@4.6.7", "@types/node@26.6.6")
CALLS = Path(__file__).parent
FILES = {"index.md": b"# Lamplight\n\nPick a colour.\nThen start.\n"}
INSTALL_SECONDS, CALL_SECONDS = 600, 300
TYPESCRIPT_CONFIG = {
    "compilerOptions": {
        "strict": True,
        "target": "es2022",
        "module": "esnext",
        "moduleResolution": "bundler",
        "lib": ["es2023", "dom", "dom.iterable"],
        "types": ["node"],
        "outDir": "out",
    },
    "include": ["src"],
}
GENERATOR_CONFIG = {
    "input": "openapi.json",
    "output": {"path": "src/client", "module": {"extension": ".js"}},
    "plugins": [
        "@hey-api/client-fetch",
        "@hey-api/typescript",
        "zod",
        {"name": "@hey-api/sdk", "validator": {"response": "zod"}},
    ],
}

pytestmark = pytest.mark.drill


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", FILES)
    with serve(tmp_path / "data", repository=repository) as service:
        yield service


def run(*command: str | Path, folder: Path, seconds: float = CALL_SECONDS) -> str:
    """Returns the output of a program. Fails the test if the program fails."""
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    assert result.returncode == 0, f"{command[0]}:\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def install(name: str, *command: str | Path, folder: Path) -> None:
    """Installs a generator from its public registry. Skips the test if that is not possible."""
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if result.returncode:
        skip_missing(name, f"Its registry must be reachable: {result.stderr.strip()[-300:]}")


def list_operations(service: Service) -> dict[str, str]:
    """Returns the names of all operations, by name in small letters without separators."""
    document = service.http.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    return {operation["operationId"].lower(): operation["operationId"] for operation in operations}


def save_document(service: Service, folder: Path) -> Path:
    file = folder / "openapi.json"
    file.write_text(service.http.get("/openapi.json").text, "utf-8")
    return file


def describe(service: Service) -> tuple[str, str, str, str]:
    return service.url, service.key, service.project.id, service.project.site_id


def normalize(names: Any) -> set[str]:
    return {name.lower().replace("_", "") for name in names}


def test_client_generated_for_python_calls_every_operation(service: Service, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    run(sys.executable, "-m", "venv", "venv", folder=tmp_path)
    install("openapi-python-client", python, "-m", "pip", "install", "--quiet", PYTHON_GENERATOR, folder=tmp_path)
    document = save_document(service, tmp_path)
    options = ("--path", document, "--output-path", tmp_path / "copydesk_api", "--meta", "none")
    output = run(python, "-m", "openapi_python_client", "generate", *options, folder=tmp_path)
    assert "will not be generated" not in output
    shutil.copy(CALLS / "python_calls.py", tmp_path)
    called = json.loads(run(python, "python_calls.py", *describe(service), folder=tmp_path))
    assert normalize(called) == list_operations(service).keys()


def test_client_generated_for_typescript_calls_every_operation(service: Service, tmp_path: Path) -> None:
    node = require_node()
    npm = shutil.which("npm") or skip_missing("npm", "It comes with Node.")
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}', "utf-8")
    install("openapi-ts", npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *NPM_PACKAGES, folder=tmp_path)
    save_document(service, tmp_path)
    (tmp_path / "openapi-ts.config.mjs").write_text(f"export default {json.dumps(GENERATOR_CONFIG)};\n", "utf-8")
    run(node, "node_modules/@hey-api/openapi-ts/bin/run.js", folder=tmp_path)
    shutil.copy(CALLS / "typescript_calls.ts", tmp_path / "src")
    (tmp_path / "tsconfig.json").write_text(json.dumps(TYPESCRIPT_CONFIG), "utf-8")
    run(node, "node_modules/typescript/bin/tsc", folder=tmp_path)
    called = json.loads(run(node, "out/typescript_calls.js", *describe(service), folder=tmp_path))
    assert normalize(called) == list_operations(service).keys()
