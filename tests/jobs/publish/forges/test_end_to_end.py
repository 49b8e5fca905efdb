"""From a prompt over the API to a pull request on each forge, its follow-ups, and its end: real HTTP, real git."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.publish.forges.polling import archive_closed_pulls
from copydesk.jobs.publish.forges.reopened_pulls import reopen_pull_request
from copydesk.jobs.workspace.workspace import short_hash
from copydesk_client import Client, Job
from tests.jobs.publish.forges.stage import (
    FILES,
    FORGE_SETUPS,
    GITHUB_APP,
    WEBHOOK_SECRET,
    create_project,
    fake_forge,
    read_file_on_branch,
)
from tests.support.drills import mark_drills
from tests.support.model_server import ModelServer, call
from tests.support.repositories import list_branches, make_repository
from tests.support.scripted_model import ScriptedModel, edit, finish
from tests.support.service import Service, serve

SCRIPT = (
    edit("docs/index.md", "colour", "color"),
    finish("Spell color so", "One word was changed."),
    edit("docs/other.md", "# Other", "# Another"),
    finish("Spell color, name the other", "A heading was changed as well."),
)
POLICY: dict[str, Any] = {"draft": True, "labels": ("docs", "nowhere"), "reviewers": ("rita",)}


@dataclass
class ForgeProject:
    """A project on a forge that sends us webhooks."""

    way: str
    fake: Any
    service: Service

    @property
    def client(self) -> Client:
        return self.service.client

    @property
    def pull(self) -> Any:
        [only] = self.fake.pulls
        return only

    def run_job(self, prompt: str = "Spell color so.", **options: Any) -> Job:
        return self.client.wait(self.client.create_job(prompt, **options)["id"])

    def run_follow_up(self, job: Job, prompt: str = "Name the other one too.") -> Job:
        self.client.message_job(job["id"], prompt)
        return self.client.wait(job["id"])

    def listen(self) -> None:
        self.fake.webhooks.add(f"{self.service.url}/webhooks/{self.service.project.id}", WEBHOOK_SECRET)


@contextmanager
def open_forge_project(way: str, service: Service, folder: Path, **policy: Any) -> Iterator[ForgeProject]:
    with fake_forge(way, folder / "forge") as fake:
        fake.repository.label("docs")
        fake.add_user("rita")
        project = create_project(service.desk, way, fake, **policy)
        key = service.desk.keys.create(project.id, actor="test")[1]
        yield ForgeProject(way, fake, replace(service, project=project, key=key))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("desk")
    local = make_repository(folder / "docs.git", FILES)
    with serve(folder / "data", repository=local, model=lambda _name: ScriptedModel(SCRIPT)) as running:
        yield running


@pytest.fixture(params=mark_drills(FORGE_SETUPS, default=("github", "gitlab", GITHUB_APP)))
def place(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> Iterator[ForgeProject]:
    with open_forge_project(request.param, service, tmp_path, **POLICY) as place:
        yield place


def test_prompt_becomes_a_pull_request_that_follows_the_policy(place: ForgeProject) -> None:
    job = place.run_job()
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    pull = place.pull
    assert (job["prLink"] or "").startswith(place.fake.url)
    assert (job["prLink"] or "").endswith(f"/{pull.number}")
    assert (pull.state, pull.head, pull.base) == ("open", job["branch"], "main")
    assert pull.title.endswith("Spell color so")
    assert pull.draft or pull.title.startswith(("Draft: ", "WIP: "))
    assert pull.labels == ["docs"]
    assert [user.login for user in pull.reviewers] == ["rita"]
    assert all(part in pull.body for part in ("One word was changed.", "> Spell color so.", job["id"]))
    assert "no label 'nowhere'" in (job["message"] or "")
    assert read_file_on_branch(place.fake, job["branch"], "docs/index.md") == b"# Hello\n\nThe color of things.\n"
    assert read_file_on_branch(place.fake, "main", "docs/index.md") == FILES["docs/index.md"]


@pytest.mark.deep
def test_job_from_another_branch_targets_that_branch(place: ForgeProject) -> None:
    place.fake.commit("v2", {"docs/only-here.md": b"# Only here\n"})
    job = place.run_job(ref="v2")
    assert place.pull.base == "v2"
    assert read_file_on_branch(place.fake, job["branch"], "docs/only-here.md") == b"# Only here\n"


@pytest.mark.deep
def test_follow_up_updates_the_same_pull_request_and_keeps_text_by_people(place: ForgeProject) -> None:
    first = place.run_job()
    place.pull.body = f"Before the weekend, please.\n\n{place.pull.body}\n\nThanks!"
    second = place.run_follow_up(first)
    assert (second["status"], second["prLink"]) == ("completed", first["prLink"]), second["message"]
    body = place.pull.body
    assert body.startswith("Before the weekend, please.")
    assert body.endswith("Thanks!")
    words = (
        "One word was changed.",
        "A heading was changed as well.",
        "> Spell color so.",
        "> Name the other one too.",
    )
    assert [body.count(part) for part in words] == [1, 1, 1, 1]
    assert read_file_on_branch(place.fake, first["branch"], "docs/other.md") == b"# Another\n"
    assert list_branches(place.fake.repository.folder).keys() == {"main", first["branch"]}


@pytest.mark.deep
def test_mention_becomes_a_message_and_merge_archives_the_job(place: ForgeProject) -> None:
    place.listen()
    job = place.run_job()
    place.fake.comment(place.pull.number, "@copydesk name the other one too.")
    place.fake.webhooks.flush()
    again = place.client.wait(job["id"])
    assert (again["status"], again["prLink"]) == ("completed", job["prLink"]), again["message"]
    assert "> name the other one too." in place.pull.body
    place.fake.merge(place.pull.number)
    place.fake.webhooks.flush()
    assert place.client.get_job(job["id"])["status"] == "archived"
    assert {status for sent in place.fake.webhooks.deliveries for status in sent.statuses} == {202}
    assert read_file_on_branch(place.fake, "main", "docs/other.md") == b"# Another\n"


@pytest.mark.deep
def test_merge_is_noticed_without_webhooks(place: ForgeProject) -> None:
    job, desk = place.run_job(), place.service.desk
    archive_closed_pulls(desk.database, [place.service.project], desk.secrets)
    assert place.client.get_job(job["id"])["status"] == "completed"
    place.fake.merge(place.pull.number)
    archive_closed_pulls(desk.database, [place.service.project], desk.secrets)
    assert place.client.get_job(job["id"])["status"] == "archived"


@pytest.mark.deep
def test_each_job_of_a_github_app_has_its_own_token(service: Service, tmp_path: Path) -> None:
    with open_forge_project(GITHUB_APP, service, tmp_path) as place:
        jobs = [place.run_job(), place.run_job("Spell color so once more.")]
        assert [job["status"] for job in jobs] == ["completed", "completed"]
        tokens = list(place.fake.tokens.values())
        assert len(tokens) == 2
        assert not any(token.alive for token in tokens)
        assert {pull.author.login for pull in place.fake.pulls} == {"copydesk[bot]"}


@pytest.mark.deep
def test_job_of_a_github_app_waits_until_git_knows_its_new_token(service: Service, tmp_path: Path) -> None:
    with open_forge_project(GITHUB_APP, service, tmp_path) as place:
        place.fake.faults.refuse_new_tokens(times=2, where="info/refs")
        job = place.run_job()
        assert job["status"] == "completed", job["message"]


@pytest.mark.deep
def test_model_over_http_creates_a_pull_request(tmp_path: Path) -> None:
    change = {"old": "colour", "new": "color"}
    seen = short_hash(FILES["docs/index.md"])
    said = [
        call("edit", {"path": "docs/index.md", "hash": seen, "replacements": [change]}),
        call("finish", {"title": "Spell color so", "summary": "One word was changed."}),
    ]
    name = "openai-compatible:scripted"
    local = make_repository(tmp_path / "docs.git", FILES)
    with (
        ModelServer(said, by_turn=True) as server,
        serve(tmp_path / "data", repository=local, models=name, model_url=server.url) as service,
        open_forge_project("gitlab", service, tmp_path) as place,
    ):
        job = place.run_job(model=name)
        assert (job["status"], job["model"]) == ("completed", name), job["message"]
        assert place.pull.title == "Spell color so"
        assert len(server.requests) == 2


@pytest.mark.deep
def test_closed_pull_request_is_reopened_on_its_forge(place: ForgeProject) -> None:
    job = place.run_job()
    desk, project = place.service.desk, place.service.project
    place.pull.state = "closed"
    archive_closed_pulls(desk.database, [project], desk.secrets)
    archived = desk.jobs.get(project.id, job["id"])
    assert archived.review_state == "closed"
    reopen_pull_request(desk.pulls, project, desk.secrets, desk.open_mirror(project), archived, "ada@example.org")
    assert place.pull.state == "open"
    assert desk.jobs.get(project.id, job["id"]).review_state == "open"
