"""A served Copydesk whose repository is reached by git over HTTP, and whose model follows the script of a test."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.support.git_http import GitHttpServer
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, Turn
from tests.support.service import Service, serve


@dataclass(frozen=True)
class CiService:
    service: Service
    model: ScriptedModel

    def follow(self, *script: Turn) -> None:
        self.model.script = script

    @property
    def inputs(self) -> dict[str, str]:
        return {"url": self.service.url, "project": self.service.project.id}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CiService]:
    folder = tmp_path_factory.mktemp("ci")
    repository = make_repository(folder / "git/docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    model = ScriptedModel(())
    with (
        GitHttpServer(folder / "git") as git,
        serve(folder / "data", repository=repository, model=lambda _name: model) as service,
    ):
        project = service.desk.projects.create("Docs", repository=git.url("docs.git"), ref="main", actor="test")
        key = service.desk.keys.create(project.id, actor="test")[1]
        yield CiService(replace(service, project=project, key=key), model)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves Copydesk without a worker, so that no job ever ends."""
    folder = tmp_path_factory.mktemp("idle")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service
