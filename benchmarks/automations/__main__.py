"""python -m benchmarks.automations [--counts 10,100,1000] [--postgres]: prints CPU, requests and SQL statements.

Measures a look at 50 repositories with nothing new, an idle tick of the scheduler, and a run that ends without a model
call. A request is one `git ls-remote`; its CPU is that of the child process, too.
"""

import argparse
import resource
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
from sqlalchemy import event

from copydesk.automations.automation import TriggerEvent
from copydesk.automations.service import Automations
from copydesk.automations.triggers.look_requests import RequestedLooks
from copydesk.automations.triggers.scheduler import Scheduler
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.git.git_command import Git
from tests.support.postgres import dedicated_server, new_database

PROJECTS = 10
CONTEXTS_PER_PROJECT = 5
ROUNDS = 5
RUNS = 20
SCHEDULE = {"type": "schedule", "cron": "0 6 1 1 *", "timezone": "UTC"}
CODE_CHANGE = {"type": "code_change", "paths": ["src/**"]}


@dataclass
class Counter:
    """Counts SQL statements and `git ls-remote`."""

    statements: int = 0
    requests: int = 0

    def watch(self, desk: Desk) -> None:
        really_list = Git.list_refs

        def count_statement(*_: Any) -> None:
            self.statements += 1

        def list_refs(git: Git, *arguments: Any, **options: Any) -> Any:
            self.requests += 1
            return really_list(git, *arguments, **options)

        event.listen(desk.database.engine, "before_cursor_execute", count_statement)
        setattr(Git, "list_refs", list_refs)  # noqa: B010 - counts in this process only


def read_cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def create_repository(path: Path) -> str:
    repository = pygit2.init_repository(str(path), bare=True, initial_head="main")
    index = pygit2.Index()
    index.add(pygit2.IndexEntry("src/cli.py", repository.create_blob(b"1\n"), pygit2.enums.FileMode.BLOB))
    author = pygit2.Signature("Ada", "ada@example.org", 1_700_000_000, 0)
    repository.create_commit("refs/heads/main", author, author, "First", index.write_tree(repository), [])
    return str(path)


def create_projects(desk: Desk, folder: Path) -> list[Project]:
    projects = []
    for number in range(PROJECTS):
        address = create_repository(folder / f"docs-{number}.git")
        project = desk.projects.create(f"Docs {number}", repository=address, ref="main", actor="benchmark")
        for context in range(CONTEXTS_PER_PROJECT):
            code = create_repository(folder / f"code-{number}-{context}.git")
            desk.contexts.add(project, NewContext(f"code-{context}", code), actor="benchmark")
        projects.append(project)
    return projects


def measure(name: str, count: int, act: Callable[[], object], rounds: int, counter: Counter) -> None:
    act()
    statements, requests, began = counter.statements, counter.requests, read_cpu_seconds()
    for _ in range(rounds):
        act()
    cpu_ms = (read_cpu_seconds() - began) / rounds * 1000
    print(
        f"| {name} | {count:,} | {cpu_ms:,.1f} | {(counter.requests - requests) / rounds:,.0f} "
        f"| {(counter.statements - statements) / rounds:,.0f} |",
        flush=True,
    )


def create_automations(desk: Desk, projects: Sequence[Project], count: int, trigger: dict[str, Any]) -> list[str]:
    automations = Automations(desk.database, desk.jobs)  # without a request for each repository
    return [
        automations.create(
            projects[number % PROJECTS],
            {"name": f"{number}", "prompt": "Replace colour with color.", "trigger": trigger},
            actor="benchmark",
        ).id
        for number in range(count)
    ]


def measure_all(count: int, url: str) -> None:
    with tempfile.TemporaryDirectory(prefix="copydesk-automations-") as folder:
        desk = open_desk(Settings(data=Path(folder, "data"), database_url=url, quiet_minutes=0))
        counter = Counter()
        counter.watch(desk)
        projects = create_projects(desk, Path(folder))
        schedules = create_automations(desk, projects, count, SCHEDULE)
        scheduler = Scheduler(desk.database, desk.automations.firing)
        measure("idle tick of the scheduler", count, scheduler.tick, ROUNDS * 10, counter)
        for number, automation_id in enumerate(schedules):
            desk.automations.delete(projects[number % PROJECTS].id, automation_id, actor="benchmark")
        watching = create_automations(desk, projects, count, CODE_CHANGE)
        watch = desk.create_repository_watch()
        measure("look at 50 repositories", count, watch.tick, ROUNDS, counter)
        requested = RequestedLooks(desk.look_requests, watch)
        measure("idle tick for requested looks", count, requested.tick, ROUNDS * 10, counter)
        keys = iter(range(RUNS + 1))

        def fire_without_a_model() -> None:
            happened = TriggerEvent(f"refs:{next(keys)}", "1 new commit in code.")
            nothing = "No changed file matches src/**."
            desk.automations.firing.fire(projects[0], watching[0], happened, nothing_to_do=nothing)

        measure("run without a model call", count, fire_without_a_model, RUNS, counter)
        desk.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="10,100,1000")
    parser.add_argument("--postgres", action="store_true", help="use a PostgreSQL server of its own; else SQLite")
    options = parser.parse_args()
    print("| Measured | Automations | CPU ms | Requests | SQL statements |\n|---|---|---|---|---|")
    with dedicated_server() if options.postgres else nullcontext() as server:
        for count in options.counts.split(","):
            measure_all(int(count), new_database(server.url) if server else "")


main()
