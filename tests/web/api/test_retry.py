"""Retrying a job, and the key of a request."""

from pathlib import Path

import pytest

from copydesk.core.clock import DAY
from copydesk_client import ApiError
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


def test_retry_creates_a_new_job_with_the_same_prompt_and_options(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        first = service.client.create_job("Fix the typos", title="Typos", draft=True, context=[])
        service.client.cancel_job(first["id"])
        ended = service.client.get_job(first["id"])
        response = service.http.post(service.at(f"/job/{first['id']}/retry"))
        assert response.status_code == 201
        retried = response.json()
        assert response.headers["location"] == service.at(f"/job/{retried['id']}")
        assert retried["id"] != first["id"]
        assert (retried["prompt"], retried["title"], retried["status"]) == ("Fix the typos", "Typos", "active")
        stored = service.desk.jobs.get(service.project.id, retried["id"])
        assert (stored.draft, stored.context) == (True, [])
        assert service.client.get_job(first["id"]) == ended


def test_active_job_cannot_be_retried(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        job = service.client.create_job("Fix the typos")
        with pytest.raises(ApiError, match="still running") as refused:
            service.client.retry_job(job["id"])
        assert (refused.value.status, refused.value.code) == (409, "wrong_state")
        assert len(service.client.list_jobs()["jobs"]) == 1


def test_repeated_retry_with_the_same_idempotency_key_creates_one_job(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        job = service.client.create_job("Fix the typos")["id"]
        service.client.cancel_job(job)
        again = [service.client.retry_job(job, idempotency_key="once")["id"] for _ in range(2)]
        assert again[0] == again[1] != job


def test_key_of_a_request_is_shown_without_the_key_itself(service: Service) -> None:
    key, secret = service.desk.keys.create(
        service.project.id, name="assistant", scopes=["read"], expires_in=DAY, actor="test"
    )
    response = service.http.get(service.at("/key"), headers={"Authorization": f"Bearer {secret}"})
    assert secret not in response.text
    shown = response.json()
    assert (shown["id"], shown["name"], shown["scopes"]) == (key.id, "assistant", ["read"])
    assert shown["project"] == {"id": service.project.id, "name": "Docs"}
    assert shown["expiresAt"] > shown["createdAt"]
    assert service.client.get_key()["scopes"] == ["read", "write"]
