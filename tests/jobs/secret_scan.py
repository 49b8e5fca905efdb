"""Searches for leaked secrets: plain and encoded, in files, rows, git objects, API answers and processes."""

import base64
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Any
from urllib.parse import quote

import pygit2

from copydesk.jobs.publish.git.git_command import MEMORY_LIMITED_GIT

NamedContent = tuple[str, bytes]
"""A place, and its content."""


def find_secrets(secrets: Mapping[str, str], contents: Iterable[NamedContent]) -> list[str]:
    """Returns `name in place` for every visible secret."""
    forms = [(name, form) for name, value in secrets.items() for form in _encodings_of(value)]
    gathered: dict[str, list[bytes]] = {}
    for where, data in contents:
        gathered.setdefault(where, []).append(data)
    combined = [(where, b"\0".join(parts)) for where, parts in gathered.items()]
    return sorted({f"{name} in {where}" for where, data in combined for name, form in forms if form in data})


def _encodings_of(value: str) -> set[bytes]:
    """Returns encodings of a secret's longest line (PEM may be rewrapped), with base64 at three offsets."""
    raw = max(value.split("\n"), key=len).strip().encode()
    encodings = {raw, quote(raw, safe="").encode(), raw.hex().encode(), repr(raw)[2:-1].encode()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)[4 if before else 0 : (before + len(raw)) * 8 // 6]
        encodings |= {encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}
    return encodings


def read_files(folder: Path) -> Iterator[NamedContent]:
    """Reads every file as stored, and the decompressed objects of every repository."""
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes()
        if path.name.endswith(".git") and (path / "objects").is_dir():
            repository = pygit2.Repository(str(path))
            yield from ((f"the objects of {path}", repository.read(oid)[1]) for oid in repository)


def read_rows(database: Path) -> Iterator[NamedContent]:
    with sqlite3.connect(database) as connection:
        for (table,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            for row in connection.execute(f'select * from "{table}"'):
                for value in row:
                    yield f"the table {table}", value if isinstance(value, bytes) else str(value).encode()
    connection.close()


def read_api_answers(place: Any) -> Iterator[NamedContent]:
    """Reads all answers of our API about the project's jobs."""
    http, at = place.service.http, place.service.at
    paths = [at("/jobs"), at("/models"), "/metrics", "/openapi.json"]
    for job in place.jobs:
        paths += [at(f"/job/{job}"), at(f"/job/{job}/diff"), at(f"/job/{job}/events")]
    for path in paths:
        answer = http.get(path, headers={"Accept": "application/json"})
        yield f"the answer to {path}", repr(answer.headers).encode() + answer.content


def read_pull_requests(fake: Any) -> Iterator[NamedContent]:
    for pull in fake.pulls:
        texts = [pull.title, pull.body, pull.head, *pull.labels, *(comment.body for comment in pull.comments)]
        yield f"pull request {pull.number}", "\n".join(texts).encode()
    yield "an address", "\n".join(f"{request.method} {request.path}" for request in fake.requests).encode()


class ProcessWatch:
    """Records the arguments of all processes, and their environments; git's environments are separate.

    The shell that limits git's memory counts as git, because it becomes git.
    """

    def __enter__(self) -> "ProcessWatch":
        self.contents: set[NamedContent] = set()
        self.in_git: set[NamedContent] = set()
        self._over = threading.Event()
        self._before = set(os.listdir(gettempdir()))
        self._thread = threading.Thread(target=self._record_processes, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        for name in set(os.listdir(gettempdir())) - self._before:
            if name.startswith("copydesk"):
                self.contents.update(read_files(Path(gettempdir()) / name))

    def _record_processes(self) -> None:
        while not self._over.wait(0.03):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    arguments = Path("/proc", pid, "cmdline").read_bytes()
                    name = os.path.basename(arguments.split(b"\0")[0]).decode("utf-8", "replace")
                    self.contents.add((f"the arguments of {name}", arguments))
                    environment = Path("/proc", pid, "environ").read_bytes()
                    belongs_to_git = name.startswith("git") or MEMORY_LIMITED_GIT.encode() in arguments.split(b"\0")
                    (self.in_git if belongs_to_git else self.contents).add((f"the environment of {name}", environment))
                except OSError:
                    continue  # the process has ended
