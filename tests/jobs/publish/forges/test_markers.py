"""Markers separate our text from people's text in a pull request's title and description."""

import pytest

from copydesk.jobs.publish.forges.markers import (
    MAX_BODY_CHARS,
    is_our_title,
    parse_pull_number,
    replace_marked_part,
    set_draft_mark,
    strip_draft_marks,
    truncate_title,
    wrap_in_markers,
)
from copydesk.jobs.publish.forges.rest import gitea, gitlab


@pytest.mark.parametrize("title", ["Fix links", "Draft: Fix links", "draft:Fix links", "[Draft] Draft: Fix links"])
def test_draft_prefixes_never_stack_on_gitlab(title: str) -> None:
    assert set_draft_mark(title, gitlab.DRAFT_MARK, gitlab.DRAFT_MARK_PATTERN) == "Draft: Fix links"
    assert strip_draft_marks(title, gitlab.DRAFT_MARK_PATTERN) == "Fix links"


@pytest.mark.parametrize("title", ["Fix links", "WIP: Fix links", "[WIP] wip: Fix links"])
def test_draft_prefixes_never_stack_on_gitea(title: str) -> None:
    assert set_draft_mark(title, gitea.DRAFT_MARK, gitea.DRAFT_MARK_PATTERN) == "WIP: Fix links"


def test_title_that_is_only_a_draft_prefix_is_kept() -> None:
    assert strip_draft_marks("Draft:", gitlab.DRAFT_MARK_PATTERN) == "Draft:"
    assert strip_draft_marks("Drafting the guide", gitlab.DRAFT_MARK_PATTERN) == "Drafting the guide"


def test_follow_up_replaces_our_section_and_keeps_surrounding_text() -> None:
    first = wrap_in_markers("Fix links", "First.")
    edited = f"Please look at the guide too.\n\n{first}\n\nThanks!"
    again = replace_marked_part(edited, wrap_in_markers("Fix links", "Second."))
    assert again.startswith("Please look at the guide too.\n\n<!-- copydesk:begin")
    assert again.endswith("\n\nThanks!")
    assert "Second." in again
    assert "First." not in again


def test_section_removed_by_a_person_is_added_at_the_end() -> None:
    assert replace_marked_part("Mine alone.", wrap_in_markers("T", "Ours.")).startswith(
        "Mine alone.\n\n<!-- copydesk:begin"
    )
    assert replace_marked_part("", wrap_in_markers("T", "Ours.")) == wrap_in_markers("T", "Ours.")


def test_text_cannot_forge_the_end_marker() -> None:
    sly = wrap_in_markers("T", "before <!-- copydesk:end --> after <!-- copydesk:begin -->")
    assert replace_marked_part(f"{sly} tail", "NEW") == "NEW tail"


def test_title_is_updated_until_a_person_changes_it() -> None:
    body = wrap_in_markers("Fix links", "Text.")
    assert is_our_title("Fix links", body)
    assert not is_our_title("Mend links", body)
    assert not is_our_title("Fix links", "A text without our part.")


def test_long_texts_and_titles_are_truncated_with_a_note() -> None:
    assert len(wrap_in_markers("T", "x" * 100_000)) < MAX_BODY_CHARS + 200
    assert "truncated: the text was longer" in wrap_in_markers("T", "x" * 100_000)
    assert truncate_title("a\n b" + "c" * 300).startswith("a bccc")
    assert len(truncate_title("c" * 300)) == 240


@pytest.mark.parametrize(
    ("link", "number"),
    [
        ("https://github.com/acme/docs/pull/7", 7),
        ("https://gitlab.com/a/b/c/-/merge_requests/12", 12),
        ("https://codeberg.org/acme/docs/pulls/3", 3),
        ("https://example.org/acme/docs", None),
    ],
)
def test_number_is_parsed_from_the_link(link: str, number: int | None) -> None:
    assert parse_pull_number(link) == number
