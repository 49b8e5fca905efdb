"""Leaves text of readers out of pull requests, which may be public."""

from copydesk.core.text.plurals import pluralize
from copydesk.core.text.reader_data import READER_DATA_INTRODUCTION, quote_reader_data, split_reader_data

__all__ = ["hide_reader_data", "quote_reader_data"]


def hide_reader_data(prompt: str) -> str:
    """Returns a prompt without what readers wrote. Other lines that begin with a bar, such as tables, stay."""
    before, introduction, _ = prompt.partition(READER_DATA_INTRODUCTION + "\n")
    if not introduction:
        return prompt
    rest, lines = split_reader_data(prompt)
    after = rest[len(before.rstrip("\n")) :]
    return f"{before}(What readers wrote is on the job's page: {pluralize(len(lines), 'line')}.){after}"
