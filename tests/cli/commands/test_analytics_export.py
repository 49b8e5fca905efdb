"""copydesk analytics export: continues after a kill, replaces what changed, and refuses what would mix."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.shared.spool import SPOOL_PREFIX
from copydesk.cli import app
from copydesk.core.clock import DAY
from copydesk.desk import Desk
from tests.support.processes import CommandSpec, RunningCommand
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.small_disk import small_disk

FIRST_DAY = 20_454
"""2026-01-01."""
DATASETS = ("raw", "visitors", "views", "agents", "referrers", "sections", "timeseries", "missing")
Export = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service, whose process owns the analytics store."""
    folder = tmp_path_factory.mktemp("export")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A project with views on three days."""
    site = running.another_project()
    settings = site.desk.settings
    monkeypatch.setenv("COPYDESK_DATA", str(settings.data))
    monkeypatch.setenv("COPYDESK_DATABASE_URL", settings.resolved_database_url)
    monkeypatch.setenv("COPYDESK_ANALYTICS_URL", settings.analytics_url or "")
    monkeypatch.setenv("COPYDESK_PROJECT", site.project.id)
    log_views(site.desk, site.project.id, 3)
    return site


def make_view(project: str, day: int = 0, visitor: int | None = 1, path: str = "/a") -> PageView:
    at = (FIRST_DAY + day) * DAY + 5
    return PageView(project, path, at, VisitorClass.HUMAN, "Browser", "", "test", "1", visitor, "", "", 200, None)


def log_views(desk: Desk, project: str, days: int, views_per_day: int = 2) -> None:
    desk.store.log_views([make_view(project, day, n + 1) for day in range(days) for n in range(views_per_day)])


def run_export(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ("analytics", "export", "--output", str(folder), *options))  # type: ignore[return-value]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Exports as JSON lines into a folder, and returns the command's result."""

    def run(*options: str) -> dict[str, Any]:
        result = run_export(tmp_path / "export", "--format", "jsonl", "--json", *options)
        assert result.exit_code == 0, (result.output, result.exception)
        return dict(json.loads(result.stdout))

    return run


def list_written(result: dict[str, Any]) -> list[str]:
    return sorted(entry["file"] for entry in result["written"])


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "manifest.jsonl").read_text().splitlines()
    return {entry["file"]: entry for entry in map(json.loads, lines[1:])}


@pytest.mark.deep
def test_export_writes_one_file_per_day_and_dataset_while_a_server_runs(
    site: Service, export: Export, tmp_path: Path
) -> None:
    result = export("--what", "all")
    folder = tmp_path / "export"
    names = sorted(f"{dataset}-2026-01-0{day}.jsonl" for dataset in DATASETS for day in (1, 2, 3))
    assert list_written(result) == names
    assert sorted(file.name for file in folder.iterdir()) == sorted((*names, "manifest.jsonl"))
    assert list(site.desk.settings.data.glob(f"{SPOOL_PREFIX}*")) == []
    for name, entry in read_manifest(folder).items():
        content = (folder / name).read_bytes()
        assert (entry["bytes"], entry["rows"]) == (len(content), content.count(b"\n"))
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    assert read_rows(folder / "visitors-2026-01-02.jsonl") == [
        {"date": "2026-01-02", "path": "/a", "human": 2, "ai": 0, "total": 2}
    ]
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.deep
def test_second_run_writes_only_what_is_new_or_changed(site: Service, export: Export, tmp_path: Path) -> None:
    export("--what", "raw,visitors")
    again = export("--what", "raw,visitors")
    assert (again["written"], again["unchanged"]) == ([], 6)
    site.desk.store.log_views([make_view(site.project.id, 1, 9), make_view(site.project.id, 7)])
    changed = export("--what", "raw,visitors")
    assert list_written(changed) == [
        *("raw-2026-01-02.jsonl", "raw-2026-01-08.jsonl", "visitors-2026-01-02.jsonl", "visitors-2026-01-08.jsonl"),
    ]
    site.desk.store.fold()
    site.desk.store.forget_visitor(site.project.id, 9)
    assert list_written(export("--what", "raw,visitors")) == ["raw-2026-01-02.jsonl", "visitors-2026-01-02.jsonl"]
    visitors = [row["visitor"] for row in read_rows(tmp_path / "export" / "raw-2026-01-02.jsonl")]
    assert sorted(visitors, key=str) == ["0000000000000001", "0000000000000002", None]


@pytest.mark.deep
def test_deleted_or_cut_file_is_written_again(site: Service, export: Export, tmp_path: Path) -> None:
    export()
    (tmp_path / "export" / "raw-2026-01-01.jsonl").unlink()
    with (tmp_path / "export" / "raw-2026-01-02.jsonl").open("r+b") as file:
        file.truncate(10)
    assert list_written(export()) == ["raw-2026-01-01.jsonl", "raw-2026-01-02.jsonl"]


@pytest.mark.deep
def test_raw_views_that_the_server_has_deleted_stay_in_the_export(
    site: Service, export: Export, tmp_path: Path
) -> None:
    export()
    site.desk.store.delete_raw_views(FIRST_DAY + 1, [site.project.id])
    site.desk.store.log_views([make_view(site.project.id, 0, 9)])
    kept = export()
    assert (kept["written"], kept["kept"]) == ([], ["raw-2026-01-01.jsonl"])
    assert len(read_rows(tmp_path / "export" / "raw-2026-01-01.jsonl")) == 2
    result = run_export(tmp_path / "another", "--format", "csv")
    assert result.exit_code == 0
    entries = read_manifest(tmp_path / "another")
    assert [(entry["rows"], entry["complete"]) for entry in entries.values()] == [(1, False), (2, True), (2, True)]


