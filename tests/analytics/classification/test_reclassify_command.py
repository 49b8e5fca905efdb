"""copydesk analytics reclassify: its output and its effects."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from copydesk import cli
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.report_rows import Counts
from copydesk.cli.output import open_configured_desk
from copydesk.core.clock import now
from tests.support import migrated_databases
from tests.support.repositories import make_repository


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Creates a project with two views of an agent that an older table called a crawler."""
    migrated_databases.new_sqlite(tmp_path / "data")
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    created = CliRunner().invoke(cli.app, ["project", "create", "Docs", "--repo", str(repository), "--json"])
    project_id = str(json.loads(created.stdout)["projectId"])
    agent = (VisitorClass.TRAINING, "FirecrawlAgent", "Firecrawl", "token:FirecrawlAgent", "2026.11.15")
    with open_configured_desk() as desk:
        views = [PageView(project_id, path, now(), *agent, 7, "", "", 200, None) for path in ("/", "/a")]
        desk.store.log_views(views)
    return project_id


def count_views(project: str) -> Counts:
    with open_configured_desk() as desk:
        return desk.store.count_views_by_page(project).totals


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["analytics", "reclassify", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.deep
def test_stored_views_get_the_class_of_the_current_table(project: str) -> None:
    preview = json.loads(run("--project", project, "--dry-run", "--json"))
    assert preview["changes"] == [
        {
            "rule": "token:FirecrawlAgent",
            "agent": "FirecrawlAgent",
            "class": "training",
            "newAgent": "FirecrawlAgent",
            "newClass": "assistant",
            "views": 2,
        }
    ]
    assert count_views(project).ai == 0
    assert "Classified 2 views again, with table 20" in run("--project", project)
    assert count_views(project) == Counts(human=0, ai=2, total=2)
    assert run("--project", project) == ""
