"""Servers that are killed (kill -9) at every moment of a trigger: it fires once, and no change is lost."""

import functools
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pygit2
import pytest
from sqlalchemy import delete, select, update

from copydesk.automations.automation import Automation
from copydesk.automations.tables import automation_runs, automation_sources, look_requests
from copydesk.automations.triggers.looks import WatchedRepository
from copydesk.core import audit_log, clock
from copydesk.core.projects.projects import Project
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.storage.tables import messages, runs, webhook_deliveries
from tests.automations.conftest import Bench
from tests.automations.killed_triggers import (
    WEBHOOK_SECRET,
    TriggerOrders,
    act,
    build_watch,
    deliver_push,
    run_trigger_process,
)
from tests.crash.harness import wait_until
from tests.support.processes import forkserver
from tests.support.repositories import commit, make_repository

HOURLY = {"type": "schedule", "cron": "0 * * * *", "timezone": "UTC"}
SERVERS = 3
MAX_MOMENTS = 100
"""More than any trigger has, so that the walk over its moments ends by itself."""
FEW = 7
"""By default every seventh moment, from a different one for each database; as a drill every moment."""
TIMEOUT_SECONDS = 120.0


@dataclass
class Case:
    bench: Bench
    folder: Path
    url: str

    def orders(self, action: str, **values: Any) -> TriggerOrders:
        return TriggerOrders(self.url, self.folder, self.bench.project.id, action, **values)

    def start(self, orders: TriggerOrders) -> ForkServerProcess:
        process = forkserver.Process(target=run_trigger_process, args=(orders,), daemon=True)
        process.start()
        return process

    def finish(self, process: ForkServerProcess) -> int | None:
        process.join(TIMEOUT_SECONDS)
        code = process.exitcode
        process.close()
        return code

    def is_killed(self, orders: TriggerOrders) -> bool:
        """Runs a process that is killed at its moment. Returns False if it ended before."""
        code = self.finish(self.start(orders))
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def race(self, orders: TriggerOrders) -> None:
        """Runs the servers that are left, all at once."""
        together = replace(orders, kill_at=None, start_at=time.time() + 0.05)
        processes = [self.start(together) for _ in range(SERVERS)]
        assert [self.finish(process) for process in processes] == [0] * SERVERS

    def push(self, name: str, message: str) -> str:
        repository = pygit2.Repository(str(self.bench.repository if name == "docs.git" else self.folder / name))
        return commit(repository, {"docs/page.md": f"{message}\n".encode()}, message=message)

    def rows(self, table: Any, *conditions: Any) -> list[Any]:
        with self.bench.desk.database.read() as tx:
            return list(tx.execute(select(table).where(*conditions).order_by(table.c.id)))

    def runs_of(self, automation: Automation) -> list[Any]:
        return self.rows(automation_runs, automation_runs.c.automation_id == automation.id)


@pytest.fixture
def case(bench: Bench, migrated_url: str, tmp_path: Path) -> Case:
    make_repository(tmp_path / "code.git", {"src/cli.py": b"--port\n"})
    bench.desk.projects.change(bench.project.id, {"max_open_pull_requests": "1000"}, actor="test")
    bench.desk.secrets.set(bench.project.id, "webhook_secret", WEBHOOK_SECRET, actor="test")
    bench = replace(bench, project=bench.desk.projects.get(bench.project.id))
    return Case(bench, tmp_path, migrated_url)


def last_full_hour() -> int:
    now = clock.now()
    return now - now % clock.HOUR


@dataclass
class Trigger:
    """A trigger that is due, and the check that exactly one run came of it."""

    automation: Automation
    action: str
    check: Callable[[], None]
    repeats: bool = True
    """Whether servers try again by themselves."""


def due_slot(case: Case, grouping: str = "new") -> Trigger:
    automation = case.bench.create(trigger=HOURLY, grouping=grouping)
    slot = last_full_hour()
    case.bench.make_due(automation, slot)

    def check() -> None:
        assert [run.key for run in case.runs_of(automation)] == [f"slot:{slot}"]
        planned = case.bench.load(automation).next_slot_at
        assert planned is not None
        assert planned > slot
        check_messages(case, automation, 1)

    return Trigger(automation, "schedules", check)


def append(case: Case) -> Trigger:
    """A slot whose run continues the open pull request of an earlier run."""
    automation = case.bench.create(trigger=HOURLY, grouping="append")
    first = case.bench.run(automation)
    case.bench.finish(first.id, "open")
    case.bench.make_due(automation, last_full_hour())

    def check() -> None:
        assert [(run.job_id, run.is_appended) for run in case.runs_of(automation)] == [
            (first.id, False),
            (first.id, True),
        ]
        check_messages(case, automation, 2)

    return Trigger(automation, "schedules", check)


