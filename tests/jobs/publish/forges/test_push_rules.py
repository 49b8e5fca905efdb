"""Rules of a repository that forbid a job's commits are named before a model is asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.forge import PlannedCommit
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from tests.jobs.publish.forges.conftest import BRANCH, TOKEN, ForgeBench
from tests.jobs.publish.forges.stage import FILES, create_project, fake_forge
from tests.support.repositories import make_repository
from tests.support.service import serve

PLANNED = PlannedCommit("docs@acme.org", "docs", is_signed=False, is_signed_off=False)
GITHUB_RULES: list[tuple[str, Any, str]] = [
    ("required_signatures", None, "requires signed commits. Set the secret signing_key"),
    ("commit_author_email_pattern", {"operator": "ends_with", "pattern": "@bots.acme.org"}, "forbids commits by docs@"),
    ("committer_email_pattern", {"operator": "regex", "pattern": r"^bot.*@acme\.org$"}, "forbids commits by docs@"),
    (
        "branch_name_pattern",
        {"operator": "regex", "pattern": "^(feature|fix)/"},
        "forbids branch names such as copydesk",
    ),
    (
        "branch_name_pattern",
        {"operator": "starts_with", "pattern": "copydesk/", "negate": True},
        "forbids branch names",
    ),
    ("file_path_restriction", {"restricted_file_paths": ["docs/**/*"]}, "forbids changes below docs"),
    ("file_extension_restriction", {"restricted_file_extensions": ["*.md"]}, "forbids pushing .md files"),
    ("update", None, "forbids branches such as copydesk/"),
]
ALLOWING_GITHUB_RULES: list[tuple[str, Any]] = [
    ("commit_author_email_pattern", {"operator": "ends_with", "pattern": "@acme.org"}),
    ("commit_author_email_pattern", {"operator": "regex", "pattern": "(a+)+$", "negate": True}),
    ("commit_author_email_pattern", {"operator": "regex", "pattern": "(unclosed"}),
    ("branch_name_pattern", {"operator": "contains", "pattern": "copydesk"}),
    ("file_path_restriction", {"restricted_file_paths": [".github/**/*", "docs/generated/**/*"]}),
    ("file_extension_restriction", {"restricted_file_extensions": [".exe"]}),
    ("non_fast_forward", None),
    ("deletion", None),
]
GITLAB_RULES: list[tuple[str, Any, str]] = [
    ("reject_unsigned_commits", True, "requires signed commits. Set the secret signing_key"),
    ("author_email_regex", r"@bots\.acme\.org$", "forbids commits by docs@acme.org"),
    ("branch_name_regex", "^(feature|fix)/", "forbids branch names such as copydesk/"),
    ("reject_non_dco_commits", True, "requires a Signed-off-by line. Set sign_off"),
    ("file_name_regex", r"\.(exe|md)$", "forbids the names of pages"),
]


@pytest.mark.parametrize("desk", ["github"], indirect=True)
@pytest.mark.parametrize(("kind", "parameters", "sentence"), GITHUB_RULES)
def test_rule_of_a_ruleset_is_named(desk: ForgeBench, kind: str, parameters: Any, sentence: str) -> None:
    desk.fake.faults.require_rule(kind, parameters)
    [problem] = desk.forge.find_access_problems(BRANCH, PLANNED)
    assert sentence in problem


@pytest.mark.parametrize("desk", ["github"], indirect=True)
@pytest.mark.parametrize(("kind", "parameters"), ALLOWING_GITHUB_RULES)
def test_rule_that_allows_the_commit_is_not_named(desk: ForgeBench, kind: str, parameters: Any) -> None:
    desk.fake.faults.require_rule(kind, parameters)
    assert desk.forge.find_access_problems(BRANCH, PLANNED) == []


@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_rule_that_the_token_may_bypass_is_not_named(desk: ForgeBench) -> None:
    desk.fake.users["copydesk"].access = "admin"
    desk.fake.faults.require_rule("required_signatures")
    assert desk.forge.find_access_problems(BRANCH, PLANNED) == []


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
@pytest.mark.parametrize(("name", "value", "sentence"), GITLAB_RULES)
def test_push_rule_of_gitlab_is_named(desk: ForgeBench, name: str, value: Any, sentence: str) -> None:
    desk.fake.faults.require_rule(name, value)
    [problem] = desk.forge.find_access_problems(BRANCH, PLANNED)
    assert sentence in problem


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_author_that_cannot_be_a_member_is_named(desk: ForgeBench) -> None:
    desk.fake.faults.require_rule("member_check", True)
    assert desk.forge.find_access_problems(BRANCH, PLANNED) == []
    [problem] = desk.forge.find_access_problems(BRANCH, replace(PLANNED, author_email="copydesk@localhost"))
    assert "only addresses of its members" in problem


@pytest.mark.parametrize(("desk", "rule"), [("github", "required_signatures"), ("gitlab", "reject_unsigned_commits")],
                         indirect=["desk"])  # fmt: skip
def test_signed_and_signed_off_commits_satisfy_the_rules(desk: ForgeBench, rule: str) -> None:
    desk.fake.faults.require_rule(rule, True if desk.kind == "gitlab" else None)
    planned = replace(PLANNED, is_signed=True, is_signed_off=True)
    assert desk.forge.find_access_problems(BRANCH, planned) == []


@pytest.mark.deep
@pytest.mark.parametrize("way", ["github", "gitlab"])
def test_job_fails_before_the_model_is_asked_if_a_rule_forbids_its_commits(way: str, tmp_path: Path) -> None:
    def refuse_model(_name: str) -> Any:
        raise AssertionError("The model was asked.")

    local = make_repository(tmp_path / "docs.git", FILES)
    with (
        fake_forge(way, tmp_path / "forge") as fake,
        serve(tmp_path / "data", repository=local, model=refuse_model) as service,
    ):
        rule = {"github": "required_signatures", "gitlab": "reject_unsigned_commits"}[way]
        fake.faults.require_rule(rule, True if way == "gitlab" else None)
        project = create_project(service.desk, way, fake)
        key = service.desk.keys.create(project.id, actor="test")[1]
        client = replace(service, project=project, key=key).client
        job = client.wait(client.create_job("Spell color so.")["id"])
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    assert "requires signed commits. Set the secret signing_key" in (job["message"] or "")
    assert job["usage"]["requests"] == 0


def test_push_of_an_unsigned_commit_is_rejected_with_the_whole_reason(tmp_path: Path) -> None:
    with fake_forge("github", tmp_path / "forge") as fake:
        fake.faults.require_rule("required_signatures")
        mirror = Mirror(tmp_path / "mirror.git", Git(fake.repository_url("acme/docs"), get_token=lambda: TOKEN))
        with pytest.raises(RepositoryFailed) as refused:
            mirror.push(mirror.fetch_head("main"), "copydesk/job_9", None)
    assert "GH013: Repository rule violations found for refs/heads/copydesk/job_9." in str(refused.value)
    assert "- Commits must have verified signatures. Found 1 violation: 027faa7121ee" in str(refused.value)
