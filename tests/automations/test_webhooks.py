"""Webhooks about pushes, tags and releases: they make a look due, and the look finds what is really there."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import select, update

from copydesk.automations.automation import Automation
from copydesk.automations.tables import automation_runs, look_requests
from copydesk.automations.triggers.look_requests import LOOK_INTERVAL_MS, LookRequests, RequestedLooks
from copydesk.automations.triggers.watch import RepositoryWatch
from copydesk.core import clock
from copydesk.core.projects.projects import Project
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.forges.webhooks.receiver import delete_old_comments
from copydesk.jobs.storage.tables import webhook_deliveries
from tests.jobs.publish.forges.conftest import TOKEN
from tests.jobs.publish.forges.extra_calls import DISTINCT_FORGES, FAKE_FORGES
from tests.support.drills import mark_drills
from tests.support.forges.pushes import ZEROS, send_ping, send_push, send_release
from tests.support.forges.webhooks import Delivery
from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve

SECRET = "the-webhook-secret"
MAIN = "refs/heads/main"
QUIET_MS = 60 * clock.SECOND


@dataclass
class HookedProject:
    """A project on a forge with a webhook, and a context repository `code` on the same forge."""

    fake: Any
    service: Service
    project: Project

    def create(self, **trigger: Any) -> Automation:
        fields = {"name": "Follow", "prompt": "Replace colour with color.", "trigger": trigger, "grouping": "new"}
        automation = self.service.desk.automations.create(self.project, fields, actor="test")
        self.look_at_all()  # the first look starts no run
        return automation

    def build_watch(self, quiet_ms: int) -> RepositoryWatch:
        desk = self.service.desk
        listing = desk.list_watched_repositories
        return RepositoryWatch(desk.database, desk.automations.firing, listing, quiet_ms=quiet_ms, lease_ms=60_000)

    def look_at_all(self) -> None:
        self.build_watch(0).look()

    def do_requested_looks(self, quiet_ms: int = 0) -> None:
        """Does what a worker of another server does every few seconds."""
        requests = LookRequests(self.service.desk.database, self.service.desk.contexts)
        RequestedLooks(requests, self.build_watch(quiet_ms)).tick()

    def push(self, path: str = "acme/docs", *, branch: str = "main", message: str = "Change") -> str:
        """Commits to a repository of the forge, without a webhook."""
        repository = self.fake.repositories[path]
        before = repository.heads().get(branch, ZEROS)
        git = pygit2.Repository(str(repository.folder))
        builder = git.TreeBuilder()
        builder.insert("page.md", git.create_blob(message.encode()), pygit2.enums.FileMode.BLOB)
        who = pygit2.Signature("Ada", "ada@example.org", 1_700_000_000, 0)
        parents = [before] if before != ZEROS else []
        return str(git.create_commit(f"refs/heads/{branch}", who, who, message, builder.write(), parents))

    def statuses(self) -> list[int]:
        self.fake.webhooks.flush()
        return [status for delivery in self.fake.webhooks.deliveries for status in delivery.statuses]

    def deliver(self, delivery: Delivery, **changed: Any) -> httpx.Response:
        """Sends a recorded delivery again, with other headers or another body if they are given."""
        headers = {"Content-Type": "application/json", **self.fake.sign(delivery, delivery.hook)}
        body = changed.pop("body", delivery.body)
        return httpx.post(delivery.hook.url, content=body, headers={**headers, **changed}, timeout=30)

    def requests(self) -> dict[str, int | None]:
        """Returns when each repository is due."""
        query = select(look_requests).where(look_requests.c.project_id == self.project.id)
        with self.service.desk.database.read() as tx:
            return {row.name: row.due_at for row in tx.execute(query)}

    def due_names(self) -> list[str]:
        return sorted(name for name, due_at in self.requests().items() if due_at is not None)

    def let_time_pass(self, ms: int) -> None:
        earlier = {name: look_requests.c[name] - ms for name in ("due_at", "looked_at")}
        with self.service.desk.database.write() as tx:
            tx.execute(update(look_requests).values(earlier))

    def runs(self, automation: Automation) -> list[Any]:
        query = select(automation_runs).where(automation_runs.c.automation_id == automation.id)
        with self.service.desk.database.read() as tx:
            return list(tx.execute(query.order_by(automation_runs.c.id)))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves one Copydesk for all tests, without a worker: the tests look."""
    folder = tmp_path_factory.mktemp("hooks")
    docs = make_repository(folder / "docs.git", {"a.md": b"#\n"})
    with serve(folder / "data", repository=docs, with_worker=False) as running:
        yield running


