"""Webhook payloads: the events, and whether a comment addresses Copydesk."""

import json
from typing import Any

import pytest

from copydesk.jobs.publish.forges.markers import mark_comment
from copydesk.jobs.publish.forges.webhooks.payloads import (
    AgentMentioned,
    PullClosed,
    PullMerged,
    PullReopened,
    build_prompt,
    has_mention,
    parse_event,
)

REPOSITORY = {"id": 1, "full_name": "acme/docs", "html_url": "https://example.org/acme/docs"}
ROSA = {"login": "rosa", "id": 5, "type": "User"}
HUNK = "@@ -1,3 +1,3 @@\n # Setup\n-Run it.\n+Run `make`."


def github_payload(action: str, **about: Any) -> dict[str, Any]:
    return {"action": action, "repository": REPOSITORY, "sender": ROSA, **about}


def github_pull(**about: Any) -> dict[str, Any]:
    return {"number": 7, "state": "closed", "merged": False, "head": {"ref": "copydesk/job_1"}, **about}


def github_comment(body: str = "@copydesk shorten this", **about: Any) -> dict[str, Any]:
    return {"id": 99, "body": body, "user": ROSA, **about}


ISSUE = {"number": 7, "pull_request": {"url": "https://api.example.org/repos/acme/docs/pulls/7"}}


def gitlab_payload(kind: str, attributes: dict[str, Any], **about: Any) -> dict[str, Any]:
    project = {"id": 15, "path_with_namespace": "acme/docs", "web_url": "https://gitlab.example.org/acme/docs"}
    user = {"id": 5, "name": "Rosa", "username": "rosa"}
    return {"object_kind": kind, "user": user, "project": project, "object_attributes": attributes, **about}


def gitlab_note(note: str = "@copydesk shorten this", **about: Any) -> dict[str, Any]:
    attributes = {"id": 99, "note": note, "noteable_type": "MergeRequest", "system": False, "action": "create", **about}
    return gitlab_payload("note", attributes, merge_request={"iid": 7, "source_branch": "copydesk/job_1"})


def gitea_payload(action: str, **about: Any) -> dict[str, Any]:
    return {"action": action, "repository": REPOSITORY, "sender": ROSA, **about}


def gitea_comment(body: str = "@copydesk shorten this", **about: Any) -> dict[str, Any]:
    return gitea_payload(
        "created", issue={"number": 7}, comment={"id": 99, "body": body, "user": ROSA}, is_pull=True, **about
    )


MOVES = [
    ("github", "pull_request", github_payload("closed", pull_request=github_pull(merged=True)), PullMerged),
    ("github", "pull_request", github_payload("closed", pull_request=github_pull()), PullClosed),
    ("github", "pull_request", github_payload("reopened", pull_request=github_pull(state="open")), PullReopened),
    ("gitlab", "Merge Request Hook", gitlab_payload("merge_request", {"iid": 7, "action": "merge"}), PullMerged),
    ("gitlab", "Merge Request Hook", gitlab_payload("merge_request", {"iid": 7, "action": "close"}), PullClosed),
    ("gitlab", "Merge Request Hook", gitlab_payload("merge_request", {"iid": 7, "action": "reopen"}), PullReopened),
    (
        "gitea",
        "pull_request",
        gitea_payload("closed", number=7, pull_request={"number": 7, "merged": True}),
        PullMerged,
    ),
    (
        "forgejo",
        "pull_request",
        gitea_payload("closed", number=7, pull_request={"number": 7, "merged": False}),
        PullClosed,
    ),
    ("forgejo", "pull_request", gitea_payload("reopened", number=7, pull_request={"number": 7}), PullReopened),
]


@pytest.mark.parametrize(("forge", "event", "payload", "kind"), MOVES)
def test_merged_or_closed_pull_request_is_parsed(forge: str, event: str, payload: Any, kind: type) -> None:
    assert parse_event(forge, event, payload, "@copydesk") == kind("acme/docs", 7)