def change(case: Case, trigger: dict[str, Any], name: str, repository: str) -> Trigger:
    automation = case.bench.create(trigger=trigger, grouping="new")
    build_watch(case.bench.desk, case.folder).look()
    head = case.push(repository, "Say something new")

    def check() -> None:
        [run] = case.runs_of(automation)
        assert run.trigger["after"] == {name: {"main": head}}
        with case.bench.desk.database.read() as tx:
            query = select(automation_sources).where(automation_sources.c.automation_id == automation.id)
            [source] = tx.execute(query).all()
        assert (source.seen, source.fired, source.pending_since) == ({"main": head}, {"main": head}, None)
        check_messages(case, automation, 1)

    return Trigger(automation, "watch", check)


def release(case: Case) -> Trigger:
    automation = case.bench.create(trigger={"type": "release"}, grouping="new")
    build_watch(case.bench.desk, case.folder).look()
    code = pygit2.Repository(str(case.folder / "code.git"))
    tag = f"v{sum(name.startswith('refs/tags/') for name in code.references)}"
    code.create_reference(f"refs/tags/{tag}", code.lookup_reference("refs/heads/main").target)

    def check() -> None:
        assert [run.trigger["tags"] for run in case.runs_of(automation)] == [[f"code {tag}"]]
        check_messages(case, automation, 1)

    return Trigger(automation, "watch", check)


def delivery(case: Case) -> Trigger:
    """A delivery about a push, which the forge repeats until a server has answered. The look comes afterwards."""
    automation, check_run = pushed(case)

    def check() -> None:
        make_looks_due(case)
        act(case.bench.desk, case.orders("requested looks"))
        check_run()
        assert len(case.rows(webhook_deliveries, webhook_deliveries.c.project_id == case.bench.project.id)) == 1

    return Trigger(automation, "deliver", check)


def requested_look(case: Case) -> Trigger:
    """A delivery that was answered, and whose look is due."""
    automation, check_run = pushed(case)
    assert deliver_push(case.bench.desk, case.bench.project.id, case.folder, automation.id) == "kept"
    make_looks_due(case)
    return Trigger(automation, "requested looks", check_run)


def pushed(case: Case) -> tuple[Automation, Callable[[], None]]:
    """Returns an automation whose repository was pushed to, and the check that one look started one run for it."""
    with case.bench.desk.database.write() as tx:
        tx.execute(delete(webhook_deliveries))
    trigger = change(case, {"type": "content_update"}, "", "docs.git")

    def check() -> None:
        trigger.check()
        with case.bench.desk.database.read() as tx:
            assert tx.execute(select(look_requests.c.name, look_requests.c.due_at)).all() == [("", None)]

    return trigger.automation, check


def make_looks_due(case: Case) -> None:
    with case.bench.desk.database.write() as tx:
        tx.execute(update(look_requests).where(look_requests.c.due_at.is_not(None)).values(due_at=0))


def request(case: Case) -> Trigger:
    """A request of a client, which nobody repeats: it starts a run with its audit entry, or nothing."""
    automation = case.bench.create()

    def check() -> None:
        started = [run.job_id for run in case.runs_of(automation)]
        assert len(started) <= 1
        check_messages(case, automation, len(started))
        entries = audit_log.list_entries(case.bench.desk.database, case.bench.project.id, action="automation.run")
        assert [entry["details"]["job"] for entry in entries if entry["subject"] == automation.id] == started

    return Trigger(automation, "request", check, repeats=False)


def keyed_request(case: Case) -> Trigger:
    """A request with an idempotency key, which its client repeats until it has an answer."""
    trigger = request(case)

    def check() -> None:
        trigger.check()
        assert len(case.runs_of(trigger.automation)) == 1

    return Trigger(trigger.automation, "keyed request", check)


def check_messages(case: Case, automation: Automation, count: int) -> None:
    """Asserts that the automation has at most one job, with this many messages, each of which a worker will read."""
    listed = [job for job in case.bench.list_jobs() if job.automation_id == automation.id]
    assert len(listed) == min(count, 1)
    for job in listed:
        assert len(case.rows(messages, messages.c.job_id == job.id)) == count
        assert len(case.rows(runs, runs.c.job_id == job.id, runs.c.state == "queued")) == 1


