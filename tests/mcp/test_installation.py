"""The SDK is optional, and imported only where it is used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.core.ids import new_id, new_key
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support.mcp_clients import MCP_HEADERS
from tests.support.migrated_databases import new_sqlite

ROOT = Path(__file__).parent.parent.parent
HIDE_SDK = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
RUN_COMMAND = HIDE_SDK + "sys.argv = ['copydesk', 'mcp']; from copydesk.cli import main; main()"
CALL_SERVER = """
import json, sys
from pathlib import Path
from starlette.testclient import TestClient
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.web.app import create_app

data, url, key, headers = sys.argv[1:]
app = create_app(open_desk(Settings(data=Path(data), database_url=url, base_url="http://testserver")))
sdk = sorted(name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types") and sys.modules[name])
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
headers = json.loads(headers) | {"Authorization": f"Bearer {key}"}
response = TestClient(app).post("/mcp", json=body, headers=headers)
print(json.dumps({"sdk": sdk, "status": response.status_code, "text": response.text}))
"""


def run_python(code: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=inherited | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.deep
@pytest.mark.parametrize("is_installed", [True, False])
def test_server_imports_the_sdk_when_it_is_used_and_says_how_to_install_it(tmp_path: Path, is_installed: bool) -> None:
    url = new_sqlite(tmp_path)
    desk = open_desk(Settings(data=tmp_path, database_url=url))
    project = desk.projects.create("Docs", repository=str(tmp_path), ref="main", actor="test")
    key = desk.keys.create(project.id, actor="test")[1]
    desk.close()
    code = CALL_SERVER if is_installed else HIDE_SDK + CALL_SERVER
    done = run_python(code, str(tmp_path), url, key, json.dumps(MCP_HEADERS))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["sdk"] == []
    if is_installed:
        assert answer["status"] == 200
        assert "create_job" in answer["text"]
    else:
        assert answer["status"] == 501
        assert json.loads(answer["text"])["code"] == "mcp_not_installed"
        assert "In a checkout, run 'scripts/setup server'." in answer["text"]
        assert "pip install 'copydesk[mcp]'" in answer["text"]


def test_command_says_how_to_install_the_sdk() -> None:
    done = run_python(RUN_COMMAND, COPYDESK_API_KEY=new_key(), COPYDESK_PROJECT=new_id("proj"))
    assert done.returncode == 1
    assert "In a checkout, run 'scripts/setup server'." in done.stderr
    assert "pip install 'copydesk[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.deep
@pytest.mark.parametrize(
    ("given", "missing", "exit_code"),
    [({}, "COPYDESK_PROJECT", 2), ({"COPYDESK_PROJECT": f"proj_{'0' * 26}"}, "COPYDESK_API_KEY", 1)],
)
def test_command_says_which_variable_is_missing(given: dict[str, str], missing: str, exit_code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "copydesk", "mcp"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **given},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == exit_code
    assert missing in done.stderr
    assert done.stdout == ""


@pytest.mark.deep
def test_command_ends_with_its_input_and_prints_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "copydesk", "mcp"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "COPYDESK_URL": "http://127.0.0.1:9",
            "COPYDESK_API_KEY": new_key(),
            "COPYDESK_PROJECT": new_id("proj"),
        },
        input='{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
