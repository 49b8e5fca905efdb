"""Live streams of events: they end with the permission, their number is limited, and idle ones cost nothing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import event, text

from copydesk.core.accounts.person import NO_ROLE, Person
from tests.support.people import get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("streams")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(
        folder / "data", repository=repository, with_worker=False, streams=12, streams_per_key=8
    ) as running:  # jobs stay active without a worker
        yield running


@pytest.fixture
def job(service: Service) -> str:
    return str(service.client.create_job("Any")["id"])


@contextmanager
def open_stream(client: httpx.Client, path: str) -> Iterator[Iterator[str]]:
    with client.stream("GET", path) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines).startswith("retry:")
        yield lines


def read_to_end(lines: Iterator[str]) -> list[str]:
    """Returns the kinds of the events until the stream ends, which must take less than minutes."""
    kinds, pings = [], 0
    for line in lines:
        pings += line.startswith(":")
        assert pings < 5, "the stream goes on"
        if line.startswith("event:"):
            kinds.append(line.removeprefix("event: "))
    return kinds


def client_with_key(service: Service, key: str) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def new_key(service: Service, **options: Any) -> tuple[str, str]:
    key, secret = service.desk.keys.create(service.project.id, actor="test", **options)
    return key.id, secret


@pytest.mark.deep
def test_a_revoked_key_ends_its_stream_and_no_other(service: Service, job: str) -> None:
    key_id, secret = new_key(service)
    path = service.at(f"/job/{job}/events")
    with open_stream(service.http, path) as other, open_stream(client_with_key(service, secret), path) as lines:
        service.desk.keys.revoke(key_id, actor="test")
        assert read_to_end(lines) == ["queued"]
        service.client.cancel_job(job)
        assert "finished" in read_to_end(other)


def test_a_revoked_key_ends_its_stream_on_either_database(tmp_path: Path, migrated_url: str) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, database_url=migrated_url, with_worker=False) as service:
        key_id, secret = new_key(service)
        job = service.client.create_job("Any")["id"]
        with open_stream(client_with_key(service, secret), service.at(f"/job/{job}/events")) as lines:
            service.desk.keys.revoke(key_id, actor="test")
            read_to_end(lines)


def test_a_key_that_expires_ends_its_stream(service: Service, job: str) -> None:
    _, secret = new_key(service, expires_in=1500)
    with open_stream(client_with_key(service, secret), service.at(f"/job/{job}/events")) as lines:
        assert read_to_end(lines) == ["queued"]


@pytest.mark.parametrize(
    "change", ["update keys set scopes = '[]' where id = :id", "update keys set project_id = :other where id = :id"]
)
def test_a_key_that_loses_its_scope_or_project_ends_its_stream(service: Service, job: str, change: str) -> None:
    key_id, secret = new_key(service)
    other = service.another_project()
    with open_stream(client_with_key(service, secret), service.at(f"/job/{job}/events")) as lines:
        with service.desk.database.write() as tx:
            tx.execute(text(change), {"id": key_id, **({"other": other.project.id} if ":other" in change else {})})
        read_to_end(lines)


def end_session(service: Service, someone: Person) -> None:
    for session in service.desk.people.sessions.list_for_person(someone.id):
        service.desk.people.sessions.end(someone, session.id)


def remove_person(service: Service, someone: Person) -> None:
    service.desk.people.remove(someone.id, actor="test")


def take_role(service: Service, someone: Person) -> None:
    service.desk.people.change_role(someone.id, NO_ROLE, actor="test")


@pytest.mark.parametrize("end", [end_session, take_role, remove_person])
def test_dashboard_stream_ends_with_the_session_the_role_or_the_account(
    service: Service, job: str, end: Callable[[Service, Person], None]
) -> None:
    email = f"{end.__name__}@example.org"
    someone = get_or_add_person(service, "viewer", email)
    browser = signed_in_client(service, "viewer", email)
    with open_stream(browser, f"/projects/{service.project.id}/jobs/{job}/events") as lines:
        end(service, someone)
        read_to_end(lines)


def test_dashboard_stream_ends_with_the_role_in_the_project(service: Service, job: str) -> None:
    someone = get_or_add_person(service, NO_ROLE, "member@example.org")
    roles = service.desk.people.project_roles
    for project in (service.project, service.another_project().project):
        roles.set_role(someone.id, project.id, "viewer", actor="test")
    browser = signed_in_client(service, NO_ROLE, "member@example.org")
    with open_stream(browser, f"/projects/{service.project.id}/jobs/{job}/events") as lines:
        roles.set_role(someone.id, service.project.id, NO_ROLE, actor="test")
        read_to_end(lines)


def test_a_key_has_a_bounded_number_of_streams(service: Service, job: str) -> None:
    path = service.at(f"/job/{job}/events")
    with ExitStack() as held:
        for _ in range(8):
            held.enter_context(open_stream(service.http, path))
        refused = service.http.get(path)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert int(refused.headers["retry-after"]) > 0
        assert service.http.get(path, headers={"Accept": "application/json"}).status_code == 200
        others = [
            held.enter_context(open_stream(client_with_key(service, new_key(service)[1]), path)) for _ in range(4)
        ]
        full = client_with_key(service, new_key(service)[1]).get(path)
        assert (full.status_code, full.json()["code"]) == (503, "streams_busy")
        assert int(full.headers["retry-after"]) > 0
        assert len(others) == 4
    wait_for(lambda: is_open_to(service, path))


def is_open_to(service: Service, path: str) -> bool:
    """Returns whether there is room for a stream again."""
    with service.http.stream("GET", path) as response:
        return response.status_code == 200


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_streams_do_not_read_while_others_write(service: Service, job: str) -> None:
    """Earlier, each stream read its job and events at every commit."""
    path, reads, looks = service.at(f"/job/{job}/events"), list[str](), list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM events" in statement:
            reads.append(statement)
        elif "jobs.last_event" in statement and " IN " in statement:
            looks.append(statement)

    with ExitStack() as held:
        streams = [held.enter_context(open_stream(service.http, path)) for _ in range(8)]
        for lines in streams:
            assert "event: queued" in (next(lines), next(lines), next(lines), next(lines))
        event.listen(service.desk.database.engine, "before_cursor_execute", note)
        held.callback(event.remove, service.desk.database.engine, "before_cursor_execute", note)
        for _ in range(4):
            seen = len(looks)
            service.another_project()
            wait_for(lambda seen=seen: len(looks) > seen)  # type: ignore[misc]
        assert reads == []
        finished = threading.Thread(target=service.client.cancel_job, args=(job,))
        finished.start()
        assert all("finished" in read_to_end(lines) for lines in streams)
        finished.join()
        assert len(reads) <= 4, "streams that are as far share a read"
