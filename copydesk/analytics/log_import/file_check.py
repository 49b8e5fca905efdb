"""Decides whether a log can be trusted: whether most of its lines match its format and say who the visitor is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from copydesk.analytics.log_import.formats import (
    AUTO_FORMAT,
    FORMATS,
    MALFORMED_REASONS,
    WEAK_FORMAT,
    CustomFormat,
    DetectedFormat,
    LogFormat,
    create_format,
    detect_format,
)
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.log_files import LogFile, TextBlock, is_stream, open_log_file
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest

TORN_LINE = Dropped(DropReason.TORN_LINE)
ZERO = "\0"


class UntrustedLog(InvalidRequest):
    message = "Most lines of the log cannot be trusted, so nothing was stored."


@dataclass
class FileFacts:
    """What a log contains: how many of its lines match its format, and how many views say who the visitor is."""

    name: str
    format: str = ""
    wrapper: str = ""
    line_counts: dict[str, int] = field(default_factory=dict)
    """The lines by format, if the log is a mixture."""
    lines: int = 0
    malformed: int = 0
    first_malformed: int = 0
    """The number of the first line that does not match; 0 means none."""
    views: int = 0
    without_address: int = 0
    without_agent: int = 0

    def add_dropped(self, dropped: Mapping[DropReason, int]) -> None:
        self.lines += sum(dropped.values())
        self.malformed += sum(dropped.get(reason, 0) for reason in MALFORMED_REASONS)

    def set_format(self, log_format: LogFormat) -> None:
        self.format = log_format.name
        if isinstance(log_format, DetectedFormat):
            self.wrapper = log_format.wrapper_name
            self.line_counts = {name: count for name, count in log_format.line_counts.items() if count}

    def find_fault(self) -> str | None:
        """Returns why the log cannot be trusted, or None."""
        if self.malformed * 2 > self.lines:
            return (
                f"{self.malformed:,} of {self.lines:,} lines do not match the format {self.format} "
                f"(the first is line {self.first_malformed}). Set the right --format, or describe the log with --fields"
            )
        if self.format == WEAK_FORMAT and self.line_counts.keys() - {WEAK_FORMAT}:
            return (
                f"some lines have a user agent and others have none (format {self.format}), so they may be cut off. "
                "Set the right --format"
            )
        if self.without_address * 2 > self.views:
            return (
                f"{self.without_address:,} of {self.views:,} views have no client address (format {self.format}), so "
                "visitors cannot be counted. Set the right --format, or name the address with --fields"
            )
        if self.without_agent * 2 > self.views:
            return (
                f"{self.without_agent:,} of {self.views:,} views have no user agent (format {self.format}), so people "
                "and AI cannot be told apart. Let the server log the user agent"
            )
        return None


def require_trusted(file_facts: Iterable[FileFacts]) -> None:
    """Raises UntrustedLog for the first log that is not credible."""
    for facts in file_facts:
        if fault := facts.find_fault():
            raise UntrustedLog(
                f"Nothing was stored, because {facts.name} cannot be trusted: {fault}; or import it anyway with "
                "--force."
            )


def check_formats(request: ImportRequest) -> None:
    """Raises an error if a file is not readable or its format is unknown. Reads only the start of each file.

    Skips streams that were not copied, because they can be read only once.
    """
    for name in request.file_names:
        if name in request.copies or not is_stream(name):
            with open_log_file(name, request.copies.get(name)) as log_file:
                choose_format(request, next(log_file.read_blocks(), None), log_file.name)


def choose_format(request: ImportRequest, block: TextBlock | None, file_name: str) -> LogFormat:
    """Returns a new instance of the format of a file, which starts with this block."""
    text = block.text if block else ""
    if request.field_map:
        return create_format(CustomFormat(request.field_map), text)
    if request.format != AUTO_FORMAT:
        return create_format(FORMATS[request.format](), text)
    return detect_format(text, file_name)


def parse_block(log_format: LogFormat, block: TextBlock, log_file: LogFile) -> Iterator[LogLine | Dropped | None]:
    """Parses the lines of a block. A last line without a newline counts only if it is certainly complete."""
    if block.ended or (not log_file.read_error and log_format.is_complete(block.text)):
        parsed_lines = log_format.parse_lines(block.text)
        return _reject_zeros(block.text, parsed_lines) if ZERO in block.text else parsed_lines
    return iter((TORN_LINE,))


def _reject_zeros(text: str, parsed_lines: Iterator[LogLine | Dropped | None]) -> Iterator[LogLine | Dropped | None]:
    """Drops lines that contain zeros, with which a power failure overwrites parts of a file."""
    for line, parsed in zip(text.split("\n"), parsed_lines, strict=True):
        yield MALFORMED if ZERO in line else parsed
