"""Validation of a project's repository and branch."""

import pytest

from copydesk.core.audit_log import list_entries
from copydesk.core.errors import InvalidRequest, ProjectNotFound
from copydesk.core.ids import new_id
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import validate_ref, validate_repository
from copydesk.desk import Desk


@pytest.mark.parametrize(
    "address",
    [
        "",
        "  ",
        "-x",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "fd::17",
        "ssh://-oProxyCommand=touch/x",
        "git@example.org:docs.git",
        "git://example.org/docs.git",
        "https://user:secret@example.org/docs.git",
        "https://token@example.org/docs.git",
        "https:///docs.git",
        "https://example.org/docs.git?x=1",
        "file://elsewhere/docs.git",
        "https://example.org/\ndocs.git",
    ],
)
def test_invalid_repository_address_or_one_with_a_secret_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate_repository(address)
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize("address", ["https://example.org/docs.git", "http://127.0.0.1:3000/docs", "file:///srv/docs"])
def test_ordinary_repository_address_is_accepted_unchanged(address: str) -> None:
    assert validate_repository(address) == address


BAD_REFS = ["", "-x", "--upload-pack=x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@{-1}", "@",
            ".a", "a/.b", "a.lock", "a/", "/a", "a//b", "a.", "a\x00", "a\n", "x" * 201]  # fmt: skip


@pytest.mark.parametrize("ref", BAD_REFS)
def test_invalid_branch_name_is_refused(ref: str) -> None:
    with pytest.raises(InvalidRequest):
        validate_ref(ref)


@pytest.mark.parametrize("ref", ["main", "release/1.2", "feature-x", "ünï", "v1.0"])
def test_ordinary_branch_names_are_accepted(ref: str) -> None:
    assert validate_ref(ref) == ref


def test_created_project_is_stored_unchanged(desk: Desk) -> None:
    made = desk.projects.create(
        "Docs",
        repository="https://example.org/docs.git",
        ref="main",
        root="/site/docs/",
        policy=Policy(unprotected_paths=(".github/*",), labels=("docs",)),
        actor="ada",
    )
    assert made.root == "site/docs"
    assert desk.projects.get(made.id) == made
    assert desk.projects.all() == [made]
    with pytest.raises(ProjectNotFound):
        desk.projects.get(new_id("proj"))


def test_typed_project_changes_are_applied_and_audited(desk: Desk) -> None:
    made = desk.projects.create("Docs", repository="https://example.org/docs.git", ref="main", actor="ada")
    typed = {
        "ref": "next",
        "labels": "docs, agent",
        "draft": "true",
        "check_command": "make html",
        "check_minutes": "2",
    }
    changed = desk.projects.change(made.id, typed, actor="ben")
    assert desk.projects.get(made.id) == changed
    assert (changed.ref, changed.policy.labels, changed.policy.draft) == ("next", ("docs", "agent"), True)
    assert desk.projects.change(made.id, {"check_command": "", "labels": ""}, actor="ben").policy.check_command is None
    assert [entry["action"] for entry in list_entries(desk.database, made.id)] == [
        "project.changed",
        "project.changed",
        "project.created",
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"labells": "x"},
        {"draft": "perhaps"},
        {"branch_prefix": "../x/"},
        {"branch_prefix": "-x/"},
        {"branch_prefix": "docs"},
        {"author_email": "nobody"},
        {"author_name": "A\nSigned-off-by: B"},
        {"co_authors": "Ada"},
        {"on_check_failure": "ignore"},
        {"check_minutes": "0"},
        {"mention": "all"},
        {"root": "../x"},
        {"root": "a//b"},
        {"ref": "-x"},
        {"repository": "https://example.org/other.git"},
        {"forge": "github"},
    ],
)
def test_invalid_value_is_refused_with_its_field_name_and_changes_nothing(desk: Desk, values: dict[str, str]) -> None:
    made = desk.projects.create("Docs", repository="https://example.org/docs.git", ref="main", actor="ada")
    with pytest.raises(InvalidRequest):
        desk.projects.change(made.id, values, actor="ada")
    assert desk.projects.get(made.id) == made
