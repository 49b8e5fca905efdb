"""Tables and help on narrow terminals: IDs and links stay whole, and no help text is cut."""

import os
import subprocess
import sys

import pytest

from copydesk.cli.command_table import COMMAND_GROUPS, COMMANDS
from copydesk.cli.output import print_facts

JOB = "job_01m7ejfz6cyqxtqf5z4w4e4hpe"
LINK = "https://git.example.org/docs/handbook/pulls/1234"
PRINT = f"""
from copydesk.cli.output import print_table
rows = [("{JOB}", "completed", None, "{LINK}", "Replace colour with color on every page of the handbook")] * 2
print_table(("job", "status", "reason", "pull request", "title"), rows, "")
"""


def run_in_terminal(columns: int, *arguments: str) -> str:
    size = {"COLUMNS": str(columns), "LINES": "25"}
    environment = {**os.environ, **size, "TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.deep
@pytest.mark.parametrize("columns", [20, 40, 80, 100, 130, 200])
def test_ids_and_links_are_never_broken(columns: int) -> None:
    shown = run_in_terminal(columns, "-c", PRINT)
    assert shown.count(JOB) == 2
    assert shown.count(LINK) == 2


@pytest.mark.deep
def test_wide_terminal_shows_a_table_and_a_narrow_one_lines() -> None:
    assert run_in_terminal(200, "-c", PRINT).splitlines()[0].split()[:2] == ["job", "status"]
    narrow = run_in_terminal(60, "-c", PRINT).splitlines()
    assert narrow[0] == f"job           {JOB}"
    assert narrow[2] == "reason        –"
    assert narrow[5] == ""


def test_help_lists_every_command_once_with_its_whole_sentence() -> None:
    shown = " ".join(run_in_terminal(80, "-m", "copydesk", "--help").split())
    for name, entry in COMMANDS.items():
        assert f"{name} {entry.help}" in shown
    assert "..." not in shown.partition("Options:")[2]
    for title in COMMAND_GROUPS:
        assert f"{title}:" in shown


@pytest.mark.deep
def test_help_of_a_group_is_not_cut() -> None:
    shown = run_in_terminal(80, "-m", "copydesk", "analytics", "--help")
    assert "..." not in shown.partition("Commands:")[2]


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"title": "Harmless\rPaid \x1b[2J\u202egnp"})
    assert capsys.readouterr().out == "title  Harmless\ufffdPaid \ufffd[2J\ufffdgnp\n"


def test_facts_are_words_and_further_lines_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"name": "Docs", "draft": False, "enabled": True, "labels": ["a", "b"], "none": [], "count": 0}
    print_facts({**facts, "summary": "First.\n\nSecond."})
    assert capsys.readouterr().out.splitlines() == [
        "name     Docs",
        "draft    no",
        "enabled  yes",
        "labels   a, b",
        "none     –",
        "count    0",
        "summary  First.",
        "",
        "         Second.",
    ]
