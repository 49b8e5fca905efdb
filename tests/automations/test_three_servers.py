"""Three whole servers, one of which is killed (kill -9) again and again while triggers of all kinds occur.

At the end, the runs are counted by brute force: each slot, commit, tag, delivery and request has one run, and an
automation has one open pull request.
"""

import hashlib
import hmac
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import func, select

from copydesk.automations.automation import Automation, AutomationRun, Outcome
from copydesk.automations.tables import automation_runs, look_requests
from copydesk.core import clock
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.job import ACTIVE
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.storage.tables import jobs, messages, webhook_deliveries
from tests.automations.killed_triggers import WEBHOOK_SECRET
from tests.crash.harness import wait_until
from tests.support.processes import CommandSpec, RunningServer, free_port, settings_environment
from tests.support.repositories import commit, make_repository

log = logging.getLogger(__name__)

SERVERS = 3
ROUNDS = 60
SETTLE_SECONDS = 400.0
MINUTE = 60 * clock.SECOND
LATEST_FIRE_MS = 30 * clock.SECOND
"""How long after the scheduler read the clock it may store the run, on a busy machine."""
MAX_SKIPPED_SLOTS = 3
"""A killed server's lease ends after one minute; then the next tick, 15 seconds apart, fires the last slot."""
PAGE = b"# Page\n\nThe colour of things.\n"
SETTINGS = {
    "watch_minutes": 0.1,
    "quiet_minutes": 0.02,
    "lease_seconds": 6,
    "max_attempts": 100,
    "jobs_per_hour": 100_000,
}
TRIGGERS: dict[str, dict[str, Any]] = {
    "content": {"trigger": {"type": "content_update"}, "grouping": "append"},
    "code": {"trigger": {"type": "code_change"}, "grouping": "append"},
    "release": {"trigger": {"type": "release"}, "grouping": "new"},
    "schedule": {"trigger": {"type": "schedule", "cron": "* * * * *", "timezone": "UTC"}, "grouping": "append"},
    "api": {"trigger": {"type": "api"}, "grouping": "new"},
}


