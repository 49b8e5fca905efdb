"""Replacing text leaves what programs read: directives, their arguments and options, and dotted names."""

import pytest

from tests.jobs.agent.mechanic.test_mechanic import Make, run_mechanic

PROMPT = "replace Request with Call"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.rst", "A Request.\n\n.. autoclass:: Request\n   :members: Request\n", None),
        ("a.rst", "A Request.\n\n.. py:class:: Request(x)\n\n   A Request.\n", ("   A Request.", "   A Call.")),
        (
            "a.rst",
            "A Request.\n\n.. figure:: a.png\n   :alt: A Request\n   :name: Request\n\n   One Request.\n",
            "figure",
        ),
        ("a.rst", "A Request.\n\n.. note:: Each Request counts.\n", (":: Each Request", ":: Each Call")),
        ("a.rst", "A Request.\n\n.. versionadded:: 2.0 The Request.\n", ("The Request", "The Call")),
        ("a.rst", "A Request.\n\n:param Request: the Request\n", (": the Request", ": the Call")),
        ("a.rst", "A Request.\n\nSee `Request`_, |Request| and http.Request.\n", None),
        ("a.md", "A Request.\n\n::: pkg.Request\n", None),
        ("a.md", "A Request.\n\n::: Request\n    options:\n      members: [Request]\n", None),
        ("a.md", "A Request.\n\n::: tip Request\nx\n:::\n", ("::: tip Request", "::: tip Call")),
        ("a.md", 'A Request.\n\n!!! note "A Request"\n\n    x\n', ('"A Request"', '"A Call"')),
        (
            "a.md",
            "A Request.\n\nUse http.Request, Request.body and Request. Request!\n",
            ("Request. Request!", "Call. Call!"),
        ),
    ],
)
def test_directives_and_dotted_names_are_left(
    workspace: Make, path: str, before: str, after: tuple[str, str] | str | None
) -> None:
    space = workspace({path: before.encode()})
    run_mechanic(space, PROMPT)
    expected = before.replace("A Request.", "A Call.", 1)
    if after == "figure":
        expected = expected.replace(":alt: A Request", ":alt: A Call").replace("One Request.", "One Call.")
    elif isinstance(after, tuple):
        expected = expected.replace(*after)
    assert space.read(path).decode() == expected


def test_dotted_name_is_replaced_when_it_is_asked_for(workspace: Make) -> None:
    space = workspace({"a.md": b"Use http.Request here.\n"})
    run_mechanic(space, "replace http.Request with http.Call")
    assert space.read("a.md") == b"Use http.Call here.\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Set up\n======\n\nx\n", "Installation\n============\n\nx\n"),
        ("======\nSet up\n======\n\nx\n", "============\nInstallation\n============\n\nx\n"),
        ("Set up\n=================\n", "Installation\n=================\n"),
        ("The Set up\n----------\n", "The Installation\n----------------\n"),
        ("x\n\nSet up\r\n~~~~~~\r\n", None),
        ("A Set up\nof x.\n", "A Installation\nof x.\n"),
    ],
)
def test_underline_grows_with_its_title(workspace: Make, before: str, after: str | None) -> None:
    space = workspace({"a.rst": before.encode()})
    run_mechanic(space, "replace “Set up” with “Installation”")
    expected = after or before.replace("Set up", "Installation").replace("~~~~~~", "~" * 12)
    assert space.read("a.rst").decode() == expected


def test_underline_of_a_wide_title_is_as_wide(workspace: Make) -> None:
    space = workspace({"a.rst": b"Guide\n=====\n"})
    run_mechanic(space, "replace “Guide” with “指南说明书”")
    assert space.read("a.rst").decode() == "指南说明书\n==========\n"


def test_words_that_only_contain_the_phrase_are_named(workspace: Make) -> None:
    space = workspace({"a.md": b"One colour.\n\nColours, colours and colourful. `colours` in code. [x](colours.md)\n"})
    summary = run_mechanic(space, "replace colour with color").summary
    assert space.read("a.md").startswith(b"One color.\n\nColours, colours")
    assert "only the whole “colour” was asked for: Colours (1), colours (1), colourful (1)." in summary


def test_other_case_is_named_when_the_new_text_has_a_fixed_case(workspace: Make) -> None:
    space = workspace({"a.md": b"The api and the API.\n"})
    summary = run_mechanic(space, "replace api with REST API").summary
    assert space.read("a.md") == b"The REST API and the API.\n"
    assert "only the whole “api” was asked for: API (1)." in summary


def test_replacement_without_near_matches_says_nothing_of_them(workspace: Make) -> None:
    space = workspace({"a.md": b"One colour.\n"})
    assert "only the whole" not in run_mechanic(space, "replace colour with color").summary


def test_bare_word_that_is_a_folder_limits_the_work_to_it(workspace: Make) -> None:
    files = {"docs/a.md": b"colour\n", "docs/guides/b.md": b"colour\n", "packages/x/CHANGELOG.md": b"colour\n"}
    space = workspace(files)
    done = run_mechanic(space, "Replace colour with color in guides")
    assert space.changes() == {"docs/guides/b.md": b"color\n"}
    assert "with “color” in the folder docs/guides, leaving code alone." in done.summary
    done = run_mechanic(space, "Replace colour with color in docs")
    assert space.changes() == {"docs/a.md": b"color\n", "docs/guides/b.md": b"color\n"}
    assert "with “color” in the folder docs, leaving code alone." in done.summary
    run_mechanic(space, "Replace colour with color in the docs")
    assert space.changes()["packages/x/CHANGELOG.md"] == b"color\n"


def test_bare_word_that_is_several_folders_changes_nothing(workspace: Make) -> None:
    space = workspace({"a/guides/b.md": b"colour\n", "c/guides/d.md": b"colour\n"})
    done = run_mechanic(space, "Replace colour with color in guides")
    assert space.changes() == {}
    assert "“guides” could be any of a/guides, c/guides. Nothing was changed." in done.summary


def test_folder_that_an_earlier_instruction_empties_is_still_that_folder(workspace: Make) -> None:
    space = workspace({"docs/guides/a.md": b"colour\n", "docs/b.md": b"B\n"})
    done = run_mechanic(space, "Replace colour with color in guides, then move docs/guides/a.md to docs/c.md")
    assert space.changes() == {"docs/guides/a.md": None, "docs/c.md": b"color\n"}
    assert "Refused" not in done.summary
