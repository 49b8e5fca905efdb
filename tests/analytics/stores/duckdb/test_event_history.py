"""Random histories of a store: events that are logged again, deletions, checkpoints, restarts, crashes and backups."""

import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import LogResult
from tests.analytics.stores.duckdb.test_event_filter import assert_all_known, hash_event, make_views, open_store

pytestmark = pytest.mark.deep


@dataclass
class History:
    """A store with a random history, and what it should know."""

    path: Path
    chance: random.Random
    events: dict[str, set[int]] = field(default_factory=lambda: {"docs": set(), "other": set()})
    backup: dict[str, set[int]] | None = None
    last_event: int = 0

    def __post_init__(self) -> None:
        self.store = open_store(self.path)

    def log_new(self) -> None:
        first = self.last_event + 1
        self.last_event += self.chance.choice([1, 5, 40, 100])
        self._log(range(first, self.last_event + 1))

    def log_known(self) -> None:
        self._log(self.chance.choices(range(1, self.last_event + 2), k=self.chance.choice([1, 60])))

    def _log(self, events: Iterable[int]) -> None:
        project = self.chance.choice(list(self.events))
        known, duplicates = self.events[project], []
        views = make_views(events, project)
        for position, event in enumerate(events):
            if event in known:
                duplicates.append(position)
            known.add(event)
        assert self.store.log_views(views) == LogResult(len(views) - len(duplicates), tuple(duplicates))

    def withdraw(self) -> None:
        project = self.chance.choice(list(self.events))
        withdrawn = set(self.chance.choices(range(1, self.last_event + 2), k=30))
        self.store.fold()
        count = self.store.withdraw_views(project, [hash_event(event) for event in withdrawn])
        assert count == len(withdrawn & self.events[project])
        self.events[project] -= withdrawn

    def forget(self) -> None:
        project = self.chance.choice(list(self.events))
        self.store.fold()
        self.store.forget_project(project)
        self.events[project] = set()

    def fold(self) -> None:
        self.store.fold()

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self.path)
        if self.chance.random() < 0.5:
            self.store.wait_for_filter()

    def crash(self) -> None:
        """Continues with a copy of the files that the running store has."""
        self.store.wait_for_filter()
        copy = self.path.parent.parent / f"{self.chance.getrandbits(40)}"
        shutil.copytree(self.path.parent, copy)
        self.store.close()
        self.path = copy / self.path.name
        self.store = open_store(self.path)

    def back_up(self) -> None:
        target = self.path.parent.parent / "backup"
        target.unlink(missing_ok=True)
        self.store.back_up(target)
        self.backup = {project: set(events) for project, events in self.events.items()}

    def restore(self) -> None:
        """Puts the backup in place of the database, beside files of a later time."""
        if self.backup is None:
            return
        self.store.close()
        shutil.copy(self.path.parent.parent / "backup", self.path)
        self.events = {project: set(events) for project, events in self.backup.items()}
        self.store = open_store(self.path)


STEPS: list[tuple[Callable[[History], None], int]] = [
    (History.log_new, 10),
    (History.log_known, 6),
    (History.withdraw, 2),
    (History.forget, 1),
    (History.fold, 2),
    (History.restart, 3),
    (History.crash, 2),
    (History.back_up, 1),
    (History.restore, 1),
]


def run_history(tmp_path: Path, seed: int, steps: int) -> None:
    (tmp_path / "store").mkdir()
    chance = random.Random(seed)
    history = History(tmp_path / "store" / "a.duckdb", chance)
    for step in chance.choices([step for step, _ in STEPS], [weight for _, weight in STEPS], k=steps):
        step(history)
    history.restart()
    for project, events in history.events.items():
        if events:
            assert_all_known(history.store, sorted(events), project)
    history.store.close()


@pytest.mark.parametrize("seed", range(3))
def test_each_event_is_logged_once_in_a_random_history(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, seed, steps=60)


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(100, 140))
def test_each_event_is_logged_once_in_many_random_histories(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, seed, steps=150)
