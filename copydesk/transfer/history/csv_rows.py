"""Reads CSV files that others have written, row by row, within limits; collects the lines that cannot be read."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from copydesk.core.errors import UserFacingError
from copydesk.core.text.truncation import truncate

MAX_LINE_CHARS = 100_000
MAX_COLUMNS = 1_000
MAX_SHOWN_FAULTS = 10
MAX_FAULTS = 1_000
"""With more bad lines than this, the rest of the files is not read."""
MAX_QUOTED_CHARS = 60
DELIMITERS = (",", "\t", ";")
"""Databases also write tabs, and spreadsheets of some countries write semicolons."""
ESCAPE_PATTERN = re.compile(r"\\(.)", re.DOTALL)
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "v": "\v"}


class HistoryFileInvalid(UserFacingError):
    """The file cannot be imported; the message says why."""


class TooManyFaults(Exception):
    """There are so many bad lines that reading on is of no use."""


@dataclass
class FaultLog:
    """The lines that cannot be imported."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, name: str, line: int, message: str) -> None:
        self.count += 1
        if len(self.shown) < MAX_SHOWN_FAULTS:
            self.shown.append(f"{name}, line {line}: {message}")
        if self.count >= MAX_FAULTS:
            raise TooManyFaults


class CsvRow:
    """A row of a CSV file. Its cells are found by the names of their columns."""

    __slots__ = ("_cells", "_columns", "line")

    def __init__(self, columns: Mapping[str, int], cells: Sequence[str], line: int) -> None:
        self._columns = columns
        self._cells = cells
        self.line = line

    def get(self, column: str) -> str:
        return self._cells[self._columns[column]]


class CsvFile:
    """A CSV file with a header. Iterating it yields its rows; lines that are not rows go into the fault log."""

    def __init__(self, name: str, stream: IO[bytes], faults: FaultLog) -> None:
        self.name = name
        self._faults = faults
        lines = _read_lines(name, stream)
        first_line = next(lines, "")
        delimiter = max(DELIMITERS, key=first_line.count)
        # Databases that write tabs escape with backslashes, so a quotation mark is a character like any other.
        self._is_escaped = delimiter == "\t" and not first_line.startswith('"')
        self._reader = csv.reader(
            chain([first_line], lines),
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if self._is_escaped else csv.QUOTE_MINIMAL,
            strict=True,
        )
        try:
            header = next(self._reader, [])
        except csv.Error as error:
            raise HistoryFileInvalid(f"{name} is not a CSV file: {error}.") from None
        if len(header) > MAX_COLUMNS:
            raise HistoryFileInvalid(f"{name} has more than {MAX_COLUMNS:,} columns.")
        self.columns = {column.strip().lower(): number for number, column in enumerate(header)}
        self._width = len(header)

    def __iter__(self) -> Iterator[CsvRow]:
        while True:
            try:
                cells = next(self._reader, None)
            except csv.Error as error:
                raise HistoryFileInvalid(f"{self.name}, line {self._reader.line_num}: {error}.") from None
            if cells is None:
                return
            if not cells:
                continue  # an empty line
            if len(cells) != self._width:
                message = f"it has {len(cells)} cells, and the header has {self._width}"
                self._faults.add(self.name, self._reader.line_num, message)
                continue
            if self._is_escaped:
                cells = [_unescape(cell) for cell in cells]
            yield CsvRow(self.columns, cells, self._reader.line_num)


def _unescape(cell: str) -> str:
    """Returns a cell of PostgreSQL's text format or of the MySQL client without backslashes, except for \\N (NULL)."""
    if "\\" not in cell or cell == "\\N":
        return cell
    return ESCAPE_PATTERN.sub(lambda match: ESCAPED_CHARACTERS.get(match[1], match[1]), cell)


def clean_value(text: str) -> str:
    """Returns text of a file for a message: short, and without control characters."""
    printable = "".join(character if character.isprintable() else "�" for character in text[: MAX_QUOTED_CHARS + 1])
    return truncate(printable, MAX_QUOTED_CHARS)


def quote_value(text: str) -> str:
    return f"'{clean_value(text)}'"


def _read_lines(name: str, stream: IO[bytes]) -> Iterator[str]:
    """Yields the lines of a file in UTF-8, or in UTF-16 with a byte-order mark. Never holds more than one line.

    Replaces bytes that are not text: a tool that decodes the paths of requests exports such bytes too.
    """
    buffered = io.BufferedReader(stream)  # type: ignore[type-var]
    start = buffered.peek(2)[:2]
    encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    text = io.TextIOWrapper(buffered, encoding, errors="replace", newline="")
    number = 0
    while line := text.readline(MAX_LINE_CHARS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARS:
            raise HistoryFileInvalid(f"{name}, line {number}: it has more than {MAX_LINE_CHARS:,} characters.")
        yield line
