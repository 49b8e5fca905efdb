"""Documentation in a folder of a larger repository: all of it is readable, and only that folder is writable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.conversation import Conversation, ToolResults
from copydesk.jobs.agent.mechanic import Mechanic
from copydesk.jobs.job import COMPLETED
from tests.jobs.bench import start_bench
from tests.jobs.publish.forges.stage import create_project, fake_forge, read_file_on_branch
from tests.support.repositories import list_branches
from tests.support.scripted_model import calls, edit, finish

FILES = {
    "site/docs/index.md": b"# Hello\n\nThe colour of things.\n",
    "site/docs/guide.md": b"# Guide\n\nSee [home](index.md).\n",
    "site/README.md": b"# The site\n\nIts colour is [here](nowhere.md).\n",
    "src/palette.md": b"# Palette\n\nA colour.\n",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = open_desk(Settings(data=tmp_path / "data"))
    yield desk
    desk.close()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Any]:
    with fake_forge("gitea", tmp_path / "forge", FILES) as fake:
        yield fake


def result_texts(conversation: Conversation) -> list[str]:
    return [result.text for entry in conversation if isinstance(entry, ToolResults) for result in entry.results]


def changed_paths(fake: Any, branch: str) -> set[str]:
    return {path for path, data in FILES.items() if read_file_on_branch(fake, branch, path) != data}


@pytest.mark.deep
def test_model_reads_everywhere_but_changes_only_the_documentation(desk: Desk, fake: Any) -> None:
    script = (
        calls(("read", {"path": "src/palette.md"}), ("write", {"path": "src/new.md", "content": "# New\n"})),
        edit("src/palette.md", "colour", "color"),
        edit("site/docs/index.md", "colour", "color"),
        finish("Spell color so"),
    )
    with start_bench(fake, desk, create_project(desk, "gitea", fake, root="site/docs"), *script) as bench:
        job = bench.run_job()
        read, written, edited, *_ = result_texts(bench.model.requests[-1])
        assert job.status is COMPLETED, job.message
    assert "A colour." in read
    assert "site/docs" in written
    assert "site/docs" in edited
    assert changed_paths(fake, job.branch) == {"site/docs/index.md"}
    assert read_file_on_branch(fake, job.branch, "src/new.md") is None


@pytest.mark.deep
def test_checks_stay_within_the_documentation(desk: Desk, fake: Any) -> None:
    script = (edit("site/docs/index.md", "colour of things", "color of [things](guide.md)"), finish("Link the guide"))
    with start_bench(fake, desk, create_project(desk, "gitea", fake, root="site/docs"), *script) as bench:
        job = bench.run_job()
        assert job.status is COMPLETED, job.message
        assert [(entry["name"], entry["status"]) for entry in job.checks] == [("link", "passed")]
        assert sum(entry.get("old", 0) for entry in job.checks) == 0
        assert "nowhere.md" not in bench.pull.body


@pytest.mark.deep
def test_the_mechanic_stays_within_the_documentation(desk: Desk, fake: Any) -> None:
    with start_bench(fake, desk, create_project(desk, "gitea", fake, root="site/docs"), model=Mechanic()) as bench:
        job = bench.run_job("Replace colour with color.")
        assert job.status is COMPLETED, job.message
    assert changed_paths(fake, job.branch) == {"site/docs/index.md"}
    assert list_branches(fake.repository.folder).keys() == {"main", job.branch}
