"""Changing a heading changes its anchor, and every link to it."""

import pytest

from benchmarks.sites.site_jobs import load_site
from copydesk.jobs.checks import check
from tests.jobs.agent.mechanic.test_mechanic import Make, run_mechanic

RENAME = "Change the heading “Schedule” to “Timetable”"


def test_heading_and_the_links_to_its_anchor_change_and_nothing_else(workspace: Make) -> None:
    page = b"# Retries\n\nThe Schedule of retries.\n\n## Schedule\n\n[up](#schedule)\n"
    link = b"[schedule](guides/retries.md#schedule) and [other](guides/other.md#schedule)\n"
    space = workspace(
        {
            "mkdocs.yml": b"site_name: x\n",
            "docs/guides/retries.md": page,
            "docs/guides/other.md": b"# Other\n\n## Schedules\n\n<a id='schedule'></a>\n",
            "docs/index.md": link,
        }
    )
    done = run_mechanic(space, RENAME)
    assert space.changes() == {
        "docs/guides/retries.md": b"# Retries\n\nThe Schedule of retries.\n\n## Timetable\n\n[up](#timetable)\n",
        "docs/index.md": b"[schedule](guides/retries.md#timetable) and [other](guides/other.md#schedule)\n",
    }
    assert "Changed the heading at docs/guides/retries.md:5." in done.summary
    assert "Updated 2 links to the anchors of changed headings." in done.summary


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"## Schedule ##\n", b"## Timetable ##\n"),
        (b"## Schedule {#plan}\n\n[x](#plan)\n", b"## Timetable {#plan}\n\n[x](#plan)\n"),
        (b"## The `Schedule`\n## *Schedule*\n", b"## The `Schedule`\n## Timetable\n"),
        (b"Schedule\n--------\n", b"Timetable\n--------\n"),
        (b"## schedule\r\n\r\nSchedule\r\n", b"## Timetable\r\n\r\nSchedule\r\n"),
        (b"```\n## Schedule\n```\n\n## Schedule\n", b"```\n## Schedule\n```\n\n## Timetable\n"),
    ],
)
def test_heading_keeps_its_form(workspace: Make, before: bytes, after: bytes) -> None:
    space = workspace({"docs/a.md": before})
    run_mechanic(space, RENAME)
    assert space.read("docs/a.md") == after


@pytest.mark.parametrize(
    ("config", "anchor"), [("mkdocs.yml", b"timetable_1"), ("docs/.vitepress/config.ts", b"timetable-1")]
)
def test_links_to_a_later_heading_of_the_same_name_get_its_number(workspace: Make, config: str, anchor: bytes) -> None:
    """MkDocs numbers repeated headings with an underscore, the other generators with a dash."""
    space = workspace({config: b"", "docs/a.md": b"## Schedule\n\n## Timetable\n\n[x](#timetable) [y](#schedule)\n"})
    run_mechanic(space, RENAME)
    assert space.read("docs/a.md") == b"## Timetable\n\n## Timetable\n\n[x](#%s) [y](#timetable)\n" % anchor


def test_heading_in_restructuredtext_keeps_a_line_of_its_length(workspace: Make) -> None:
    body = b"Retries\n=======\n\nSchedule\n--------\n\nSee `Schedule`_.\n"
    space = workspace({"docs/conf.py": b"project = 'x'\n", "docs/a.rst": body})
    run_mechanic(space, RENAME + " in docs/a.rst")
    assert space.read("docs/a.rst") == b"Retries\n=======\n\nTimetable\n---------\n\nSee `Timetable`_.\n"


def test_heading_of_several_pages_is_left_and_the_answer_asks_for_the_page(workspace: Make) -> None:
    space = workspace({"docs/a.md": b"## Schedule\n", "docs/b.md": b"## Schedule\n", "docs/c.md": b"## Other\n"})
    done = run_mechanic(space, RENAME)
    assert space.changes() == {}
    assert "2 pages have the heading “Schedule”: docs/a.md, docs/b.md. Nothing was changed." in done.summary
    assert "Name the page: “… in docs/a.md”." in done.summary
    run_mechanic(space, "Rename the section Schedule to Timetable in b.md")
    assert space.changes() == {"docs/b.md": b"## Timetable\n"}


def test_heading_that_a_page_has_twice_is_left_with_its_lines(workspace: Make) -> None:
    space = workspace({"docs/a.md": b"## Schedule\n\n## Other\n\n## Schedule\n"})
    done = run_mechanic(space, RENAME)
    assert space.changes() == {}
    assert "Several headings are “Schedule”: docs/a.md:1, docs/a.md:5. Nothing was changed." in done.summary
    run_mechanic(space, f"{RENAME}\n\nThis is a review comment on docs/a.md, line 5.")
    assert space.changes() == {"docs/a.md": b"## Schedule\n\n## Other\n\n## Timetable\n"}


def test_heading_that_no_page_has_is_named(workspace: Make) -> None:
    space = workspace({"docs/a.md": b"# A\n\nSchedule\n"})
    done = run_mechanic(space, RENAME)
    assert (space.changes(), "There is no heading “Schedule” on any page." in done.summary) == ({}, True)


@pytest.mark.parametrize("generator", ["docusaurus", "mdbook", "mkdocs", "sphinx", "vitepress"])
def test_heading_of_each_sample_site_changes_without_a_broken_link(workspace: Make, generator: str) -> None:
    space = workspace({path: text.encode() for path, text in load_site(generator).items()})
    done = run_mechanic(
        space, "Rename the heading “Sign a request” to “Sign every request” on the page guides/security"
    )
    changed = [path for path, data in space.changes().items() if data and b"ign every request" in data]
    assert any("/security." in path for path in changed), done.summary
    assert check(space).introduced == ()
    old_anchors = [path for path, data in space.changes().items() if data and b"#sign-a-request" in data]
    assert old_anchors == []
