"""The API of a repository's address, the pull requests that count, and the credentials it accepts."""

from typing import Any

import pytest

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Credentials, Proposal
from copydesk.jobs.publish.forges.registry import create_forge, detect_forge, load_credentials, split_repository_url
from tests.jobs.publish.forges.conftest import make_project
from tests.jobs.publish.forges.stub import StubAnswer, serve_stub

GITEA_VERSION = StubAnswer(200, {"version": "1.24.7"})


@pytest.mark.parametrize(
    ("forge", "address", "base", "name"),
    [
        ("github", "https://github.com/acme/docs", "https://api.github.com", "acme/docs"),
        ("github", "https://github.com/acme/docs.git", "https://api.github.com", "acme/docs"),
        ("github", "https://ghe.example.org:8443/acme/docs", "https://ghe.example.org:8443/api/v3", "acme/docs"),
        ("gitlab", "https://gitlab.com/a/b/c/docs.git", "https://gitlab.com/api/v4", "a/b/c/docs"),
        ("gitea", "https://git.example.org/acme/docs", "https://git.example.org/api/v1", "acme/docs"),
        ("forgejo", "https://codeberg.org/acme/docs.git", "https://codeberg.org/api/v1", "acme/docs"),
        ("gitea", "https://example.org/git/acme/docs.git", "https://example.org/git/api/v1", "acme/docs"),
        ("forgejo", "https://example.org/a/b/acme/docs/", "https://example.org/a/b/api/v1", "acme/docs"),
    ],
)
def test_api_url_follows_from_the_repository_address(forge: str, address: str, base: str, name: str) -> None:
    assert split_repository_url(forge, address) == (base, name)


@pytest.mark.parametrize(
    ("forge", "address"),
    [
        ("github", "https://github.com/acme"),
        ("github", "https://github.com/acme/docs/tree/main"),
        ("gitlab", "https://gitlab.com/docs"),
        ("gitea", "/srv/git/docs.git"),
        ("gitea", "https://git.example.org/docs"),
        ("gitea", "https://git.example.org/acme//docs"),
        ("gitea", "https://git.example.org/acme/docs/src/branch/main"),
        ("forgejo", "https://codeberg.org/acme/docs/pulls/7"),
        ("forgejo", "file:///srv/git/acme/docs.git"),
        ("local", "https://github.com/acme/docs"),
    ],
)
def test_an_address_that_names_no_repository_is_refused(forge: str, address: str) -> None:
    with pytest.raises(ForgeRefused, match="is not the URL of a repository"):
        split_repository_url(forge, address)


@pytest.mark.parametrize(
    ("address", "forge"),
    [
        ("https://github.com/acme/docs", "github"),
        ("https://gitlab.com/acme/docs", "gitlab"),
        ("https://codeberg.org/acme/docs", "forgejo"),
        ("https://github.com.example.org/acme/docs", "local"),
        ("/srv/github.com/docs.git", "local"),
    ],
)
def test_well_known_hosts_are_recognized(address: str, forge: str) -> None:
    assert detect_forge(address) == forge


