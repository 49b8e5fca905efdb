"""Projects on a fake forge, ready for jobs over real HTTP and real git."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from tests.jobs.publish.forges.conftest import TOKEN
from tests.jobs.publish.forges.extra_calls import FAKE_FORGES, VERSION_MATRIX, forge_kind
from tests.jobs.publish.forges.test_github_app import make_key_pair
from tests.support.repositories import make_repository, read_file

WEBHOOK_SECRET = "the-secret-of-the-webhook"
GITHUB_APP = "github-app"
FORGE_SETUPS = (*FAKE_FORGES, GITHUB_APP)
"""Each forge with a token, and GitHub with an App."""
REPOSITORY = "acme/docs"
FILES = {"docs/index.md": b"# Hello\n\nThe colour of things.\n", "docs/other.md": b"# Other\n"}


@contextmanager
def fake_forge(way: str, folder: Path, files: dict[str, bytes] = FILES, branch: str = "main") -> Iterator[Any]:
    """Serves a forge with a repository of these files; asserts on exit that all requests match the schema."""
    make_repository(folder / f"{REPOSITORY}.git", files, branch)
    with VERSION_MATRIX["github" if way == GITHUB_APP else way](folder, REPOSITORY) as fake:
        if way == GITHUB_APP:
            fake.install_app(make_key_pair()[1], app_id=7)
        else:
            fake.add_token(TOKEN)
        yield fake
        assert fake.violations == []


def create_project(desk: Desk, way: str, fake: Any, *, ref: str = "main", root: str = "", **policy: Any) -> Project:
    """Creates a project with its sealed secrets."""
    kind = forge_kind(way)
    rules = Policy(app_id="7" if way == GITHUB_APP else None, **policy)
    address = fake.repository_url(REPOSITORY)
    about: dict[str, Any] = {"ref": ref, "root": root, "forge": kind, "policy": rules}
    project = desk.projects.create("Docs", repository=address, actor="test", **about)
    sealed = {
        "webhook_secret": WEBHOOK_SECRET,
        **({"app_key": make_key_pair()[0]} if way == GITHUB_APP else {"forge_token": TOKEN}),
    }
    for name, value in sealed.items():
        desk.secrets.set(project.id, name, value, actor="test")
    return project


def read_file_on_branch(fake: Any, branch: str, path: str) -> bytes | None:
    return read_file(fake.repository.folder, branch, path)


def watch_calls(fake: Any, on_call: Callable[[str, str], None]) -> None:
    """Runs `on_call("received" or "done", "METHOD /path")` at each API call from now on, in its thread."""
    original = fake.answer

    def answer(method: str, target: str, headers: Any, body: bytes) -> Any:
        on_call("received", f"{method} {target}")
        response = original(method, target, headers, body)
        on_call("done", f"{method} {target}")
        return response

    fake.answer = answer
