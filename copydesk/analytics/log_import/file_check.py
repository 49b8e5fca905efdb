"""Checks logs before anything is stored: whether most of their lines can be trusted."""

from collections.abc import Iterator
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
from copydesk.analytics.log_import.line_converter import EMPTY_FIELD, ImportRequest, LineConverter
from copydesk.analytics.log_import.log_files import LogFile, TextBlock, is_stream, open_log_file
from copydesk.analytics.log_import.log_line import LogLine, parse_log_time
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest

TORN_LINE = Dropped(DropReason.TORN_LINE)


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


def check_files(request: ImportRequest, *, force: bool = False) -> list[FileFacts]:
    """Reads all files to the end, before anything is stored. Raises UntrustedLog for the first that is not credible.

    Skips streams that were not copied, because they can be read only once. With `force`, reads only the start of each
    file, and raises an error only if it is not readable or its format is unknown.
    """
    facts = []
    for name in request.file_names:
        if name not in request.copies and is_stream(name):
            continue
        with open_log_file(name, request.copies.get(name)) as log_file:
            if force:
                log_format = choose_format(request, next(log_file.read_blocks(), None), log_file.name)
                facts.append(FileFacts(log_file.name, log_format.name, getattr(log_format, "wrapper_name", "")))
            else:
                facts.append(examine_file(request, log_file))
                if fault := facts[-1].find_fault():
                    raise UntrustedLog(
                        f"Nothing was stored, because {log_file.name} cannot be trusted: {fault}; or import it anyway "
                        "with --force."
                    )
    return facts


def examine_file(request: ImportRequest, log_file: LogFile) -> FileFacts:
    """Parses all lines of a file, without classifying or storing anything."""
    facts = FileFacts(log_file.name)
    converter = LineConverter(request)
    log_format: LogFormat | None = None
    number = 0
    for block in log_file.read_blocks():
        log_format = log_format or choose_format(request, block, log_file.name)
        for parsed in parse_block(log_format, block, log_file):
            number += 1
            if parsed is not None:
                _add_line(facts, converter, parsed, number)
    log_format = log_format or choose_format(request, None, log_file.name)
    facts.format = log_format.name
    if isinstance(log_format, DetectedFormat):
        facts.wrapper = log_format.wrapper_name
        facts.line_counts = {name: count for name, count in log_format.line_counts.items() if count}
    return facts


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
        return log_format.parse_lines(block.text)
    return iter((TORN_LINE,))


def _add_line(facts: FileFacts, converter: LineConverter, parsed: LogLine | Dropped, number: int) -> None:
    facts.lines += 1
    if isinstance(parsed, Dropped):
        is_malformed = parsed.reason in MALFORMED_REASONS
    else:
        location = converter.locate_page(parsed)
        if isinstance(location, Dropped):
            is_malformed = location.reason in MALFORMED_REASONS
        else:
            is_malformed = _add_view(facts, converter, parsed)
    if is_malformed:
        facts.malformed += 1
        facts.first_malformed = facts.first_malformed or number


def _add_view(facts: FileFacts, converter: LineConverter, line: LogLine) -> bool:
    """Counts a view. Returns whether it is malformed instead."""
    address = converter.find_client(line.address, line.forwarded)
    if isinstance(address, Dropped) or parse_log_time(line.time) is None:
        return True
    facts.views += 1
    if not (line.extra and line.extra.visitor_id):
        facts.without_address += address is None
        facts.without_agent += line.user_agent in ("", EMPTY_FIELD)
    return False
