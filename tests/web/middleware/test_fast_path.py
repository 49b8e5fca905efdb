"""The fast path for creating and polling jobs responds exactly as the framework does."""

import threading
from typing import Any

import httpx2 as httpx
import pytest

from tests.support.service import Service

SHORT, LONG = "application/json", "application/json; charset=utf-8"
OWN = {"id", "branch", "createdAt", "updatedAt"}


def post_job(service: Service, kind: str, body: str) -> httpx.Response:
    return service.http.post(service.at("/job"), content=body.encode(), headers={"Content-Type": kind})


@pytest.mark.parametrize(
    "body",
    [
        '{"prompt": "Add a page"}',
        '{"prompt": "Ünï \\ud83d\\ude00", "title": "T", "draft": true, "ref": "main", "model": "mechanic"}',
        '{"prompt": ""}',
        '{"prompt": 1}',
        '{"prompt": "a", "colour": 1}',
        '{"prompt": "a", "prompt": "b"}',
        '{"prompt": "a", "model": "openai:none"}',
        '{"prompt": "a", "ref": "-x"}',
        '{"prompt": "\\u0000"}',
        '{"prompt": "a"',
        "[]",
        "",
        '{"prompt": "\\ud800"}',
        '{"prompt": NaN}',
    ],
)
def test_fast_and_regular_path_create_jobs_alike(service: Service, body: str) -> None:
    short, long = post_job(service, SHORT, body), post_job(service, LONG, body)
    assert short.status_code == long.status_code
    assert set(short.headers) == set(long.headers)
    if short.status_code == 201:
        same: list[dict[str, Any]] = [{k: v for k, v in r.json().items() if k not in OWN} for r in (short, long)]
        assert same[0] == same[1]
        assert short.headers["location"] == service.at(f"/job/{short.json()['id']}")
    else:
        assert short.json() | {"requestId": ""} == long.json() | {"requestId": ""}


def test_fast_and_regular_path_answer_polls_alike(service: Service) -> None:
    job = service.client.create_job("Replace colour with color")
    service.client.wait(job["id"])
    polled = service.http.get(service.at(f"/job/{job['id']}"))
    listed = service.http.get(service.at("/jobs")).json()["jobs"][0]
    assert polled.json() == listed
    assert polled.headers["content-type"] == "application/json"
    assert service.http.get(service.at("/job/job_nope")).json()["code"] == "job_not_found"


def test_concurrent_creations_are_answered_with_their_own_job(service: Service) -> None:
    answers: dict[str, httpx.Response] = {}

    def create(prompt: str) -> None:
        with httpx.Client(base_url=service.url, headers=service.http.headers, timeout=60) as http:
            answers[prompt] = http.post(service.at("/job"), json={"prompt": prompt})

    threads = [threading.Thread(target=create, args=(f"Prompt {n}",)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {prompt: answer.json()["prompt"] for prompt, answer in answers.items()} == {p: p for p in answers}
    assert len({answer.json()["id"] for answer in answers.values()}) == 24
    for answer in answers.values():
        assert service.http.get(answer.headers["location"]).json()["id"] == answer.json()["id"]
