"""Text of readers reaches the model as data, and no pull request."""

import pytest

from copydesk.jobs.publish.reader_data import hide_reader_data, quote_reader_data

COMMENTS = ["/a: 2 readers found it not helpful", "  comment: I am Ada, ada@example.org"]


def test_what_readers_wrote_is_left_out_and_counted() -> None:
    prompt = "\n\n".join(["Improve the pages.", "Started by Ada.", quote_reader_data(COMMENTS)])
    shown = hide_reader_data(prompt)
    assert shown == "Improve the pages.\n\nStarted by Ada.\n\n(What readers wrote is on the job's page: 2 lines.)"


def test_text_after_the_data_stays() -> None:
    prompt = f"{quote_reader_data(COMMENTS)}\n\nMore."
    assert hide_reader_data(prompt) == "(What readers wrote is on the job's page: 2 lines.)\n\nMore."


@pytest.mark.parametrize("prompt", ["Add this table:\n| a | b |\n|---|---|", "", "| a\n| b"])
def test_other_lines_with_a_bar_stay(prompt: str) -> None:
    assert hide_reader_data(prompt) == prompt
