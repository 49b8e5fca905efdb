"""Which repositories and branches a project may name."""

import pytest

from copydesk.core.errors import InvalidRequest, ProjectNotFound
from copydesk.core.ids import new_id
from copydesk.core.projects import checked_ref, checked_repository
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
def test_an_address_that_is_none_or_carries_a_secret_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        checked_repository(address)
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize("address", ["https://example.org/docs.git", "http://127.0.0.1:3000/docs", "file:///srv/docs"])
def test_an_ordinary_address_is_taken_as_it_is(address: str) -> None:
    assert checked_repository(address) == address


BAD_REFS = ["", "-x", "--upload-pack=x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@{-1}", "@",
            ".a", "a/.b", "a.lock", "a/", "/a", "a//b", "a.", "a\x00", "a\n", "x" * 201]  # fmt: skip


@pytest.mark.parametrize("ref", BAD_REFS)
def test_what_git_would_not_take_for_a_branch_is_refused(ref: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_ref(ref)


@pytest.mark.parametrize("ref", ["main", "release/1.2", "feature-x", "ünï", "v1.0"])
def test_ordinary_branches_are_taken(ref: str) -> None:
    assert checked_ref(ref) == ref


def test_a_project_is_kept_as_it_was_made(desk: Desk) -> None:
    made = desk.projects.create(
        "Docs", repository="https://example.org/docs.git", ref="main", allowed_paths=[".github/*"], actor="ada"
    )
    assert desk.projects.get(made.id) == made
    assert desk.projects.all() == [made]
    with pytest.raises(ProjectNotFound):
        desk.projects.get(new_id("proj"))