def open_project(kind: str, fake: Any, service: Service) -> HookedProject:
    fake.add_token(TOKEN, user="copydesk")
    fake.add_repository("acme/code")
    desk = service.desk
    project = desk.projects.create(
        "Docs", repository=fake.repository_url("acme/docs"), ref="main", forge=kind, actor="test"
    )
    for name, value in (("forge_token", TOKEN), ("webhook_secret", SECRET)):
        desk.secrets.set(project.id, name, value, actor="test")
    hooked = HookedProject(fake, service, project)
    hooked.push("acme/code")
    desk.contexts.add(project, NewContext("code", fake.repository_url("acme/code"), "main", kind), actor="test")
    fake.webhooks.add(f"{service.url}/webhooks/{project.id}", SECRET)
    return hooked


@pytest.fixture(params=mark_drills(FAKE_FORGES, default=DISTINCT_FORGES))
def place(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> Iterator[HookedProject]:
    with FAKE_FORGES[request.param](tmp_path) as fake:
        yield open_project(request.param, fake, service)


@pytest.fixture
def github(service: Service, tmp_path: Path) -> Iterator[HookedProject]:
    with FAKE_FORGES["github"](tmp_path) as fake:
        yield open_project("github", fake, service)


@pytest.mark.deep
def test_push_starts_a_run_for_what_the_repository_contains(place: HookedProject) -> None:
    automation = place.create(type="content_update")
    head = place.push(message="Say hello")
    send_push(place.fake, MAIN, after="a" * 40, before="b" * 40)  # what the payload says does not matter
    assert set(place.statuses()) == {202}
    assert place.runs(automation) == []
    place.do_requested_looks()
    [run] = place.runs(automation)
    assert run.trigger["after"] == {"": {"main": head}}
    assert place.due_names() == []


@pytest.mark.deep
def test_push_to_a_context_repository_starts_a_run(place: HookedProject) -> None:
    code, docs = place.create(type="code_change"), place.create(type="content_update")
    head = place.push("acme/code")
    place.push("acme/docs")
    send_push(place.fake, MAIN, head, repository=place.fake.repositories["acme/code"])
    assert set(place.statuses()) == {202}
    assert place.due_names() == ["code"]
    place.do_requested_looks()
    assert [run.trigger["after"] for run in place.runs(code)] == [{"code": {"main": head}}]
    assert place.runs(docs) == []  # nobody said that the documentation changed


@pytest.mark.deep
def test_pushed_tag_and_release_start_one_run(place: HookedProject) -> None:
    automation = place.create(type="release")
    code = place.fake.repositories["acme/code"]
    git = pygit2.Repository(str(code.folder))
    head = git.lookup_reference(MAIN).target
    git.create_reference("refs/tags/v1.0", head)
    send_push(place.fake, "refs/tags/v1.0", str(head), repository=code)
    place.statuses()
    place.do_requested_looks()
    assert [run.trigger["tags"] for run in place.runs(automation)] == [["code v1.0"]]
    send_release(place.fake, "v1.0")  # for the documentation, whose releases nothing watches
    place.statuses()
    assert place.due_names() == []


@pytest.mark.deep
def test_release_makes_a_look_due(place: HookedProject) -> None:
    place.create(type="release")
    desk = place.service.desk
    desk.contexts.remove(place.project.id, "code", actor="test")
    address = place.fake.repository_url("acme/docs")
    desk.contexts.add(place.project, NewContext("code", address, "main", place.project.forge), actor="test")
    send_release(place.fake, "v1.0", removed=True)
    place.statuses()
    assert place.due_names() == []
    send_release(place.fake, "v1.0")
    assert set(place.statuses()) == {202}
    assert place.due_names() == ["code"]


@pytest.mark.deep
def test_deletion_other_branch_and_unwatched_kind_make_no_look_due(place: HookedProject) -> None:
    place.create(type="content_update")
    send_push(place.fake, MAIN, after=ZEROS, before="b" * 40)
    send_push(place.fake, "refs/heads/feature", after="a" * 40)
    send_push(place.fake, "refs/tags/v1.0", after="a" * 40)
    send_push(place.fake, MAIN, after="a" * 40, repository=place.fake.repositories["acme/code"])
    assert set(place.statuses()) == {202}
    assert place.requests() == {}


@pytest.mark.deep
def test_branch_created_without_commits_makes_a_look_due(place: HookedProject) -> None:
    place.create(type="content_update")
    send_push(place.fake, MAIN, after="a" * 40, before=ZEROS)
    assert set(place.statuses()) == {202}
    assert place.due_names() == [""]


@pytest.mark.deep
def test_repeated_delivery_is_ignored_and_another_waits_for_its_interval(place: HookedProject) -> None:
    place.create(type="content_update")
    send_push(place.fake, MAIN, after="a" * 40, before="b" * 40)
    place.statuses()
    place.do_requested_looks()
    delivery = place.fake.webhooks.deliveries[0]
    answer = place.deliver(delivery)
    assert (answer.status_code, answer.json()["outcome"]) == (202, "ignored")
    assert answer.json()["why"] == "This delivery was already received."
    assert place.due_names() == []
    before = clock.now()
    for _ in range(20):  # somebody who repeats a delivery under other ids causes one look, ten seconds later
        again = Delivery(delivery.event, delivery.body, delivery.hook)
        assert place.deliver(again).json()["outcome"] == "kept"
    [due_at] = place.requests().values()
    assert due_at is not None
    assert before + LOOK_INTERVAL_MS - 5000 < due_at <= clock.now() + LOOK_INTERVAL_MS
    place.do_requested_looks()
    assert place.due_names() == [""]  # not yet
    place.let_time_pass(LOOK_INTERVAL_MS)
    place.do_requested_looks()
    assert place.due_names() == []


def test_forged_delivery_is_refused(place: HookedProject) -> None:
    place.create(type="content_update")
    send_push(place.fake, MAIN, after="a" * 40)
    place.statuses()
    delivery = place.fake.webhooks.deliveries[0]
    headers = {name: "0" * 64 for name in place.fake.sign(delivery, delivery.hook) if "signature" in name.lower()}
    forged = place.deliver(delivery, **(headers or {"X-Gitlab-Token": "wrong"}))
    assert forged.status_code == 401


@pytest.mark.deep
def test_quiet_period_collects_pushes_and_the_run_starts_at_its_end(place: HookedProject) -> None:
    automation = place.create(type="content_update")
    for number in range(3):
        head = place.push(message=f"Step {number}")
        send_push(place.fake, MAIN, head)
        place.statuses()
        place.let_time_pass(LOOK_INTERVAL_MS)
        place.do_requested_looks(QUIET_MS)
    assert place.runs(automation) == []
    [due_at] = place.requests().values()
    assert due_at is not None
    assert 0 < due_at - clock.now() <= QUIET_MS  # looks again by itself, without another delivery
    place.let_time_pass(QUIET_MS)
    place.do_requested_looks()
    assert [run.trigger["after"] for run in place.runs(automation)] == [{"": {"main": head}}]


def test_renamed_repository_is_told_so(place: HookedProject) -> None:
    place.create(type="content_update")
    send_push(place.fake, MAIN, after="a" * 40)
    place.statuses()
    delivery = place.fake.webhooks.deliveries[0]
    text = delivery.body.decode().replace("acme/docs", "acme/handbook")
    renamed = Delivery(delivery.event, text.encode(), delivery.hook)
    answer = place.deliver(renamed)
    assert answer.status_code == 202
    assert answer.json()["why"].startswith("acme/handbook is not a repository of this project. If it was renamed")


@pytest.mark.deep
def test_ping_and_payload_as_a_form_are_accepted(github: HookedProject) -> None:
    github.create(type="content_update")
    send_ping(github.fake)
    assert github.statuses() == [202]
    assert github.requests() == {}
    send_push(github.fake, MAIN, after="a" * 40, before="b" * 40)
    github.statuses()
    with github.service.desk.database.write() as tx:
        tx.execute(update(look_requests).values(due_at=None))
    delivery = github.fake.webhooks.deliveries[-1]
    form = Delivery(delivery.event, urlencode({"payload": delivery.body.decode()}).encode(), delivery.hook)
    media_type = {"Content-Type": "application/x-www-form-urlencoded"}
    assert github.deliver(form, **media_type).json()["outcome"] == "kept"
    assert github.due_names() == [""]
    for body in (b"payload=no", b"a=b", b"\xff"):
        broken = Delivery(delivery.event, body, delivery.hook)
        assert github.deliver(broken, **media_type).status_code == 400


@pytest.mark.deep
def test_huge_and_odd_payloads_are_answered(github: HookedProject) -> None:
    github.create(type="content_update")
    send_push(github.fake, MAIN, after="a" * 40)
    github.statuses()
    delivery = github.fake.webhooks.deliveries[0]
    payload = delivery.payload
    commits = [{"id": "a" * 40, "message": "x" * 2000, "added": ["p"]} for _ in range(2048)]
    answers = []
    for changed in ({"commits": commits}, {"ref": 7}, {"ref": "main"}, {"repository": None}, {"after": None}):
        body = json.dumps({**payload, **changed}).encode()
        answers.append(github.deliver(Delivery("push", body, delivery.hook)))
    assert [answer.status_code for answer in answers] == [202] * 5
    assert [answer.json()["outcome"] for answer in answers] == ["kept", "ignored", "ignored", "ignored", "kept"]
    too_large = json.dumps({**payload, "commits": commits * 2}).encode()
    assert github.deliver(Delivery("push", too_large, delivery.hook)).status_code == 413


@pytest.mark.deep
def test_context_repository_on_another_forge_and_a_project_on_none(service: Service, tmp_path: Path) -> None:
    """The documentation is a local repository. Its context repository on GitLab sends webhooks to the project."""
    with FAKE_FORGES["gitlab"](tmp_path) as fake:
        fake.add_token(TOKEN, user="copydesk")
        desk = service.desk
        desk.secrets.set(service.project.id, "webhook_secret", SECRET, actor="test")
        address = fake.repository_url("acme/docs")
        desk.contexts.add(service.project, NewContext("code", address, "main", "gitlab", TOKEN), actor="test")
        fake.webhooks.add(f"{service.url}/webhooks/{service.project.id}", SECRET)
        hooked = HookedProject(fake, service, service.project)
        automation = hooked.create(type="code_change")
        head = hooked.push()
        send_push(fake, MAIN, head)
        assert hooked.statuses() == [202]
        hooked.do_requested_looks()
        assert [run.trigger["after"] for run in hooked.runs(automation)] == [{"code": {"main": head}}]
        fake.open(fake.repository, author=fake.users["copydesk"], head="main", base="main", title="x", body="")
        fake.close(1)  # a pull request of a context repository is nothing to us
        assert set(hooked.statuses()) == {202}


@pytest.mark.deep
def test_request_of_a_killed_worker_is_done_by_another_one(github: HookedProject) -> None:
    github.create(type="content_update")
    send_push(github.fake, MAIN, after="a" * 40)
    github.statuses()
    requests = LookRequests(github.service.desk.database, github.service.desk.contexts)
    [claimed] = requests.claim_due()
    assert list(requests.claim_due()) == []  # only one worker looks
    github.let_time_pass(requests.claim_ms)
    assert list(requests.claim_due()) == [claimed]


@pytest.mark.deep
def test_delivery_during_a_look_stays_due(github: HookedProject) -> None:
    github.create(type="content_update")
    send_push(github.fake, MAIN, after="a" * 40, before="b" * 40)
    github.statuses()
    requests = LookRequests(github.service.desk.database, github.service.desk.contexts)
    [claimed] = requests.claim_due()
    send_push(github.fake, MAIN, after="c" * 40, before="a" * 40)
    github.statuses()
    requests.finish(claimed, None)
    assert github.due_names() == [""]


@pytest.mark.deep
def test_worker_looks_within_seconds(tmp_path: Path) -> None:
    docs = make_repository(tmp_path / "docs.git", {"a.md": b"#\n"})
    with (
        serve(tmp_path / "data", repository=docs, watch_minutes=60, quiet_minutes=0) as running,
        FAKE_FORGES["github"](tmp_path) as fake,
    ):
        hooked = open_project("github", fake, running)
        automation = hooked.create(type="content_update")
        send_push(fake, MAIN, hooked.push())
        hooked.statuses()
        deadline = time.monotonic() + 60
        while not hooked.runs(automation):
            assert time.monotonic() < deadline, "no worker looked"
            time.sleep(0.1)


def test_records_of_deliveries_are_deleted_after_a_week(github: HookedProject) -> None:
    database = github.service.desk.database
    day = clock.DAY
    rows = [("delivery-old", 8), ("delivery-new", 6), ("comment-8", 8), ("comment-91", 91)]
    with database.write() as tx:
        for name, days in rows:
            row = {"project_id": github.project.id, "id": name, "at": clock.now() - days * day}
            tx.execute(webhook_deliveries.insert().values(row))
    delete_old_comments(database)
    with database.read() as tx:
        query = select(webhook_deliveries.c.id).where(webhook_deliveries.c.project_id == github.project.id)
        assert sorted(tx.execute(query).scalars()) == ["comment-8", "delivery-new"]


@pytest.mark.deep
def test_automation_files_are_read_after_a_push(github: HookedProject) -> None:
    desk = github.service.desk
    send_push(github.fake, MAIN, after=github.push(), before=ZEROS)
    github.statuses()
    assert github.due_names() == [], "no automation watches the repository, and no files are read"
    desk.projects.change(github.project.id, {"automation_files": "true"}, actor="test")
    git = pygit2.Repository(str(github.fake.repositories["acme/docs"].folder))
    text = b"---\nkind: broken_links\nenabled: true\n---\n"
    head = commit(git, {".copydesk/automations/links.md": text})
    send_push(github.fake, MAIN, after=str(head), before=ZEROS)
    github.statuses()
    assert github.due_names() == [""]
    requests = LookRequests(desk.database, desk.contexts)
    RequestedLooks(requests, desk.create_repository_watch()).tick()
    [listed] = desk.automations.list_for_project(github.project.id)
    assert listed.automation.definition.kind == "broken_links"
    assert github.due_names() == []
