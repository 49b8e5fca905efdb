"""A documentation folder that does not exist: it is reported, and a job creates it only when it is asked to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.projects.repository_warnings import find_repository_warnings
from copydesk.jobs.workflow.folder_requests import asks_for_folder
from copydesk_client import Client, Job
from tests.jobs.publish.forges.stage import create_project, fake_forge
from tests.support.repositories import make_repository, read_file
from tests.support.scripted_model import ScriptedModel, calls, finish
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
NEW_PAGE = {"path": "handbook/index.md", "content": "# Handbook\n"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("folder")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    script = [calls(("write", NEW_PAGE)), finish("Start the handbook")]
    with serve(folder / "data", repository=repository, model=lambda _: ScriptedModel(script)) as running:
        yield running


def run_job(service: Service, root: str, prompt: str) -> Job:
    repository = str(service.repository)
    project = service.desk.projects.create("Docs", repository=repository, ref="main", root=root, actor="test")
    with Client(service.url, service.desk.keys.create(project.id, actor="test")[1], project.id) as client:
        return client.wait(client.create_job(prompt)["id"])


def test_job_without_its_folder_fails_before_the_model_is_asked(service: Service) -> None:
    job = run_job(service, "handbook", "Replace colour with color on every page.")
    assert (job["status"], job["reason"], job["usage"]["requests"]) == ("failed", "repository_error", 0)
    assert "There is no folder handbook on the branch main" in (job["message"] or "")
    assert "ask a job to create the folder handbook" in (job["message"] or "")


@pytest.mark.deep
def test_job_creates_its_folder_when_it_is_asked_to(service: Service) -> None:
    job = run_job(service, "handbook", "Create the folder handbook with a first page.")
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    assert read_file(service.repository, job["branch"], "handbook/index.md") == b"# Handbook\n"


@pytest.mark.parametrize(
    ("prompt", "folder", "asked"),
    [
        ("Create the folder docs.", "docs", True),
        ("Write docs/index.md", "docs", True),
        ("Start a new directory called docs", "docs", True),
        ("Put it into site/docs", "site/docs", True),
        ("Improve the docs", "docs", False),
        ("Create the folder docs-old", "docs", False),
        ("Move it to old-docs/index.md", "docs", False),
        ("Write site/docs/index.md", "docs", False),
        ("Create the folder", "docs", False),
    ],
)
def test_only_a_prompt_that_names_the_folder_asks_for_it(prompt: str, folder: str, asked: bool) -> None:
    assert asks_for_folder(prompt, folder) is asked


@pytest.mark.deep
@pytest.mark.parametrize("forge", ["github", "gitlab", "gitea"])
def test_folder_and_branch_are_checked_on_a_forge(tmp_path: Path, forge: str) -> None:
    desk = open_desk(Settings(data=tmp_path / "data"))
    with fake_forge(forge, tmp_path) as fake:
        for values, words in (
            ({"root": "docs"}, None),
            ({"root": "handbook"}, "There is no folder handbook on the branch main"),
            ({"root": "docs/index.md"}, "There is no folder docs/index.md"),
            ({"root": "docs", "ref": "next"}, "The repository has no branch next"),
        ):
            project = create_project(desk, forge, fake, **values)
            warnings = find_repository_warnings(project, desk.secrets.all(project.id), seconds=60)
            assert (warnings == []) if words is None else warnings[0].startswith(words), (values, warnings)
    desk.close()
