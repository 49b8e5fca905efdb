"""Floods of feedback: it is public, so the stored amount per sender and in total is limited."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.core import clock
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

LONG = "😀" * 4_000
"""The longest allowed comment, of 16 kB."""


@contextmanager
def serve_site(tmp_path: Path, **settings: Any) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    chosen = {"trusted_proxies": ("127.0.0.1",), "collect_per_address": 1_000_000, **settings}
    with serve(tmp_path / "data", repository=repository, with_worker=False, **chosen) as service:
        yield service


def send_feedback(
    service: Service, address: str, comment: str = "Thanks", kind: str = "application/json"
) -> httpx.Response:
    return service.http.post(
        f"/v1/collect/{service.project.site_id}",
        json={"k": "feedback", "u": "https://docs.example.com/guide", "h": False, "c": comment},
        headers={"X-Forwarded-For": address, "Content-Type": kind},
    )


def count_feedback(service: Service) -> int:
    return sum(page.total for page in service.desk.feedback.count_by_page(service.project.id)[0])


@pytest.mark.deep
def test_one_sender_is_limited_per_hour(tmp_path: Path) -> None:
    with serve_site(tmp_path) as service:
        statuses = [send_feedback(service, "203.0.113.1", LONG).status_code for _ in range(40)]
        assert statuses == [202] * 30 + [429] * 10
        home = [
            send_feedback(service, f"2001:db8:1:2::{number}", kind="text/plain;charset=UTF-8") for number in range(40)
        ]
        assert [answer.status_code for answer in home] == [202] * 30 + [429] * 10, "a network of IPv6 is one sender"
        assert count_feedback(service) == 60
        refused = home[-1]
        assert refused.json()["code"] == "too_many_requests"
        assert refused.headers["ratelimit-policy"] == '"feedback-address";q=30;w=3600'
        view = service.http.post(
            f"/v1/collect/{service.project.site_id}",
            json={"u": "https://docs.example.com/guide"},
            headers={"X-Forwarded-For": "203.0.113.1", "User-Agent": "Mozilla/5.0"},
        )
        assert view.status_code == 202, "views of the same sender are counted on"


@pytest.mark.deep
def test_all_senders_together_are_limited_per_day(tmp_path: Path) -> None:
    with serve_site(tmp_path, feedback_per_day=5) as service:
        statuses = [send_feedback(service, f"203.0.113.{number}").status_code for number in range(8)]
        assert statuses == [202] * 5 + [429] * 3
        assert send_feedback(service.another_project(), "203.0.113.1").status_code == 202


@pytest.mark.deep
def test_full_project_refuses_feedback_and_keeps_the_old(tmp_path: Path) -> None:
    with serve_site(tmp_path, feedback_entries=5) as service:
        assert send_feedback(service, "198.51.100.1", "Written before the flood").status_code == 202
        flood = [send_feedback(service, f"203.0.113.{number}") for number in range(8)]
        assert [answer.status_code for answer in flood] == [202] * 4 + [429] * 4
        assert flood[-1].json()["code"] == "feedback_full"
        assert flood[-1].headers["retry-after"] == "3600"
        kept = service.desk.feedback.list_entries(service.project.id)[0]
        assert kept[-1].comment == "Written before the flood"
        assert send_feedback(service.another_project(), "203.0.113.1").status_code == 202, (
            "other projects are not affected"
        )
        service.desk.feedback.delete_entries(service.project.id)
        assert send_feedback(service, "198.51.100.1").status_code == 202


@pytest.mark.deep
def test_the_bytes_of_a_projects_feedback_are_bounded(tmp_path: Path) -> None:
    with serve_site(tmp_path, feedback_megabytes=1) as service:
        statuses = [send_feedback(service, f"203.0.113.{number}", LONG).status_code for number in range(70)]
        accepted = 1_000_000 // (len(LONG.encode()) + len("/guide"))
        assert statuses == [202] * accepted + [429] * (70 - accepted)
        stored = [
            remark.comment or "" for remark in service.desk.feedback.list_entries(service.project.id, limit=100)[0]
        ]
        assert sum(len(comment.encode()) for comment in stored) < 1_000_000


@pytest.mark.deep
def test_old_feedback_is_deleted_after_the_retention_of_the_project(tmp_path: Path) -> None:
    with serve_site(tmp_path) as service:
        service.desk.projects.change(service.project.id, {"feedback_days": "30"}, actor="test")
        other = service.another_project()
        for days in (40, 20):
            for project in (service.project, other.project):
                service.desk.feedback.add(project.id, "/", True, None, clock.now() - days * clock.DAY)
        assert send_feedback(service, "203.0.113.1").status_code == 202
        until = time.monotonic() + 60
        while count_feedback(service) == 3 and time.monotonic() < until:
            time.sleep(0.05)
        assert count_feedback(service) == 2
        assert count_feedback(other) == 2, "which keeps it"
