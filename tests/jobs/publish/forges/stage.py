"""Projects on a fake forge, ready for jobs over real HTTP and real git."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from tests.jobs.publish.forges.conftest import TOKEN
from tests.jobs.publish.forges.extra_calls import FAKES
from tests.jobs.publish.forges.test_github_app import pair
from tests.support.repositories import file_on, make_repository

WEBHOOK_SECRET = "the-secret-of-the-webhook"
APP = "github-app"
WAYS = (*FAKES, APP)
"""Each forge with a token, and GitHub with an App."""
REPOSITORY = "acme/docs"
FILES = {"docs/index.md": b"# Hello\n\nThe colour of things.\n", "docs/other.md": b"# Other\n"}


@contextmanager
def fake_forge(way: str, folder: Path, files: dict[str, bytes] = FILES, branch: str = "main") -> Iterator[Any]:
    """Serves a forge with a repository of these files; asserts on exit that all requests match the schema."""
    make_repository(folder / f"{REPOSITORY}.git", files, branch)
    with FAKES["github" if way == APP else way](folder, REPOSITORY) as fake:
        if way == APP:
            fake.install_app(pair()[1], app_id=7)
        else:
            fake.add_token(TOKEN)
        yield fake
        assert fake.violations == []


def project_on(desk: Desk, way: str, fake: Any, *, ref: str = "main", root: str = "", **policy: Any) -> Project:
    """Creates a project with its sealed secrets."""
    kind = "github" if way == APP else way
    rules = Policy(app_id="7" if way == APP else None, **policy)
    address = fake.repository_url(REPOSITORY)
    about: dict[str, Any] = {"ref": ref, "root": root, "forge": kind, "policy": rules}
    project = desk.projects.create("Docs", repository=address, actor="test", **about)
    sealed = {"webhook_secret": WEBHOOK_SECRET, **({"app_key": pair()[0]} if way == APP else {"forge_token": TOKEN})}
    for name, value in sealed.items():
        desk.secrets.set(project.id, name, value, actor="test")
    return project


def on_branch(fake: Any, branch: str, path: str) -> bytes | None:
    return file_on(fake.repository.folder, branch, path)


def watched(fake: Any, on_call: Callable[[str, str], None]) -> None:
    """Runs `on_call("received" or "done", "METHOD /path")` at each API call from now on, in its thread."""
    really = fake.answer

    def answer(method: str, target: str, headers: Any, body: bytes) -> Any:
        on_call("received", f"{method} {target}")
        answered = really(method, target, headers, body)
        on_call("done", f"{method} {target}")
        return answered

    fake.answer = answer
