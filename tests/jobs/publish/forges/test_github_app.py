"""A GitHub App's token is minted for one job and one repository, with only the permissions of publishing."""

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from copydesk.core.projects.policy import Policy
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forges.forge import Credentials, Forge, Proposal
from copydesk.jobs.publish.forges.registry import create_forge
from tests.jobs.publish.forges.conftest import BRANCH, make_project
from tests.jobs.publish.forges.extra_calls import GitHub


@cache
def make_key_pair() -> tuple[str, bytes]:
    """Makes a private key and its public key, both in PEM."""
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return private.decode(), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Any]:
    with GitHub(tmp_path) as running:
        running.install_app(make_key_pair()[1], app_id=7)
        running.commit(BRANCH, {"docs/index.md": b"# Hello\n"})
        yield running
        assert running.violations == []


def create_app_forge(fake: Any, *, app_id: str = "7", key: str | None = None, reviewers: tuple[str, ...] = ()) -> Forge:
    project = make_project("github", fake.repository_url("acme/docs"), policy=Policy(reviewers=reviewers))
    return create_forge(project, Credentials(token="not-used", app_id=app_id, app_key=key or make_key_pair()[0]))


def count_minted_tokens(fake: Any) -> int:
    return len([request for request in fake.requests if request.path.endswith("/access_tokens")])


@pytest.mark.deep
def test_github_app_opens_a_pull_request_with_an_installation_token(fake: Any) -> None:
    forge = create_app_forge(fake)
    assert forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three.")).number == 1
    assert fake.pull(1).author.login == "copydesk[bot]"
    assert count_minted_tokens(fake) == 1
    forge.close()


@pytest.mark.deep
def test_installation_token_is_limited_to_one_repository_and_publishing(fake: Any) -> None:
    forge = create_app_forge(fake)
    token = fake.tokens[forge.git_token()]
    assert token.repositories == {"acme/docs"}
    assert {scope for scope in token.scopes if scope.endswith("=write")} == {"contents=write", "pull_requests=write"}
    forge.close()


@pytest.mark.deep
def test_correctly_installed_app_has_no_access_problems(fake: Any) -> None:
    forge = create_app_forge(fake)
    assert forge.find_access_problems(BRANCH) == []
    forge.close()


@pytest.mark.deep
def test_a_token_is_minted_per_job_and_revoked_at_its_end(fake: Any) -> None:
    first, second = create_app_forge(fake), create_app_forge(fake)
    tokens = [forge.git_token() for forge in (first, second, first)]
    assert tokens[0] == tokens[2] != tokens[1]
    first.close()
    assert not fake.tokens[tokens[0]].alive
    assert fake.tokens[tokens[1]].alive
    second.close()


def test_a_token_is_renewed_before_it_expires(fake: Any) -> None:
    fake.app.lasts = 300
    forge = create_app_forge(fake)
    assert forge.git_token() != forge.git_token()
    fake.app.lasts = 3600
    kept = forge.git_token()
    assert forge.git_token() == kept
    assert fake.tokens[kept].expires > time.time() + 600
    forge.close()


def test_app_that_is_not_installed_is_reported(fake: Any) -> None:
    fake.app.repositories = frozenset()
    with pytest.raises(ForgeRefused, match="App 7 is not installed on acme/docs"):
        create_app_forge(fake).git_token()


def test_missing_permissions_of_an_app_are_reported(fake: Any) -> None:
    fake.app.permissions = {"contents": "read", "metadata": "read"}
    with pytest.raises(ForgeRefused, match="needs read and write access to contents and pull requests"):
        create_app_forge(fake).git_token()


@pytest.mark.deep
def test_key_of_another_app_is_reported_without_showing_it(fake: Any) -> None:
    other = rsa.generate_private_key(65537, 2048)
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(ForgeRefused, match="Check that the App ID and the private key match") as refused:
        create_app_forge(fake, key=pem).git_token()
    assert pem.splitlines()[1] not in str(refused.value)


@pytest.mark.deep
def test_new_token_that_github_does_not_know_yet_is_retried(fake: Any) -> None:
    fake.app.unknown_calls = 2
    forge = create_app_forge(fake)
    assert forge.find_pulls(BRANCH, "main") == []
    assert count_minted_tokens(fake) == 1
    forge.close()


def test_server_that_does_not_know_a_new_token_counts_as_unavailable(fake: Any) -> None:
    forge = create_app_forge(fake)
    fake.tokens[forge.git_token()].unknown_calls = 1
    with pytest.raises(ForgeUnavailable, match="does not accept the new token yet"):
        forge.find_pulls(BRANCH, "main")
    assert forge.find_pulls(BRANCH, "main") == []
    forge.close()


@pytest.mark.deep
def test_app_requests_a_review_by_a_team_if_it_may_read_members(fake: Any) -> None:
    fake.repository.teams = ("writers",)
    fake.app.permissions["members"] = "read"
    forge = create_app_forge(fake, reviewers=("acme/writers",))
    forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    assert forge.request_reviewers(1, ["acme/writers"]) == []
    assert fake.pull(1).team_reviewers == ["writers"]
    forge.close()


def test_app_without_the_permission_for_teams_is_told_which_one_it_lacks(fake: Any) -> None:
    fake.repository.teams = ("writers",)
    forge = create_app_forge(fake, reviewers=("acme/writers",))
    forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    [note] = forge.request_reviewers(1, ["acme/writers"])
    assert note.startswith("acme/writers could not be added as a reviewer: ")
    assert note.endswith("needs the organization permission Members (read).")
    forge.close()


@pytest.mark.parametrize("hours", [-1, 1])
def test_wrong_clock_is_reported_in_githubs_words(fake: Any, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real_now = time.time
    forge = create_app_forge(fake)
    fake.app.now = real_now  # GitHub's clock stays right
    monkeypatch.setattr(time, "time", lambda: real_now() + hours * 3600)
    with pytest.raises(ForgeRefused, match=r"The clock of this machine differs from GitHub's\..*claim \('") as refused:
        forge.git_token()
    assert "private key match" not in str(refused.value)


def test_app_is_told_about_rules_that_forbid_its_commits(fake: Any) -> None:
    fake.faults.protect("copydesk/*")
    forge = create_app_forge(fake)
    assert f"has a rule that forbids branches such as {BRANCH}" in forge.find_access_problems(BRANCH)[0]
    forge.close()


@pytest.mark.parametrize(
    "key", ["", "not a key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"]
)
def test_invalid_app_key_is_reported(fake: Any, key: str) -> None:
    with pytest.raises(ForgeRefused, match="not an RSA private key in PEM form"):
        create_app_forge(fake, key=key or " ")
