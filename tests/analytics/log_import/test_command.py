"""copydesk analytics import: its output, its errors and its effects."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from copydesk import cli
from copydesk.analytics.log_import.formats import AUTO_FORMAT, FORMATS
from copydesk.cli.commands.analytics.import_logs import LogFormatName, import_logs
from copydesk.core.errors import UserFacingError
from tests.analytics.log_import.examples import COMBINED, LOGS
from tests.support import migrated_databases
from tests.support.repositories import make_repository

Run = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    migrated_databases.new_sqlite(tmp_path / "data")
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    made = CliRunner().invoke(cli.app, ["project", "create", "Docs", "--repo", str(repository), "--json"])
    return str(json.loads(made.stdout)["projectId"])


@pytest.fixture
def run(project: str) -> Run:
    app = typer.Typer()
    app.command()(import_logs)
    return lambda *given, **options: CliRunner().invoke(app, ["--project", project, *map(str, given)], **options)  # type: ignore[return-value]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "access.log"
    file.write_text(f"{COMBINED}\n{COMBINED}\n{COMBINED.replace('/guide/', '/a.css')}\n\ngarbage\n")
    return file


def test_the_summary_accounts_for_every_line(run: Run, log: Path) -> None:
    first = run(log)
    assert first.exit_code == 0
    assert first.stdout.splitlines()[0] == "4 lines: 2 views counted, 0 duplicates, 2 dropped."
    assert f"malformed_line\t1\t{log}:5\tThe line does not match" in first.stdout
    assert "4 lines: 0 views counted, 2 duplicates, 2 dropped." in run(log).stdout


@pytest.mark.deep
def test_json_output_matches_the_summary(run: Run, log: Path) -> None:
    facts = json.loads(run(log, log, "--json").stdout)
    assert (facts["files"], facts["lines"], facts["views"], facts["duplicates"]) == (2, 8, 2, 2)
    assert [(dropped["reason"], dropped["lines"], dropped["first"]) for dropped in facts["dropped"]] == [
        ("malformed_line", 2, f"{log}:5"),
        ("not_a_page", 2, f"{log}:3"),
    ]
    assert facts["incomplete"] == []


@pytest.mark.deep
def test_dry_run_stores_nothing(run: Run, log: Path) -> None:
    assert "2 views would be counted" in run(log, "--dry-run").stdout
    assert "2 views counted" in run(log).stdout


@pytest.mark.deep
def test_dash_reads_standard_input(run: Run, log: Path) -> None:
    told = run("-", input=log.read_bytes())
    assert "2 views counted" in told.stdout
    assert "standard input:5" in told.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["none.log"], "Cannot read none.log: no such file or directory."),
        (["."], "Cannot read .: is a directory."),
        ([__file__], "is not in a log format that Copydesk supports (combined, "),
    ],
)
def test_unreadable_input_is_refused_in_one_line(given: list[str], says: str, run: Run, log: Path) -> None:
    refused = run(log, *given)
    assert refused.exit_code == 1
    assert isinstance(refused.exception, UserFacingError)
    assert says in str(refused.exception)
    assert "\n" not in str(refused.exception)
    assert "2 views counted" in run(log).stdout


@pytest.mark.deep
def test_format_and_hosts_are_options(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOGS["vhost"] + "\n" + LOGS["vhost"].replace("docs.", "blog.") + "\n")
    facts = json.loads(run(log, "--format", "vhost", "--site-host", "Docs.Example.com", "--json").stdout)
    assert (facts["views"], facts["dropped"][0]["reason"]) == (1, "other_host")
    assert run(log, "--format", "iis").exit_code == 2
    assert set(get_args(LogFormatName)) == {AUTO_FORMAT, *FORMATS}


@pytest.mark.deep
def test_detected_format_is_printed(run: Run, log: Path, tmp_path: Path) -> None:
    assert "Format: combined." in run(log).stderr
    other = tmp_path / "b.log"
    other.write_text("".join(f"{LOGS[name]}\n" for name in ("caddy", "caddy", "caddy", "combined")))
    printed = run(log, other).stderr
    assert "Format: combined (1 file)." in printed
    assert "Format: caddy (1 file)." in printed
    assert f"{other} also has lines in other formats: 1 combined." in printed
    facts = json.loads(run(other, "--json").stdout)
    assert facts["formats"] == [{"format": "caddy", "wrapper": None, "files": 1}]


@pytest.mark.deep
def test_untrusted_log_is_refused_unless_forced(run: Run, log: Path, tmp_path: Path) -> None:
    common = tmp_path / "common.log"
    common.write_text(f"{LOGS['common']}\n")
    refused = run(log, common)
    assert refused.exit_code == 1
    assert "1 of 1 views have no user agent (format common)" in str(refused.exception)
    assert "2 views counted" in run(log).stdout
    assert "1 view counted" in run(common, "--force").stdout
    assert run("-", input=common.read_bytes()).exit_code == 1


@pytest.mark.deep
def test_replace_replaces_an_earlier_import_of_the_same_file(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{COMBINED}\n{COMBINED}\n{COMBINED.replace('/guide/', '/b')}\n")
    as_columns = "time=4,address=1,request=5,status=6"
    wrong = json.loads(run(log, "--fields", as_columns, "--force", "--json").stdout)
    assert (wrong["views"], wrong["replaced"]) == (3, 0)
    again = json.loads(run(log, "--json").stdout)
    assert (again["views"], again["duplicates"]) == (0, 3)
    replaced = json.loads(run(log, "--replace", "--json").stdout)
    assert (replaced["views"], replaced["duplicates"], replaced["replaced"]) == (3, 0, 3)
    assert "Replaced 3 views of an earlier import." in run(log, "--replace").stdout
    assert json.loads(run(log, "--json").stdout)["duplicates"] == 3


def test_fields_and_format_exclude_each_other(run: Run, log: Path) -> None:
    refused = run(log, "--fields", "time=1,url=2,status=3", "--format", "combined")
    assert refused.exit_code == 1
    assert "--format or --fields" in str(refused.exception)


@pytest.mark.deep
def test_interrupted_import_keeps_its_progress_and_resumes(run: Run, project: str, tmp_path: Path) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "a.log"
    os.mkfifo(pipe)
    lines = [COMBINED.replace("203.0.113.9", f"192.0.{n // 250}.{n % 250}") + "\n" for n in range(12_000)]
    log.write_text("".join(lines))
    code = "import typer; from copydesk.cli.commands.analytics.import_logs import import_logs; typer.run(import_logs)"
    command = [
        sys.executable,
        "-c",
        code,
        "--project",
        project,
        "--format",
        "combined",
        "--force",
        "--json",
        str(log),
        str(pipe),
    ]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("wb"):  # the pipe is opened after the file before it was imported, and is empty
        importing.send_signal(signal.SIGINT)
        said, told = importing.communicate(timeout=120)
    facts = json.loads(said)
    assert (facts["interrupted"], importing.returncode) == (True, 130)
    assert "Run the same command again to resume" in told
    assert facts["views"] == 12_000
    again = json.loads(run(log, "--json").stdout)
    assert (again["views"], again["duplicates"]) == (0, 12_000)
