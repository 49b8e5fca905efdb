"""Common behavior of the fake forges: git on the same port, and all faults that a test can switch on."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from tests.support.forges import faults, gitea, github, gitlab, state
from tests.support.forges.base import FakeForge
from tests.support.repositories import list_branches, read_file

TOKEN, BRANCH = "secret-of-copydesk", "copydesk/job_1"
pytestmark = pytest.mark.drill  # tests of the test tools; the tests that use these tools would fail too


@dataclass
class RawCaller:
    """A caller without a client library: requests by forge."""

    fake: FakeForge
    http: httpx2.Client

    @property
    def pulls(self) -> str:
        return "/projects/acme%2Fdocs/merge_requests" if self.fake.kind == "GitLab" else "/repos/acme/docs/pulls"

    def list(self) -> Any:
        return self.http.get(self.pulls)

    def create(self, head: str = BRANCH) -> httpx2.Response:
        if self.fake.kind == "GitLab":
            return self.http.post(self.pulls, json={"source_branch": head, "target_branch": "main", "title": "A guide"})
        return self.http.post(self.pulls, json={"head": head, "base": "main", "title": "A guide"})


@pytest.fixture(params=[github, gitlab, gitea], ids=lambda kind: kind.kind)
def caller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RawCaller]:
    with request.param(tmp_path / "forge") as fake:
        fake.add_token(TOKEN)
        fake.commit(BRANCH, {"guide.md": b"# Guide\n"})
        with httpx2.Client(base_url=fake.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http:
            yield RawCaller(fake, http)
        assert fake.violations == []
        assert TOKEN not in str(fake.requests)


def run_git(*args: str, at: Path, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """Runs git with a token from the environment, without the configuration of the user who runs the tests."""
    helper = '!f() { echo username=x-access-token; echo "password=$GIT_TOKEN"; }; f'
    fixed = {
        "PATH": os.environ["PATH"],
        "GIT_TOKEN": token,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        **{f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    command = ["git", "-c", f"credential.helper={helper}", *args]
    return subprocess.run(command, cwd=at, env=fixed, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(caller: RawCaller, tmp_path: Path) -> Path:
    cloned = run_git("clone", "-q", caller.fake.repository_url("acme/docs"), "clone", at=tmp_path)
    assert cloned.returncode == 0, cloned.stderr
    return tmp_path / "clone"


def push_branch(clone: Path, branch: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    (clone / "new.md").write_text(f"# {branch}\n")
    run_git("checkout", "-q", "-B", branch, at=clone)
    run_git("add", ".", at=clone)
    run_git("commit", "-q", "-m", "Change", at=clone)
    return run_git("push", "-q", "origin", branch, at=clone, token=token)


def test_pull_request_follows_its_pushed_branch(caller: RawCaller, clone: Path) -> None:
    assert push_branch(clone, "feature").returncode == 0
    assert caller.create("feature").status_code == 201
    run_git("commit", "-q", "--allow-empty", "-m", "More", at=clone)
    run_git("push", "-q", "origin", "feature", at=clone)
    caller.list()
    assert caller.fake.pull(1).sha == list_branches(caller.fake.repository.folder)["feature"]
    caller.fake.merge(1)
    assert read_file(caller.fake.repository.folder, "main", "new.md") == b"# feature\n"


def test_push_needs_a_token_with_write_access(caller: RawCaller, clone: Path) -> None:
    fake = caller.fake
    fake.add_token("reader", scopes=frozenset(fake.read_scopes) - frozenset(fake.push_scopes))
    assert "denied to copydesk" in push_branch(clone, "feature", "reader").stderr
    assert "Authentication failed" in push_branch(clone, "feature", "wrong").stderr
    fake.revoke(TOKEN)
    assert push_branch(clone, "feature").returncode != 0
    assert "feature" not in list_branches(fake.repository.folder)


def test_protected_branches_and_archived_repositories_refuse_pushes(caller: RawCaller, clone: Path) -> None:
    caller.fake.faults.protect("main")
    refused = push_branch(clone, "main")
    assert re.search(r"protected branch|rule violations found for refs/heads/main", refused.stderr, re.IGNORECASE)
    assert push_branch(clone, "feature").returncode == 0
    caller.fake.repository.archived = True
    assert "archived" in push_branch(clone, "other").stderr


def test_a_renamed_repository_is_still_fetched_and_pushed_to(caller: RawCaller, clone: Path) -> None:
    caller.fake.rename("acme/docs", "acme/handbook")
    assert run_git("fetch", "-q", at=clone).returncode == 0
    assert 301 in [one.status for one in caller.fake.requests]


def test_branch_lag_hides_a_fresh_push_from_the_api(caller: RawCaller, clone: Path) -> None:
    caller.fake.faults.branch_lag(calls=2)
    push_branch(clone, "feature")
    statuses = [caller.create("feature").status_code for _ in range(3)]
    assert statuses == [{"GitHub": 422, "GitLab": 400}.get(caller.fake.kind, 404)] * 2 + [201]


def let_time_pass(monkeypatch: pytest.MonkeyPatch, module: Any, seconds: float) -> None:
    """Sets the clock of a module ahead."""
    ahead = SimpleNamespace(time=lambda: time.time() + seconds, monotonic=lambda: time.monotonic() + seconds)
    monkeypatch.setattr(module, "time", ahead)


def test_branch_lag_can_last_for_a_time(caller: RawCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    caller.fake.faults.branch_lag(seconds=60)
    caller.fake.commit("feature", {"a.md": b"a\n"})
    assert caller.create("feature").status_code >= 400
    let_time_pass(monkeypatch, state, 60)
    assert caller.create("feature").status_code == 201


def test_pull_lag_hides_a_new_pull_request_from_lists(caller: RawCaller) -> None:
    caller.fake.faults.pull_lag(calls=2)
    assert caller.create().status_code == 201
    assert caller.create().status_code in (409, 422)
    assert [len(caller.list().json()) for _ in range(3)] == [0, 0, 1]


def test_only_one_of_many_concurrent_requests_opens_a_pull_request(caller: RawCaller) -> None:
    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(lambda _: caller.create().status_code, range(8)))
    assert statuses == [201, *[422 if caller.fake.kind == "GitHub" else 409] * 7]
    assert len(caller.fake.pulls) == 1


def test_lost_response_leaves_the_action_done(caller: RawCaller) -> None:
    caller.fake.faults.lose_answer(where=r"POST .*/(pulls|merge_requests)$")
    with pytest.raises(httpx2.TransportError):
        caller.create()
    assert [pull.head for pull in caller.fake.pulls] == [BRANCH]
    assert caller.fake.requests[-1].status == 0
    assert len(caller.list().json()) == 1


def test_lost_response_to_a_push_leaves_the_branch(caller: RawCaller, clone: Path) -> None:
    caller.fake.faults.lose_answer(where="POST .*git-receive-pack")
    assert push_branch(clone, "feature").returncode != 0
    assert "feature" in list_branches(caller.fake.repository.folder)


def test_cut_connection_leaves_the_action_undone(caller: RawCaller) -> None:
    caller.fake.faults.cut(times=2)
    for _ in range(2):
        with pytest.raises(httpx2.TransportError):
            caller.create()
    assert caller.fake.pulls == []
    assert caller.create().status_code == 201


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (lambda faults: faults.html(), 502, "text/html; charset=utf-8"),
        (lambda faults: faults.answer(500), 500, "text/plain"),
        (lambda faults: faults.down(60), 503, "text/plain"),
    ],
)
def test_answer_fault_returns_its_status(
    caller: RawCaller, fault: Callable[[Any], None], status: int, kind: str
) -> None:
    fault(caller.fake.faults)
    answer = caller.list()
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, kind)
    caller.fake.faults.clear()
    assert caller.list().status_code == 200


def test_down_fault_affects_git_and_ends(caller: RawCaller, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caller.fake.faults.down(60)
    assert run_git("fetch", "-q", at=clone).returncode != 0
    let_time_pass(monkeypatch, faults, 60)
    assert run_git("fetch", "-q", at=clone).returncode == 0


def test_slow_fault_delays_responses(caller: RawCaller) -> None:
    caller.fake.faults.slow(0.2, times=1)
    begun = time.monotonic()
    assert caller.list().status_code == 200
    assert time.monotonic() - begun >= 0.2


def test_rate_limits_apply_only_to_the_api(caller: RawCaller, clone: Path) -> None:
    caller.fake.faults.rate_limit(times=1, reset_in=30)
    assert run_git("fetch", "-q", at=clone).returncode == 0
    assert caller.list().status_code in (403, 429)
    assert caller.list().status_code == 200


def test_a_token_in_an_address_is_not_logged(caller: RawCaller) -> None:
    httpx2.get(f"{caller.fake.api}/user", params={"access_token": TOKEN, "private_token": TOKEN}, timeout=60)
    assert len(caller.fake.requests) == 1
    caller.fake.violations.clear()
