"""The documentation is complete, its links work, and its examples run with the documented output."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import typer
from pydantic import BaseModel

from copydesk import cli
from copydesk.analytics.page_view import DROP_MESSAGES
from copydesk.cli.commands.setup.doctor import MIN_GIT_VERSION
from copydesk.core.errors import RequestError
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.privacy_choices import PRIVACY_CHANGE_NOTE, PRIVACY_CHOICES
from copydesk.core.projects.sealed_secrets import KNOWN_SECRETS
from copydesk.core.settings import Settings, env_variable
from copydesk.desk import open_desk
from copydesk.jobs.job import Phase, Reason, Status
from copydesk.jobs.storage.records import EventKind
from copydesk.web.api import schemas as views
from copydesk.web.app import create_app
from tests.support.dashboard import list_dashboard_routes as dashboard
from tests.support.documented_output import find_differences, matches_shortened, parse_shortened, stable_lines
from tests.support.programs import add_curl
from tests.support.repositories import make_repository

ROOT = Path(__file__).parent.parent
README, API, CLI, SETTINGS = (ROOT / name for name in ("README.md", "docs/api.md", "docs/cli.md", "docs/settings.md"))
PAGES = [
    README,
    ROOT / "client/README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ANALYTICS, EVENTS = ROOT / "docs/analytics.md", ROOT / "docs/collect/events.md"
DASHBOARD = ROOT / "docs/dashboard.md"
CLIENT = ROOT / "client/README.md"
PROMPTS = ROOT / "docs/prompts.md"
GUIDES = [ROOT / "docs/quickstart.md", ROOT / "docs/automations.md"]
"""Pages whose examples create their own repositories."""
EXAMPLES = [README, *GUIDES, API, ANALYTICS, EVENTS, CLIENT, PROMPTS]

VIEWS: tuple[type[BaseModel], ...] = (
    views.NewJobRequest, views.JobResponse, views.JobSourceResponse, views.ChangedFileResponse, views.UsageResponse,
    views.JobListResponse, views.JobEventResponse, views.JobEventListResponse, views.ModelResponse,
    views.ModelListResponse, views.ErrorResponse, views.ErrorDetailResponse,
)  # fmt: skip
NOT_OVER_HTTP = {"conflict"}
MACHINE_PATH = re.compile(r"(?<![\w.…/:])/(?!etc/ssl/certs/)(?:work|home|root|tmp|Users|usr|var|opt|etc|mnt)(?:/|\b)")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S)


def without_code(page: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page))


def heading_anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_setting_is_documented_with_its_default() -> None:
    rows = SETTINGS.read_text("utf-8").splitlines()
    wrong = []
    for name, field in Settings.model_fields.items():
        row = next((line for line in rows if f"| `{env_variable(name)}` |" in line), "")
        default = field.default
        shown = {None: "none", "": "empty", (): "empty"}.get(
            default, f"`{default:g}`" if isinstance(default, float) else None
        )
        shown = shown or f"`{'./' if isinstance(default, Path) else ''}{default}`"
        if row.split(" | ")[1:2] != [shown]:
            wrong.append(f"{name}: {shown}")
    assert wrong == []


def test_every_setting_of_a_project_is_documented_with_its_default() -> None:
    rows = SETTINGS.read_text("utf-8").splitlines()
    wrong = []
    for name, field in {**Policy.model_fields, **CollectionOptions.model_fields}.items():
        row = next((line for line in rows if line.startswith(f"| `{name}` |")), "")
        default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
        if row.split(" | ")[1:2] != [{None: "none", "": "empty"}.get(default, f"`{default}`")]:
            wrong.append(name)
    assert wrong == []


def test_every_privacy_choice_is_documented_in_the_words_of_the_forms() -> None:
    page = (ROOT / "docs/privacy.md").read_text("utf-8")
    assert [c for c in PRIVACY_CHOICES if f"| {c.title} | `{c.name}` | {c.consequence} |" not in page] == []
    assert PRIVACY_CHANGE_NOTE.partition(". ")[2] in " ".join(page.split())


def test_every_reason_why_a_view_is_dropped_is_documented() -> None:
    page = EVENTS.read_text("utf-8")
    assert [reason for reason, said in DROP_MESSAGES.items() if f"| `{reason}` | {said} |" not in page] == []


def test_every_secret_is_documented() -> None:
    section = SETTINGS.read_text("utf-8").partition("## Secrets")[2]
    assert [name for name in KNOWN_SECRETS if f"`{name}`" not in section] == []


def test_every_route_is_documented(tmp_path: Path) -> None:
    desk = open_desk(Settings(data=tmp_path))
    found = set(list_routes(create_app(desk).routes))
    desk.close()
    page = API.read_text("utf-8")
    found -= {f"{method} {route.path}" for route in dashboard() for method in route.methods or ()}
    assert {"POST /v2/agent/{projectId}/job", "GET /review/{token}/pulls/{number}", "GET /openapi.json"} <= found
    assert [route for route in sorted(found) if f"`{route}`" not in page] == []


def list_routes(known: Sequence[Any]) -> Iterator[str]:
    for route in known:
        if hasattr(route, "original_router"):
            yield from list_routes(route.original_router.routes)
        else:
            yield from (f"{method} {route.path_format}" for method in route.methods if method != "HEAD")


def test_every_command_is_documented_with_its_options() -> None:
    page = CLI.read_text("utf-8")
    sections = {part.partition("\n")[0]: part for part in re.split(r"^### ", page, flags=re.M)}
    found = list(list_commands(typer.main.get_command(cli.app), "copydesk"))
    assert len(found) > 15
    for name, command in found:
        assert name in sections, f"{name} has no section"
        for parameter in command.params:
            shown = (
                parameter.opts[0] if parameter.param_type_name == "option" else (parameter.metavar or parameter.name)
            )
            if shown != "--help":
                assert re.search(rf"`[^`]*{re.escape(str(shown))}\b", sections[name], re.I), f"{name}: {shown}"


def list_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    for word, found in (below or {}).items():
        yield from list_commands(found, f"{name} {word}")


def test_every_test_that_the_security_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "security.md").read_text("utf-8"))
    assert len(named) > 40
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text("utf-8")] == []


def test_every_event_kind_is_documented() -> None:
    page = API.read_text("utf-8")
    assert [kind for kind in EventKind if not re.search(rf"^\| `{kind}` \| `", page, re.M)] == []


def test_every_status_phase_reason_and_error_code_is_documented() -> None:
    page = API.read_text("utf-8") + DASHBOARD.read_text("utf-8")
    words = {*Status, *Phase, *Reason, *(refusal.code for refusal in list_refusals(RequestError))} - NOT_OVER_HTTP
    assert [word for word in sorted(words) if f"`{word}`" not in page] == []


def test_every_field_is_documented() -> None:
    page = API.read_text("utf-8")
    names = {field.alias or name for view in VIEWS for name, field in view.model_fields.items()}
    assert [name for name in sorted(names) if f"`{name}`" not in page and f'"{name}"' not in page] == []


def list_refusals(kind: type[RequestError]) -> Iterator[type[RequestError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from list_refusals(below)


def test_readme_begins_with_commands_to_run() -> None:
    first = "\n".join(README.read_text("utf-8").splitlines()[:40])
    assert "scripts/demo" in first
    assert "scripts/test" in first


@pytest.mark.parametrize("page", [README, ROOT / "docs/quickstart.md"], ids=lambda page: page.name)
def test_documented_git_version_is_the_oldest_that_doctor_accepts(page: Path) -> None:
    assert f"git {'.'.join(map(str, MIN_GIT_VERSION))} or newer" in page.read_text("utf-8")


def test_every_link_has_a_target() -> None:
    pages = {page: page.read_text("utf-8") for page in PAGES}
    read_anchors = cache(lambda file: heading_anchors(file.read_text("utf-8")))
    broken = []
    for page, text in pages.items():
        for target in LINK.findall(without_code(text)):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            is_broken = not file.exists() or (anchor and anchor not in read_anchors(file))
            if is_broken and not target.startswith("https://"):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_no_page_contains_paths_of_the_authors_machine() -> None:
    found = {str(page.relative_to(ROOT)): MACHINE_PATH.findall(page.read_text("utf-8")) for page in PAGES}
    assert {page: paths for page, paths in found.items() if paths} == {}


@dataclass(frozen=True)
class DocExample:
    """A block that is run, and its documented output: `json`, whose keys count, or lines of `text`."""

    language: str
    code: str
    kind: str
    expected: str

    @property
    def script(self) -> str:
        return self.code if self.language == "bash" else f"python3 - <<'END_OF_PYTHON'\n{self.code}END_OF_PYTHON\n"


def parse_examples(page: str) -> list[DocExample]:
    """Parses blocks: `bash` and `python` are run, `bash no-run` is not."""
    found: list[DocExample] = []
    for block in FENCE.finditer(page):
        info, text = block["info"], block["text"]
        if info in ("bash", "python"):
            found.append(DocExample(info, text, "", ""))
        elif info in ("json", "text") and found and not found[-1].kind:
            between = page[: block.start()].rpartition("```")[2]
            if "\n#" not in between:
                found[-1] = DocExample(found[-1].language, found[-1].code, info, text)
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serves the real command in a separate process; returns the environment of a person who tries the examples."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {
        "PATH": add_curl(search_path, tmp_path_factory.mktemp("bin")),
        "COPYDESK_DATA": str(tmp_path_factory.mktemp("served") / "copydesk-data"),
        "COPYDESK_URL": f"http://127.0.0.1:{port}",
        "COPYDESK_WATCH_MINUTES": "0.02",
        "COPYDESK_QUIET_MINUTES": "0",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "copydesk", "serve", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"{environment['COPYDESK_URL']}/readyz", server)
        yield environment
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_for(address: str, server: "subprocess.Popen[bytes]") -> None:
    while True:
        assert server.poll() is None, "the server ended"
        try:
            if httpx.get(address, timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)


@pytest.mark.deep
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run_and_print_the_documented_output(page: Path, served: dict[str, str], tmp_path: Path) -> None:
    shown = parse_examples(page.read_text("utf-8"))
    environment = dict(served)
    delete_projects(served)
    if page not in GUIDES:
        files = {
            "docs/index.md": b"# Handbook\n\nPick a colour, then follow the [setup](setup.md).\n",
            "docs/setup.md": b"# Setup\n\nInstall the program. To leave out setup, read on.\n",
        }
        make_repository(tmp_path / "handbook", files)
    if page in (API, ANALYTICS, EVENTS, CLIENT, PROMPTS):
        environment |= create_project(served, tmp_path)
    mark = "------ end of example ------"
    script = "set -euo pipefail\n" + "".join(f"{example.script}\necho; echo '{mark}'\n" for example in shown)
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    faults = [
        (example.code, differences)
        for example, printed in zip(shown, done.stdout.split(mark), strict=False)
        if (differences := find_example_faults(example, printed))
    ]
    assert not faults, "\n".join(f"{code}: {differences}" for code, differences in faults)


def find_example_faults(example: DocExample, printed: str) -> list[str]:
    """Returns how the output differs from the documented one, which may be shortened by … only."""
    if example.kind == "json":
        return find_differences(parse_shortened(example.expected), json.loads(printed))
    if example.kind == "text" and not matches_shortened(stable_lines(example.expected), stable_lines(printed)):
        return [printed]
    return []


def create_project(served: dict[str, str], folder: Path) -> dict[str, str]:
    def run_command(*arguments: str) -> dict[str, Any]:
        run = subprocess.run(
            ["copydesk", *arguments, "--json"], env=served, cwd=folder, capture_output=True, check=True
        )
        facts: dict[str, Any] = json.loads(run.stdout)
        return facts

    project = run_command("project", "create", "Handbook", "--repo", "handbook")["projectId"]
    return {"COPYDESK_PROJECT": project, "COPYDESK_API_KEY": run_command("key", "create", "--project", project)["key"]}


def delete_projects(served: dict[str, str]) -> None:
    """Deletes the projects of other pages, which may have the same name."""
    listed = subprocess.run(["copydesk", "project", "list", "--json"], env=served, capture_output=True, check=True)
    for project in json.loads(listed.stdout):
        subprocess.run(
            ["copydesk", "project", "delete", "--project", project["projectId"], "--yes"], env=served, check=True
        )


@pytest.mark.deep
def test_shortened_examples_must_say_so() -> None:
    assert find_differences(parse_shortened('{"a": 1, …}'), {"a": 1, "b": 2}) == []
    assert find_differences(parse_shortened('{"a": 1}'), {"a": 1, "b": 2}) == [".b is left out"]
    assert find_differences(parse_shortened('{"a": 1, "c": [{"d": 1}, …], …}'), {"a": 1, "c": [{"d": 1}] * 2}) == []
    assert find_differences(parse_shortened('[{"a": 1}]'), [{"a": 1}, {"a": 2}]) == [" has 2 items"]
    assert find_differences(parse_shortened('{"a": "key_…"}'), {"b": 1}) == [".b is left out", ".a"]
    assert matches_shortened(["a", "…", "d"], ["a", "b", "c", "d"])
    assert not matches_shortened(["a", "d"], ["a", "b", "d"])
    assert not matches_shortened(["a", "…", "c"], ["a", "b", "c", "d"])
