"""Runs the same trivial workflow on Copydesk's engine and on DBOS in turns, each round in a separate process."""

import json
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from benchmarks.jobs.engine_race import EngineRound
from benchmarks.jobs.measure import median
from benchmarks.jobs.service import ROOT

SQLITE, POSTGRES = "SQLite", "PostgreSQL"


@dataclass(frozen=True)
class EngineRun:
    engine: str
    database: str
    jobs: int
    polling: float | None = None
    """Seconds between two polls of DBOS's queue. The best value depends on the database, so several take part."""
    is_wal: bool = True
    """SQLite's write-ahead log. Copydesk turns it on and DBOS does not: the benchmark turns it on for DBOS."""
    rounds: list[EngineRound] = field(default_factory=list)

    @property
    def name(self) -> str:
        mode = "" if self.database == POSTGRES else " (WAL)" if self.is_wal else " (as DBOS opens it)"
        polling = f", polling every {self.polling * 1000:g} ms" if self.polling else ""
        return f"{self.engine}, {self.database}{mode}{polling}"

    @property
    def speed(self) -> float:
        return self.median(lambda each: each.per_second)

    def median(self, figure: Callable[[EngineRound], float]) -> float:
        return median([figure(each) for each in self.rounds])


def measure_engines(folder: Path, jobs: int, rounds: int, database_url: str | None) -> list[EngineRun]:
    entrants = [
        EngineRun("Copydesk", SQLITE, jobs),
        *(EngineRun("DBOS", SQLITE, jobs, polling) for polling in (0.005, 0.02, 0.05)),
        EngineRun("DBOS", SQLITE, jobs, 0.02, is_wal=False),
    ]
    if database_url:
        entrants += [
            EngineRun("Copydesk", POSTGRES, jobs),
            *(EngineRun("DBOS", POSTGRES, jobs, polling) for polling in (0.005, 0.02)),
        ]
    for _ in range(rounds):
        for entrant in entrants:
            with _new_database(entrant, folder, database_url or "") as url:
                entrant.rounds.append(_run_round(entrant, url))
    return entrants


def pair_fastest(entrants: Sequence[EngineRun]) -> list[tuple[EngineRun, EngineRun]]:
    """Pairs Copydesk with the fastest DBOS run, by database."""
    pairs = []
    for ours in (entrant for entrant in entrants if entrant.polling is None):
        theirs = [entrant for entrant in entrants if entrant.polling and entrant.database == ours.database]
        pairs.append((ours, max(theirs, key=lambda entrant: entrant.speed)))
    return pairs


def _run_round(entrant: EngineRun, url: str) -> EngineRound:
    command = [sys.executable, "-m", f"benchmarks.jobs.engine_{entrant.engine.lower()}", url, str(entrant.jobs)]
    if entrant.polling is not None:
        command.append(str(entrant.polling))
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return EngineRound(**json.loads(process.stdout.splitlines()[-1]))


@contextmanager
def _new_database(entrant: EngineRun, folder: Path, server: str) -> Iterator[str]:
    """Yields the address of an empty database and drops it afterward."""
    name = f"bench_{uuid.uuid4().hex}"
    if entrant.database == SQLITE:
        path = folder / f"{name}.sqlite"
        if entrant.is_wal:
            connection = sqlite3.connect(path)
            connection.execute("pragma journal_mode = wal")
            connection.close()
        yield f"sqlite:///{path}"
        return
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield make_url(server).set(database=name).render_as_string(hide_password=False)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
