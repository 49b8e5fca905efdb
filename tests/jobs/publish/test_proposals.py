"""Changes that try to hide something, in a running service: how they reach the forge."""

from collections.abc import Iterator

import pytest

from tests.jobs.drills import DrillProject, call_edit, call_finish, open_drill_project, serve_with_in_process_model
from tests.support.model_server import call, call_several
from tests.support.repositories import list_branches

SCRIPT = "<script src=https://evil.example/x.js></script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrillProject]:
    with (
        serve_with_in_process_model(tmp_path_factory.mktemp("desk"), job_requests=8) as running,
        open_drill_project("github", *running, tmp_path_factory.mktemp("forge")) as place,
    ):
        yield place


@pytest.mark.parametrize("way", ["write", "edit"])
def test_nul_character_does_not_hide_a_change(place: DrillProject, way: str) -> None:
    attack = {
        "write": call("write", {"path": "docs/new.md", "content": f"# New\n\n\x00\n\n{SCRIPT}\n"}),
        "edit": call_edit("colour", f"colour\x00\n\n{SCRIPT}\n\n"),
    }[way]
    job = place.run_job(attack, call_finish())
    assert (job["status"], job["reason"], job["prLink"]) == ("completed", "no_changes", None), job["message"]
    assert job["branch"] not in list_branches(place.folder)
    tools = [event["data"] for event in place.client.events(job["id"]) if event["kind"] == "tool"]
    assert not tools[0]["ok"]
    assert "control character U+0000" in tools[0]["result"]


@pytest.mark.deep
def test_change_to_an_executed_file_is_a_draft_that_names_it(place: DrillProject) -> None:
    files = [call("write", {"path": path, "content": "body { color: red }\n"}) for path in ("docs/a.css", "docs/b.js")]
    job = place.run_job(call_several(*files, call_edit("colour", "color")), call_finish("Done", "A summary."))
    assert job["status"] == "completed", job["message"]
    assert "executed file (2). The pull request is a draft." in (job["message"] or "")
    pull = place.fake.pulls[-1]
    assert pull.draft
    first = pull.body.partition("A summary.")[0]
    assert "**Review first**" in first
    assert "- **executed file:** `docs/a.css`: " in first
    assert "- **executed file:** `docs/b.js`: " in first
    assert "docs/index.md" not in first


def test_change_to_pages_only_is_not_a_draft(place: DrillProject) -> None:
    job = place.run_job(call_edit("colour", "color"), call_finish())
    assert job["status"] == "completed", job["message"]
    assert not place.fake.pulls[-1].draft
    assert "Review first" not in place.fake.pulls[-1].body