SPOKEN = [
    ("github", "issue_comment", github_payload("created", issue=ISSUE, comment=github_comment())),
    (
        "github",
        "pull_request_review_comment",
        github_payload("created", pull_request=github_pull(), comment=github_comment()),
    ),
    ("github", "pull_request_review", github_payload("submitted", pull_request=github_pull(), review=github_comment())),
    ("gitlab", "Note Hook", gitlab_note()),
    ("gitlab", "Note Hook", gitlab_note(action=None, created_at="2026-01-01", updated_at="2026-01-01")),
    ("gitea", "issue_comment", gitea_comment()),
    (
        "forgejo",
        "pull_request_rejected",
        gitea_payload(
            "reviewed", pull_request={"number": 7}, review={"type": "x", "content": "@copydesk shorten this"}
        ),
    ),
]


@pytest.mark.parametrize(("forge", "event", "payload"), SPOKEN)
def test_mention_of_the_agent_is_parsed(forge: str, event: str, payload: Any) -> None:
    said = parse_event(forge, event, payload, "@copydesk")
    assert isinstance(said, AgentMentioned)
    assert (said.repository, said.number, said.user, said.text) == ("acme/docs", 7, "rosa", "@copydesk shorten this")
    assert said == parse_event(forge, event, json.loads(json.dumps(payload)), "@copydesk")


BOT = {"login": "ci[bot]", "type": "Bot"}
IGNORED = [
    ("github", "push", github_payload("created")),
    ("github", "ping", {"zen": "Keep it logically awesome.", "hook_id": 1}),
    ("github", "pull_request", github_payload("opened", pull_request=github_pull())),
    ("github", "pull_request", github_payload("synchronize", pull_request=github_pull())),
    ("github", "issue_comment", github_payload("edited", issue=ISSUE, comment=github_comment())),
    ("github", "issue_comment", github_payload("deleted", issue=ISSUE, comment=github_comment())),
    ("github", "issue_comment", github_payload("created", issue={"number": 7}, comment=github_comment())),
    ("github", "issue_comment", github_payload("created", issue=ISSUE, comment=github_comment(user=BOT))),
    ("github", "issue_comment", github_payload("created", issue=ISSUE, comment=github_comment("Looks good"))),
    (
        "github",
        "issue_comment",
        github_payload("created", issue=ISSUE, comment=github_comment(mark_comment("@copydesk"))),
    ),
    ("github", "pull_request_review", github_payload("edited", pull_request=github_pull(), review=github_comment())),
    ("github", "pull_request_review", github_payload("submitted", pull_request=github_pull(), review={"body": None})),
    ("gitlab", "Note Hook", gitlab_note(action="update")),
    ("gitlab", "Note Hook", gitlab_note(action=None, created_at="2026-01-01", updated_at="2026-01-02")),
    ("gitlab", "Note Hook", gitlab_note(noteable_type="Issue")),
    ("gitlab", "Note Hook", gitlab_note(system=True)),
    ("gitlab", "Note Hook", {**gitlab_note(), "user": {"username": "project_12_bot_8ac3"}}),
    ("gitlab", "Merge Request Hook", gitlab_payload("merge_request", {"iid": 7, "action": "update"})),
    ("gitlab", "Push Hook", gitlab_payload("push", {})),
    ("gitea", "issue_comment", {**gitea_comment(), "action": "edited"}),
    ("gitea", "issue_comment", {**gitea_comment(), "is_pull": False}),
    ("gitea", "pull_request", gitea_payload("synchronized", pull_request={"number": 7})),
]


@pytest.mark.parametrize(("forge", "event", "payload"), IGNORED)
def test_everything_else_is_ignored(forge: str, event: str, payload: Any) -> None:
    assert parse_event(forge, event, payload, "@copydesk") is None


@pytest.mark.parametrize("forge", ["github", "gitlab", "gitea", "forgejo"])
@pytest.mark.parametrize(
    "event", ["pull_request", "issue_comment", "pull_request_review", "Note Hook", "Merge Request Hook"]
)
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"action": 1, "repository": [], "pull_request": "x", "comment": None, "object_attributes": 3, "project": []},
        {"action": "closed", "repository": {"full_name": 7}, "pull_request": {"number": "7"}},
        {"project": {"path_with_namespace": "a/b"}, "object_attributes": {"action": ["merge"], "iid": None}},
    ],
)
def test_malformed_payload_is_ignored(forge: str, event: str, payload: Any) -> None:
    assert parse_event(forge, event, payload, "@copydesk") is None


