"""One value in a table is changed, and nothing else; a row or column that is not clear is asked for."""

import pytest

from tests.jobs.agent.mechanic.test_mechanic import Make, edit_page, run_mechanic

TABLE = """| Option | Default | Meaning |
|---|---:|---|
| `timeout` | `30` | Seconds \\| or `a|b` |
| retries   | 3       | How often |
"""


@pytest.mark.parametrize(
    ("prompt", "old", "new"),
    [
        ("set the Default of `timeout` to 60 in the table", "| `30` |", "| `60` |"),
        ("set the Default of retries to 100 in the table", "| 3       |", "| 100     |"),
        ("set the meaning of timeout to `Minutes` in the table", "Seconds \\| or `a|b` |", "Minutes |"),
        ("set the Default of Retries to 123456789 in the table", "| 3       |", "| 123456789 |"),
    ],
)
def test_one_cell_is_changed(workspace: Make, prompt: str, old: str, new: str) -> None:
    assert edit_page(workspace, prompt, TABLE.encode()).decode() == TABLE.replace(old, new)


def test_table_of_two_columns_needs_no_column(workspace: Make) -> None:
    table = b"Name | Value\n--- | ---\na | 1\nb | 2\n"
    assert edit_page(workspace, "set b to 3 in the table", table) == table.replace(b"b | 2", b"b | 3")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("set timeout to 60 in the table", "Name one of them"),
        ("set the Size of timeout to 60 in the table", "has the columns Default, Meaning"),
        ("set the Default of speed to 60 in the table", "has the row “speed”"),
        ("set the Default of timeout to 30 in the table", "already has the value"),
    ],
)
def test_unclear_request_changes_nothing(workspace: Make, prompt: str, words: str) -> None:
    space = workspace({"docs/a.md": TABLE.encode()})
    assert words in run_mechanic(space, prompt).summary
    assert space.changes() == {}


def test_row_in_several_tables_is_not_guessed(workspace: Make) -> None:
    space = workspace({"docs/a.md": TABLE.encode(), "docs/b.md": TABLE.encode()})
    assert "docs/a.md:3, docs/b.md:3" in run_mechanic(space, "set the Default of timeout to 9 in the table").summary
    assert space.changes() == {}


def test_table_in_code_is_left(workspace: Make) -> None:
    space = workspace({"docs/a.md": f"```\n{TABLE}```\n".encode()})
    run_mechanic(space, "set the Default of timeout to 9 in the table")
    assert space.changes() == {}