@pytest.mark.deep
def test_files_of_deleted_data_are_named(site: Service, export: Export, tmp_path: Path) -> None:
    export()
    site.desk.store.forget_project(site.project.id)
    assert export()["orphaned"] == [f"raw-2026-01-0{day}.jsonl" for day in (1, 2, 3)]
    assert "delete these files too" in run_export(tmp_path / "export", "--format", "jsonl").stderr


@pytest.mark.deep
def test_range_includes_both_days(site: Service, export: Export) -> None:
    assert list_written(export("--from", "2026-01-02", "--to", "2026-01-02")) == ["raw-2026-01-02.jsonl"]
    assert list_written(export("--from", "2026-01-09")) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--what", "raw,searches"), "--what must name some of raw, visitors"),
        (("--what", ","), "--what must name some of"),
        (("--format", "xlsx"), "--format must be parquet, csv, jsonl"),
        (("--from", "soon"), "--from must be a date"),
        (("--project", "Nowhere"), "There is no project 'Nowhere'"),
    ],
)
def test_wrong_option_is_explained_and_writes_nothing(
    site: Service, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    refused = run_export(tmp_path / "export", *options)
    assert refused.exit_code == 1
    assert message in str(refused.exception)
    assert not (tmp_path / "export").exists()


@pytest.mark.deep
def test_folder_with_other_files_or_of_another_project_is_refused(
    site: Service, export: Export, running: Service, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    (other / ".draft.unfinished").write_text("mine")
    assert "it has thesis.txt and no manifest.jsonl" in str(run_export(other).exception)
    assert sorted(file.name for file in other.iterdir()) == [".draft.unfinished", "thesis.txt"]
    assert "is not a folder" in str(run_export(other / "thesis.txt").exception)
    (other / "manifest.jsonl").write_text('{"other": 1}\n')
    assert "is not the manifest of an export" in str(run_export(other).exception)
    export()
    refused = run_export(tmp_path / "export", "--project", running.project.id)
    assert f"has the export of project {site.project.id}" in str(refused.exception)


@pytest.mark.deep
def test_torn_last_line_of_the_manifest_is_ignored(site: Service, export: Export, tmp_path: Path) -> None:
    export()
    manifest = tmp_path / "export" / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    assert list_written(export()) == ["raw-2026-01-03.jsonl"]


def test_two_exports_do_not_share_a_folder(site: Service, export: Export, tmp_path: Path) -> None:
    import fcntl

    export()
    descriptor = os.open(tmp_path / "export", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert "Another export is writing" in str(run_export(tmp_path / "export").exception)
    os.close(descriptor)


@pytest.mark.deep
def test_full_disk_keeps_finished_files_and_the_next_run_continues(
    site: Service, export: Export, tmp_path: Path
) -> None:
    log_views(site.desk, site.project.id, 3, 3_000)
    with small_disk(tmp_path / "export", 1 << 20) as disk:
        failed = run_export(tmp_path / "export", "--format", "jsonl")
        assert "is full. Finished files are kept." in str(failed.exception)
        finished = len(read_manifest(tmp_path / "export"))
        assert 0 < finished < 3
        for file in disk.folder.glob("raw-*"):
            file.write_bytes(b"")  # make room
        failed_again = run_export(tmp_path / "export", "--format", "jsonl")
        assert "is full" in str(failed_again.exception)
    assert len(export()["written"]) == 3


@pytest.mark.deep
def test_killed_export_continues_and_ends_with_the_same_rows(
    site: Service, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_views(site.desk, site.project.id, 60, 50)
    site.desk.store.fold()
    folder = tmp_path / "killed"
    command = ("analytics", "export", "--output", str(folder), "--what", "all", "--format", "jsonl")
    environment = {name: value for name, value in os.environ.items() if name.startswith("COPYDESK_")}
    orders = CommandSpec(command, environment, tmp_path / "log")
    finished, kills = 0, 5
    for _ in range(kills):
        process = RunningCommand(replace(orders))
        wait_for_files(folder, finished + 20, process)
        process.kill()
        finished = count_files(folder)
    assert finished < 480
    result = run_export(folder, "--what", "all", "--format", "jsonl", "--json")
    assert result.exit_code == 0, result.output
    # A kill between a file and its entry in the manifest makes the export write that file again.
    assert json.loads(result.stdout)["unchanged"] >= 20 * kills - kills
    export("--what", "all")
    uninterrupted = read_manifest(tmp_path / "export")
    killed = read_manifest(folder)
    assert len(uninterrupted) == 480
    assert {(e["file"], e["rows"]) for e in killed.values()} == {(e["file"], e["rows"]) for e in uninterrupted.values()}
    for name, entry in killed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"]
        assert sorted((folder / name).read_text().splitlines()) == sorted(
            (tmp_path / "export" / name).read_text().splitlines()
        )
    assert not list(folder.glob(".*"))


def count_files(folder: Path) -> int:
    return len(list(folder.glob("*-2026-*")))


def wait_for_files(folder: Path, count: int, process: RunningCommand) -> None:
    deadline = time.monotonic() + 60
    while count_files(folder) < count:
        assert process.is_alive
        assert time.monotonic() < deadline
        time.sleep(0.001)