@pytest.mark.parametrize(
    "text",
    [
        "@copydesk shorten this",
        "Please, @copydesk, shorten this.",
        "(@Copydesk) again",
        "> quoted\n\n@copydesk yes",
        "```\ncode\n```\n@copydesk yes",
        "see `code` @copydesk\r\n",
        "Thanks @copydesk.",
    ],
)
def test_mention_must_be_a_separate_word(text: str) -> None:
    assert has_mention(text, "@copydesk")


@pytest.mark.parametrize(
    "text",
    [
        "copydesk shorten this",
        "@copydesk-bot shorten this",
        "@copydesk/docs shorten this",
        "@copydesks",
        "mail me@copydesk",
        "me@copydesk.org",
        "https://example.org/@copydesk",
        "> @copydesk shorten this",
        "   > @copydesk shorten this",
        "say `@copydesk` to it",
        "say ``a ` @copydesk`` to it",
        "```\n@copydesk\n```",
        "~~~\n@copydesk\n~~~\n",
        "````\n```\n@copydesk\n````",
        "```\n@copydesk never closed",
        "    @copydesk in an indented block",
        "<!-- @copydesk -->",
        "",
    ],
)
def test_quotes_code_and_other_names_are_not_mentions(text: str) -> None:
    assert not has_mention(text, "@copydesk")


def test_line_comment_has_its_place_and_quotes_the_lines_as_data() -> None:
    comment = github_comment(path="docs/setup.md", line=2, diff_hunk=HUNK)
    payload = github_payload("created", pull_request=github_pull(), comment=comment)
    said = parse_event("github", "pull_request_review_comment", payload, "@copydesk")
    assert isinstance(said, AgentMentioned)
    prompt = build_prompt(said, "@copydesk")
    assert prompt.startswith("shorten this\n\nThis is a review comment on docs/setup.md, line 2.")
    assert prompt.endswith("> @@ -1,3 +1,3 @@\n>  # Setup\n> -Run it.\n> +Run `make`.")


def test_gitlab_line_note_has_its_place() -> None:
    said = parse_event(
        "gitlab", "Note Hook", gitlab_note(position={"new_path": "docs/setup.md", "new_line": 2}), "@copydesk"
    )
    assert isinstance(said, AgentMentioned)
    assert (said.path, said.line) == ("docs/setup.md", 2)


def test_characters_that_no_database_can_store_are_replaced() -> None:
    payload = github_payload("created", issue=ISSUE, comment=github_comment("@copydesk\0 one \ud800 two"))
    said = parse_event("github", "issue_comment", payload, "@copydesk")
    assert isinstance(said, AgentMentioned)
    assert said.text == "@copydesk one ? two"


def test_two_reviews_with_the_same_text_are_two_messages() -> None:
    def review(at: str) -> Any:
        pull = {"number": 7, "updated_at": at}
        payload = gitea_payload("reviewed", pull_request=pull, review={"content": "@copydesk again"})
        return parse_event("gitea", "pull_request_comment", payload, "@copydesk")

    assert review("2026-01-01T00:00:00Z") == review("2026-01-01T00:00:00Z") != review("2026-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("@copydesk shorten this", "shorten this"),
        (" @Copydesk, shorten this. ", "shorten this."),
        ("@copydesk:\n- one\n- two", "- one\n- two"),
        ("Please, @copydesk, shorten this", "Please, @copydesk, shorten this"),
        ("@copydesk", ""),
        ("@copydesk!", ""),
    ],
)
def test_leading_mention_is_removed_from_the_message(text: str, prompt: str) -> None:
    assert build_prompt(AgentMentioned("acme/docs", 7, "comment-1", "rosa", text), "@copydesk") == prompt
