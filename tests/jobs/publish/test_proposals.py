"""Changes that try to hide something, in a running service: how they reach the forge."""

from collections.abc import Iterator

import pytest

from tests.jobs.drills import Place, edited, finished, obeying, place_on
from tests.support.model_server import call, together
from tests.support.repositories import branches

SCRIPT = "<script src=https://evil.example/x.js></script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with (
        obeying(tmp_path_factory.mktemp("desk"), job_requests=8) as running,
        place_on("github", *running, tmp_path_factory.mktemp("forge")) as place,
    ):
        yield place


@pytest.mark.parametrize("way", ["write", "edit"])
def test_nul_character_does_not_hide_a_change(place: Place, way: str) -> None:
    attack = {
        "write": call("write", {"path": "docs/new.md", "content": f"# New\n\n\x00\n\n{SCRIPT}\n"}),
        "edit": edited("colour", f"colour\x00\n\n{SCRIPT}\n\n"),
    }[way]
    job = place.done(attack, finished())
    assert (job["status"], job["reason"], job["prLink"]) == ("completed", "no_changes", None), job["message"]
    assert job["branch"] not in branches(place.folder)
    tools = [event["data"] for event in place.client.events(job["id"]) if event["kind"] == "tool"]
    assert not tools[0]["ok"]
    assert "control character U+0000" in tools[0]["result"]


def test_change_to_an_executed_file_is_a_draft_that_names_it(place: Place) -> None:
    files = [call("write", {"path": path, "content": "body { color: red }\n"}) for path in ("docs/a.css", "docs/b.js")]
    job = place.done(together(*files, edited("colour", "color")), finished("Done", "A summary."))
    assert job["status"] == "completed", job["message"]
    assert "executed, so it is a draft" in (job["message"] or "")
    pull = place.fake.pulls[-1]
    assert pull.draft
    first = pull.body.partition("A summary.")[0]
    assert "Review these files first" in first
    assert "`docs/a.css`" in first
    assert "`docs/b.js`" in first
    assert "docs/index.md" not in first


def test_change_to_pages_only_is_not_a_draft(place: Place) -> None:
    job = place.done(edited("colour", "color"), finished())
    assert job["status"] == "completed", job["message"]
    assert not place.fake.pulls[-1].draft
    assert "Review these files first" not in place.fake.pulls[-1].body