def test_a_token_comes_from_the_variable_that_the_project_names(monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project("github", "https://github.com/acme/docs", token_env="DOCS_TOKEN")
    monkeypatch.setenv("DOCS_TOKEN", "from-the-environment")
    assert load_credentials(project, {"forge_token": "sealed"}).token == "from-the-environment"
    monkeypatch.delenv("DOCS_TOKEN")
    with pytest.raises(RepositoryFailed, match="DOCS_TOKEN, which holds the token, is not set"):
        load_credentials(project, {"forge_token": "sealed"})


def test_without_a_variable_the_sealed_token_is_used() -> None:
    project = make_project("gitlab", "https://gitlab.com/acme/docs")
    assert load_credentials(project, {"forge_token": "sealed"}).token == "sealed"


def test_repr_of_credentials_hides_them() -> None:
    assert "hush" not in repr(Credentials(token="hush", app_id="7", app_key="hush"))


def test_a_forge_without_credentials_is_refused() -> None:
    with pytest.raises(ForgeRefused, match="needs a token"):
        create_forge(make_project("gitea", "https://git.example.org/acme/docs"), Credentials())


def make_head(full_name: str | None) -> dict[str, Any]:
    return {"ref": "copydesk/job_1", "sha": "a" * 40, "repo": full_name and {"full_name": full_name}}


def make_pull(number: int, full_name: str | None) -> dict[str, Any]:
    common = {"number": number, "html_url": f"https://example.org/{number}", "state": "open", "title": "T"}
    return {**common, "head": make_head(full_name)}


def test_github_pull_request_from_a_fork_is_not_ours() -> None:
    listed = [make_pull(1, "mallory/docs"), make_pull(2, None), make_pull(4, "Acme/Docs"), make_pull(3, "acme/docs")]
    with serve_stub(StubAnswer(200, listed)) as served:
        forge = create_forge(make_project("github", f"{served.url}/acme/docs"), Credentials(token="token-0815"))
        assert [found.number for found in forge.find_pulls("copydesk/job_1", "main")] == [3, 4]
        assert served.requests[0].path.startswith(
            "/api/v3/repos/acme/docs/pulls?head=acme%3Acopydesk%2Fjob_1&state=all"
        )


def test_gitea_pull_request_from_a_fork_is_not_ours() -> None:
    listed = [make_pull(1, "mallory/docs"), make_pull(2, None), make_pull(3, "acme/docs")]
    with serve_stub(GITEA_VERSION, StubAnswer(200, listed), StubAnswer(404, {})) as served:
        forge = create_forge(make_project("gitea", f"{served.url}/acme/docs"), Credentials(token="token-0815"))
        assert [found.number for found in forge.find_pulls("copydesk/job_1", "main")] == [3]
        assert served.requests[2].path == "/api/v1/repos/acme/docs/pulls/main/copydesk/job_1"


def test_gitlab_merge_request_from_a_fork_is_not_ours() -> None:
    common = {"web_url": "https://example.org/1", "state": "opened", "title": "T", "source_branch": "copydesk/job_1"}
    listed = [
        {**common, "iid": 1, "source_project_id": 9, "target_project_id": 5},
        {**common, "iid": 2, "source_project_id": 5, "target_project_id": 5},
    ]
    with serve_stub(StubAnswer(200, listed)) as served:
        forge = create_forge(make_project("gitlab", f"{served.url}/a/b/docs"), Credentials(token="token-0815"))
        assert [found.number for found in forge.find_pulls("copydesk/job_1", "main")] == [2]
        assert served.requests[0].path.startswith("/api/v4/projects/a%2Fb%2Fdocs/merge_requests?source_branch=")


def test_gitea_assignees_count_as_writers_if_permissions_are_hidden() -> None:
    refusal = StubAnswer(403, {"message": "Only admins can query all permissions"})
    answers = [
        refusal,
        StubAnswer(405, {"message": "repo is not owned by an organization"}),
        StubAnswer(200, [{"login": "Rosa"}]),
    ]
    with serve_stub(GITEA_VERSION, *answers) as served:
        forge = create_forge(make_project("gitea", f"{served.url}/acme/docs"), Credentials(token="token-0815"))
        assert forge.can_write("rosa")
        served.answers = [*answers]
        assert not forge.can_write("nobody")


def test_gitea_assignees_of_an_organization_do_not_count_as_writers() -> None:
    answers = [StubAnswer(403, {"message": "Only admins can query all permissions"}), StubAnswer(200, [])]
    with serve_stub(GITEA_VERSION, *answers) as served:
        forge = create_forge(make_project("gitea", f"{served.url}/acme/docs"), Credentials(token="token-0815"))
        with pytest.raises(ForgeRefused, match="only lets administrators"):
            forge.can_write("rosa")


def test_repository_without_drafts_gets_a_ready_pull_request() -> None:
    refusal = {"message": "Validation Failed", "errors": [{"message": "Draft pull requests are not supported"}]}
    with serve_stub(StubAnswer(422, refusal), StubAnswer(201, make_pull(1, "acme/docs"))) as served:
        forge = create_forge(make_project("github", f"{served.url}/acme/docs"), Credentials(token="token-0815"))
        assert not forge.open_pull(Proposal("copydesk/job_1", "main", "T", "B", draft=True)).draft
        assert [asked.body["draft"] for asked in served.requests] == [True, False]
