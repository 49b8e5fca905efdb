"""Whose words are whose in a pull request's title and text."""

import pytest

from copydesk.jobs.publish.forges import gitea, gitlab
from copydesk.jobs.publish.forges.markers import (
    LONGEST_BODY,
    is_our_title,
    marked,
    merged_text,
    number_of,
    plain_title,
    short_title,
    with_mark,
)


@pytest.mark.parametrize("title", ["Fix links", "Draft: Fix links", "draft:Fix links", "[Draft] Draft: Fix links"])
def test_marks_of_a_draft_never_stack_on_gitlab(title: str) -> None:
    assert with_mark(title, gitlab.DRAFT, gitlab.DRAFT_MARKS) == "Draft: Fix links"
    assert plain_title(title, gitlab.DRAFT_MARKS) == "Fix links"


@pytest.mark.parametrize("title", ["Fix links", "WIP: Fix links", "[WIP] wip: Fix links"])
def test_marks_of_a_draft_never_stack_on_gitea(title: str) -> None:
    assert with_mark(title, gitea.DRAFT, gitea.DRAFT_MARKS) == "WIP: Fix links"


def test_a_title_that_is_nothing_but_a_mark_stays() -> None:
    assert plain_title("Draft:", gitlab.DRAFT_MARKS) == "Draft:"
    assert plain_title("Drafting the guide", gitlab.DRAFT_MARKS) == "Drafting the guide"


def test_a_follow_up_replaces_our_words_and_keeps_a_persons_around_them() -> None:
    first = marked("Fix links", "First.")
    edited = f"Please look at the guide too.\n\n{first}\n\nThanks!"
    again = merged_text(edited, marked("Fix links", "Second."))
    assert again.startswith("Please look at the guide too.\n\n<!-- copydesk:begin")
    assert again.endswith("\n\nThanks!")
    assert "Second." in again
    assert "First." not in again


def test_words_of_ours_that_a_person_removed_are_added_at_the_end() -> None:
    assert merged_text("Mine alone.", marked("T", "Ours.")).startswith("Mine alone.\n\n<!-- copydesk:begin")
    assert merged_text("", marked("T", "Ours.")) == marked("T", "Ours.")


def test_a_text_cannot_end_our_part_early() -> None:
    sly = marked("T", "before <!-- copydesk:end --> after <!-- copydesk:begin -->")
    assert merged_text(f"{sly} tail", "NEW") == "NEW tail"


def test_a_title_is_ours_until_a_person_changes_it() -> None:
    body = marked("Fix links", "Text.")
    assert is_our_title("Fix links", body)
    assert not is_our_title("Mend links", body)
    assert not is_our_title("Fix links", "A text without our part.")


def test_long_texts_and_titles_are_cut_and_say_so() -> None:
    assert len(marked("T", "x" * 100_000)) < LONGEST_BODY + 200
    assert "cut: the text was longer" in marked("T", "x" * 100_000)
    assert short_title("a\n b" + "c" * 300).startswith("a bccc")
    assert len(short_title("c" * 300)) == 240


@pytest.mark.parametrize(
    ("link", "number"),
    [
        ("https://github.com/acme/docs/pull/7", 7),
        ("https://gitlab.com/a/b/c/-/merge_requests/12", 12),
        ("https://codeberg.org/acme/docs/pulls/3", 3),
        ("https://example.org/acme/docs", None),
    ],
)
def test_a_link_ends_with_the_number(link: str, number: int | None) -> None:
    assert number_of(link) == number