@dataclass
class Fleet:
    desk: Desk
    project_id: str
    key: str
    folder: Path
    servers: list[RunningServer]
    automations: dict[str, Automation]
    chance: random.Random
    tags: list[str] = field(default_factory=list)
    deliveries: list[str] = field(default_factory=list)
    """The ids of deliveries that a server accepted."""
    requests: dict[str, str] = field(default_factory=dict)
    """The run of each idempotency key."""
    kills: int = 0

    def push(self, name: str) -> str:
        number = self.chance.randrange(10**9)
        return commit(pygit2.Repository(str(self.folder / name)), {f"docs/p{number}.md": PAGE}, message=f"Add {number}")

    def tag(self) -> None:
        repository = pygit2.Repository(str(self.folder / "code.git"))
        self.tags.append(f"v{len(self.tags)}")
        target = repository.lookup_reference("refs/heads/main").target
        repository.create_reference(f"refs/tags/{self.tags[-1]}", target)

    def head(self, name: str) -> str:
        return str(pygit2.Repository(str(self.folder / name)).lookup_reference("refs/heads/main").target)

    def send(self, path: str, **options: Any) -> httpx.Response:
        """Sends a request to any server, and again to any other one until it is answered, as a forge or client does."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                answer = httpx.post(f"{self.chance.choice(self.servers).url}{path}", timeout=30, **options)
                if answer.status_code < 500:
                    return answer
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"no server answers {path}")

    def deliver(self, name: str, ref: str) -> None:
        payload = {"ref": ref, "after": "a" * 40, "repository": {"full_name": f"{self.folder.name}/{name[:-4]}"}}
        body = json.dumps(payload).encode()
        delivery_id = f"delivery {len(self.deliveries)}"
        signature = hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": delivery_id,
            "X-Hub-Signature-256": f"sha256={signature}",
        }
        answers = [self.send(f"/webhooks/{self.project_id}", content=body, headers=headers) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert answers[1].json()["why"] == "This delivery was already received.", answers[1].text
        self.deliveries.append(delivery_id)

    def request_run(self) -> None:
        """Asks for a run twice with one idempotency key."""
        key = f"request-{len(self.requests)}"
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": key}
        path = f"/v1/workflow/{self.project_id}/{self.automations['api'].id}/trigger"
        first, again = (self.send(path, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (202, 202), first.text
        assert first.json() == again.json()
        self.requests[key] = first.json()["instanceId"]

    def kill_one(self) -> None:
        """Kills a server, while others work, and starts it again."""
        victim = self.chance.choice(self.servers)
        victim.kill()
        self.kills += 1
        time.sleep(self.chance.uniform(0, 1))
        victim.start()

    def runs_of(self, name: str) -> list[AutomationRun]:
        """Returns the runs, oldest first."""
        listed, cursor = [], None
        while True:
            page, cursor = self.desk.automations.list_runs(self.project_id, self.automations[name].id, 100, cursor)
            listed += page
            if cursor is None:
                return listed[::-1]

    def is_settled(self) -> bool:
        """Returns whether every change is covered and every run has ended."""
        ends = {"content": ("", "docs.git"), "code": ("code", "code.git")}
        for name, (source, repository) in ends.items():
            runs = self.runs_of(name)
            if not runs or runs[-1].trigger["after"][source]["main"] != self.head(repository):
                return False
        if Counter(list_tags(self.runs_of("release"))) != Counter(f"code {tag}" for tag in self.tags):
            return False
        with self.desk.database.read() as tx:
            has_due_look = tx.execute(select(look_requests).where(look_requests.c.due_at.is_not(None))).first()
            has_active_job = tx.execute(select(jobs.c.id).where(jobs.c.status == ACTIVE)).first()
        return has_due_look is None and has_active_job is None


def list_tags(runs: list[AutomationRun]) -> list[str]:
    return [tag for run in runs for tag in run.trigger["tags"]]


@pytest.fixture
def fleet(migrated_url: str, tmp_path: Path) -> Iterator[Fleet]:
    make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    make_repository(tmp_path / "code.git", {"src/cli.py": b"--port\n"})
    data = tmp_path / "data"
    desk = open_desk_lazily(Settings(data=data, database_url=migrated_url))
    project = desk.projects.create("Docs", repository=str(tmp_path / "docs.git"), ref="main", actor="test")
    desk.projects.change(project.id, {"max_open_pull_requests": "1000"}, actor="test")
    desk.secrets.set(project.id, "webhook_secret", WEBHOOK_SECRET, actor="test")
    desk.contexts.add(project, NewContext("code", str(tmp_path / "code.git")), actor="test")
    automations = {
        name: desk.automations.create(
            project, {"name": name, "prompt": "Replace colour with color.", "dailyLimit": 1000, **fields}, actor="test"
        )
        for name, fields in TRIGGERS.items()
    }
    key = desk.keys.create(project.id, actor="test")[1]
    environment = settings_environment({"data": data, "database_url": migrated_url, **SETTINGS})
    servers = []
    for number in range(SERVERS):
        port = free_port()
        spec = CommandSpec(("serve", "--port", str(port)), environment, tmp_path / f"server-{number}.log")
        servers.append(RunningServer(spec, port))
    try:
        for server in servers:
            server.wait_until_ready()
        yield Fleet(desk, project.id, key, tmp_path, servers, automations, random.Random(21))
    finally:
        for server in servers:
            server.close()
        desk.close()


@pytest.mark.drill
def test_three_servers_of_which_one_is_always_killed_fire_each_trigger_once(fleet: Fleet) -> None:
    first_heads = {name: fleet.head(name) for name in ("docs.git", "code.git")}
    act_at_random(fleet)
    for server in fleet.servers:
        server.wait_until_ready()
    ended_at = disable_schedule(fleet)
    wait_until(fleet.is_settled, "runs for all changes", SETTLE_SECONDS)
    check_chain(fleet, "content", "", first_heads["docs.git"], "docs.git")
    check_chain(fleet, "code", "code", first_heads["code.git"], "code.git")
    slots = count_slots(fleet.runs_of("schedule"), fleet.automations["schedule"].created_at, ended_at)
    assert Counter(run.id for run in fleet.runs_of("api")) == Counter(fleet.requests.values())
    check_rows(fleet)
    counts = {name: len(fleet.runs_of(name)) for name in TRIGGERS}
    log.warning(
        "%d kills, %d deliveries, %d tags, %s, runs: %s",
        fleet.kills,
        len(fleet.deliveries),
        len(fleet.tags),
        slots,
        counts,
    )


def act_at_random(fleet: Fleet) -> None:
    for number in range(ROUNDS):
        action = fleet.chance.randrange(5)
        if action == 0:
            fleet.push("docs.git")
            fleet.deliver("docs.git", "refs/heads/main")
        elif action == 1:
            fleet.push("code.git")
            fleet.deliver("code.git", "refs/heads/main")
        elif action == 2:
            fleet.tag()
            fleet.deliver("code.git", f"refs/tags/{fleet.tags[-1]}")
        elif action == 3:
            fleet.push(fleet.chance.choice(["docs.git", "code.git"]))  # no webhook arrives
        else:
            fleet.request_run()
        time.sleep(fleet.chance.uniform(0, 2))
        if number % 2:
            fleet.kill_one()


def disable_schedule(fleet: Fleet) -> int:
    """Disables the schedule, and returns when: no later slot fires."""
    project = fleet.desk.projects.get(fleet.project_id)
    fleet.desk.automations.change(project, fleet.automations["schedule"].id, {"enabled": False}, actor="test")
    return clock.now()


def check_chain(fleet: Fleet, name: str, source: str, first: str, repository: str) -> None:
    """Asserts that each run begins where the one before ended, or where it began if it failed; to the newest commit."""
    begins_at = first
    for run in fleet.runs_of(name):
        assert run.trigger["before"][source]["main"] == begins_at
        if run.outcome is not Outcome.FAILED:
            begins_at = run.trigger["after"][source]["main"]
    assert begins_at == fleet.head(repository)


class SlotCount(NamedTuple):
    elapsed: int
    fired: int
    skipped: int
    """Slots that passed while no server held the lease, or while the run before was active."""


def count_slots(runs: list[AutomationRun], created_at: int, ended_at: int) -> SlotCount:
    """Asserts that each slot fired once or was covered by the next run, and none twice or before its time.

    Every minute between the creation of the schedule and its end is a slot. A run is for the last slot before it: a
    server that takes over from a killed one, or waits for an active run, does not fire the slots that were missed.
    """
    elapsed = range(-(-(created_at + 1) // MINUTE) * MINUTE, ended_at + 1, MINUTE)
    slots = [run.trigger["slot"] for run in runs]
    assert len(slots) == len(set(slots)) >= 1
    assert slots == sorted(slots)
    assert set(slots) <= set(elapsed)
    assert all(0 <= run.fired_at - run.trigger["slot"] < MINUTE + LATEST_FIRE_MS for run in runs)
    bounds = [elapsed[0] - MINUTE, *slots, elapsed[-1] + MINUTE]
    gaps = [(later - earlier) // MINUTE - 1 for earlier, later in pairwise(bounds)]
    assert max(gaps) <= MAX_SKIPPED_SLOTS, gaps
    count = SlotCount(len(elapsed), len(slots), sum(gaps))
    assert count.fired + count.skipped == count.elapsed
    return count


def check_rows(fleet: Fleet) -> None:
    """Asserts that each run has its own message, each delivery one record, and an automation one open pull request."""
    with fleet.desk.database.read() as tx:
        pairs = tx.execute(select(automation_runs.c.job_id, automation_runs.c.message_id)).all()
        stored = tx.execute(select(messages.c.job_id, messages.c.id)).all()
        recorded = tx.execute(select(func.count()).select_from(webhook_deliveries)).scalar_one()
        open_pulls = select(jobs.c.automation_id, jobs.c.id).where(jobs.c.pull_state == "open")
        opened = Counter(row.automation_id for row in tx.execute(open_pulls))
    assert sorted(map(tuple, pairs)) == sorted(map(tuple, stored))
    assert recorded == len(fleet.deliveries)
    for name, fields in TRIGGERS.items():
        if fields["grouping"] == "append":
            assert opened[fleet.automations[name].id] <= 1, name
    branches = [each for each in pygit2.Repository(str(fleet.folder / "docs.git")).references if "copydesk/" in each]
    assert len(branches) == sum(opened.values())
