"""A complete job with each provider's wire format: over HTTP, through the worker, to the pull request."""

import time
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.workspace.workspace import short_hash
from copydesk_client import Job
from tests.support.model_server import ModelServer, Turn, call, cut, drop, fail, hang, say
from tests.support.models.connected_models import COMPATIBLE_MODEL, PROVIDER_KEY, PROVIDER_MODELS, model_factory
from tests.support.repositories import make_repository, read_file
from tests.support.service import serve

pytestmark = pytest.mark.deep

PAGE = b"# Hello\n\nThe colour of things.\n"
EDIT = {"path": "index.md", "hash": short_hash(PAGE), "replacements": [{"old": "colour", "new": "color"}]}
USED: dict[str, Any] = {"input_tokens": 1000, "cached": 500, "output_tokens": 40}
SCRIPT: list[Turn] = [
    call("read", {"path": "index.md"}, text="I look.", thinking="Where is it", **USED),
    [fail(429, retry_after=0), drop(), call("edit", EDIT, thinking="There it is", **USED)],
    [cut(say("Let me see.", **USED)), call("diff", {}, **USED)],
    call("finish", {"title": "American spelling", "summary": "It was colour."}, **USED),
]
PRICES = {"openai": (1.25, 10), "anthropic": (5, 25), "google": (1.25, 10)}
"""US dollars for a million tokens of input and of output; cached tokens cost a tenth."""
OF_THE_BROKEN_STREAM = {"anthropic": (1000, 1), "google": (1000, 0)}
"""Providers that report the usage of a request before its end; OpenAI reports it last."""


def run_job(server: ModelServer, folder: Path, name: str, **settings: Any) -> Job:
    repository = make_repository(folder / "docs.git", {"index.md": PAGE})
    with serve(
        folder / "data", repository=repository, model=model_factory(server), models=(name,), **settings
    ) as service:
        return service.client.wait(service.client.create_job("Spell color so.", model=name)["id"])


@pytest.mark.parametrize("name", PROVIDER_MODELS)
def test_job_reaches_its_pull_request(name: str, tmp_path: Path) -> None:
    with ModelServer(SCRIPT, by_turn=True) as server:
        job = run_job(server, tmp_path, name)
    assert (job["status"], job["reason"], job["title"]) == ("completed", None, "American spelling")
    assert read_file(tmp_path / "docs.git", job["branch"], "index.md") == PAGE.replace(b"colour", b"color")
    assert [request.turn for request in server.requests] == [0, 1, 1, 1, 2, 2, 3]
    provider = name.partition(":")[0]
    broken_input, broken_output = OF_THE_BROKEN_STREAM.get(provider, (0, 0))
    usage = job["usage"]
    tokens = (usage["inputTokens"], usage["outputTokens"])
    assert usage["requests"] == 5, "four replies, and a stream that broke; what was refused is not counted"
    assert tokens == (4 * 1000 + broken_input, 4 * 40 + broken_output)
    if provider in PRICES:
        price, price_of_output = PRICES[provider]
        assert usage["costUsd"] == pytest.approx((tokens[0] * price * 0.55 + tokens[1] * price_of_output) / 1_000_000)
    else:
        assert usage["costUsd"] is None


def test_provider_outage_longer_than_the_job_fails_it_early(tmp_path: Path) -> None:
    begun = time.monotonic()
    with ModelServer(lambda _: fail(503, "Back in an hour.", retry_after=3600)) as server:
        job = run_job(server, tmp_path, COMPATIBLE_MODEL)
    assert (job["status"], job["reason"]) == ("failed", "model_error")
    assert "Back in an hour. The next attempt would have to wait 3600 s, and the job has 1" in (job["message"] or "")
    assert len(server.requests) == 1
    assert time.monotonic() - begun < 120


def test_job_whose_time_ends_in_mid_answer_times_out(tmp_path: Path) -> None:
    with ModelServer(lambda _: hang(60)) as server:
        job = run_job(server, tmp_path, COMPATIBLE_MODEL, job_minutes=1 / 60)
    assert (job["status"], job["reason"]) == ("failed", "timed_out")


@pytest.mark.parametrize("name", PROVIDER_MODELS)
def test_failed_job_leaves_no_trace_of_the_key(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refusal = fail(401, f"Incorrect API key provided: {PROVIDER_KEY}, or {PROVIDER_KEY[:7]}****{PROVIDER_KEY[-4:]}.")
    with ModelServer([call("diff", {}), refusal]) as server:
        job = run_job(server, tmp_path, name)
    assert (job["status"], job["reason"]) == ("failed", "model_error")
    assert "Incorrect API key provided: [key], or [key]" in (job["message"] or "")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    for part in (PROVIDER_KEY, PROVIDER_KEY[:7], PROVIDER_KEY[-7:]):
        assert part not in caplog.text
        assert part.encode() not in kept