TRIGGERS: dict[str, Callable[[Case], Trigger]] = {
    "due slot": due_slot,
    "append": append,
    "code change": lambda case: change(case, {"type": "code_change"}, "code", "code.git"),
    "content update": lambda case: change(case, {"type": "content_update"}, "", "docs.git"),
    "release": release,
    "delivery": delivery,
    "requested look": requested_look,
    "request": request,
    "keyed request": keyed_request,
}


def walk_moments(case: Case, name: str, step: int, first: int = 0) -> int:
    """Kills a server at moments of the trigger, each time on a new automation. Returns how many it survived to."""
    for moment in range(first, MAX_MOMENTS, step):
        trigger = TRIGGERS[name](case)
        orders = case.orders(trigger.action, automation_id=trigger.automation.id, kill_at=moment)
        was_killed = case.is_killed(orders)
        if trigger.repeats:
            case.race(orders)
        trigger.check()
        case.bench.desk.automations.delete(case.bench.project.id, trigger.automation.id, actor="test")
        if not was_killed:
            return moment
    raise AssertionError(f"the trigger has more than {MAX_MOMENTS} moments")


@pytest.mark.deep
@pytest.mark.parametrize("name", TRIGGERS)
def test_killed_server_leaves_a_trigger_that_the_others_fire_once(case: Case, name: str) -> None:
    assert walk_moments(case, name, FEW, first=len(name) % FEW) > FEW


@pytest.mark.drill
@pytest.mark.parametrize("name", TRIGGERS)
def test_kill_at_every_moment_of_a_trigger(case: Case, name: str) -> None:
    assert walk_moments(case, name, 1) > FEW


def test_slow_server_does_not_fire_a_change_that_another_one_covered_meanwhile(case: Case) -> None:
    automation = case.bench.create(trigger={"type": "code_change"}, grouping="new")
    slow, fast = build_watch(case.bench.desk, case.folder), build_watch(case.bench.desk, case.folder)
    slow.look()
    case.push("code.git", "First")
    list_repositories = slow.list_repositories

    def list_with_a_pause(project: Project) -> list[WatchedRepository]:
        return [replace(each, open_mirror=functools.partial(pause, each)) for each in list_repositories(project)]

    def pause(repository: WatchedRepository) -> Mirror:
        """Lets the other server see and fire a further change, between what this one read and what it fires."""
        case.push("code.git", "Second")
        fast.look()
        return repository.open_mirror()

    slow.list_repositories = list_with_a_pause
    slow.look()
    slow.list_repositories = list_repositories
    slow.look()
    check_chain(case, automation)
    assert len(case.runs_of(automation)) == 1


def test_changes_while_servers_are_killed_are_covered_once(case: Case) -> None:
    automation = case.bench.create(trigger={"type": "content_update"}, grouping="new", dailyLimit=1000)
    build_watch(case.bench.desk, case.folder).look()
    orders = case.orders("watch", rounds=100_000)
    servers = [case.start(orders) for _ in range(SERVERS)]
    chance = random.Random(7)
    for number in range(12):
        head = case.push("docs.git", f"Step {number}")
        time.sleep(chance.uniform(0, 0.4))
        victim = servers.pop(chance.randrange(SERVERS))
        victim.kill()
        case.finish(victim)
        servers.append(case.start(orders))
        if number % 4 == 3:
            wait_until(functools.partial(is_covered, case, automation, head), "a run for the change")
    for server in servers:
        server.kill()
        case.finish(server)
    build_watch(case.bench.desk, case.folder).look()
    check_chain(case, automation)
    assert len(case.runs_of(automation)) >= 3


def is_covered(case: Case, automation: Automation, head: str) -> bool:
    return head in [run.trigger["after"][""]["main"] for run in case.runs_of(automation)]


def check_chain(case: Case, automation: Automation) -> None:
    """Asserts that each run begins where the one before ended, up to the newest commit: none twice, and none lost."""
    is_code = automation.definition.trigger.type == "code_change"
    repository = pygit2.Repository(str(case.folder / "code.git" if is_code else case.bench.repository))
    name = "code" if is_code else ""
    triggers = [run.trigger for run in case.runs_of(automation)]
    pairs = [(trigger["before"][name]["main"], trigger["after"][name]["main"]) for trigger in triggers]
    commits = [str(each.id) for each in repository.walk(repository.lookup_reference("refs/heads/main").target)]
    assert pairs[0][0] == commits[-1]
    assert pairs[-1][1] == commits[0]
    assert [before for before, _ in pairs[1:]] == [after for _, after in pairs[:-1]]
