"""Detects the format of a log by what most of its lines fully match."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from copydesk.analytics.ip_addresses import parse_ip
from copydesk.analytics.log_import.formats.base import LogFormat
from copydesk.analytics.log_import.formats.registry import AGENT_FORMATS, FORMATS, WEAK_FORMAT
from copydesk.analytics.log_import.formats.wrappers import INCOMPLETE, WRAPPERS, WrappedFormat, Wrapper
from copydesk.analytics.log_import.log_line import LogLine, parse_log_time
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest

SAMPLE_LINES = 200
"""How many lines the detection reads from the start of the first block, and again from all over it."""
MALFORMED_REASONS = frozenset(
    {DropReason.MALFORMED_LINE, DropReason.BAD_FIELD, DropReason.NO_PATH, DropReason.BAD_TIMESTAMP}
)
"""Why a line does not fit its format."""


class UnknownLogFormat(InvalidRequest):
    message = "The log is not in a format that Copydesk supports."


class DetectedFormat:
    """The format of most lines. A line that does not match it is parsed in the format that it matches fully.

    A log may be a mixture, for example of two servers or of the time before and after a change of the configuration.
    """

    def __init__(self, name: str, wrapper_name: str = "") -> None:
        self.name = name
        self.wrapper_name = wrapper_name
        self.line_counts: Counter[str] = Counter()
        """How many lines were parsed in each format."""
        self._format = _create_format(name, wrapper_name)
        self._others = [create() for other, create in FORMATS.items() if other not in (name, WEAK_FORMAT)]
        self._inner_formats = [create() for other, create in FORMATS.items() if other != WEAK_FORMAT]
        self._wrappers = [create() for create in WRAPPERS.values()]

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for a line that is not a request."""
        parsed_lines = list(self._format.parse_lines(text))
        unmatched = [
            number
            for number, parsed in enumerate(parsed_lines)
            if not isinstance(parsed, LogLine) and (parsed is None or parsed.reason in MALFORMED_REASONS)
        ]
        self.line_counts[self.name] += len(parsed_lines) - len(unmatched)
        lines = text.split("\n") if unmatched else []
        for number in unmatched:
            if lines[number]:
                parsed_lines[number] = self._parse_in_other_format(lines[number]) or parsed_lines[number]
        return iter(parsed_lines)

    def is_complete(self, line: str) -> bool:
        return self._format.is_complete(line)

    def _parse_in_other_format(self, line: str) -> LogLine | None:
        if parsed := self._parse_fully(line, self._others):
            return parsed
        for wrapper in self._wrappers:
            inner_line = wrapper.unwrap(line)
            if inner_line is not None and inner_line != INCOMPLETE:
                parsed = self._parse_fully(inner_line.replace("\n", " "), self._inner_formats)
                return parsed._replace(text=line) if parsed else None
        return None

    def _parse_fully(self, line: str, formats: Sequence[LogFormat]) -> LogLine | None:
        for log_format in formats:
            [parsed] = log_format.parse_lines(line)  # a header changes the state of the formats that have headers
            if isinstance(parsed, LogLine) and _is_full_match(parsed):
                self.line_counts[log_format.name] += 1
                return parsed
        return None


def detect_format(text: str, file_name: str) -> DetectedFormat:
    """Returns the format that most of a sample of lines fully match; the earlier in `FORMATS` wins a tie.

    Creates a new instance each time, because formats have state. Raises UnknownLogFormat if none fits.
    """
    lines = _select_sample(text)
    if not lines:
        return DetectedFormat("combined")
    scores: dict[tuple[str, str], tuple[int, int]] = {}
    for wrapper_name, inner_lines in _unwrap_sample(lines):
        sample = "\n".join(inner_lines)
        for format_name, create in FORMATS.items():
            scores[wrapper_name, format_name] = _score_lines(create().parse_lines(sample))
    _disregard_weak_format(scores)
    wrapper_name, format_name = max(scores, key=lambda candidate: scores[candidate])
    if scores[wrapper_name, format_name] == (0, 0):
        format_names = ", ".join(FORMATS)
        first_line = ascii(lines[0][:200])
        raise UnknownLogFormat(
            f"{file_name} is not in a log format that Copydesk supports ({format_names}). Describe it with --fields. "
            f"It starts with: {first_line}"
        )
    return DetectedFormat(format_name, wrapper_name)


def _disregard_weak_format(scores: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Sets the weak format's score to 0 if any line has a user agent: the others are truncated, or another log's."""
    for wrapper_name, format_name in scores:
        if format_name == WEAK_FORMAT and any(scores[wrapper_name, strong][0] for strong in AGENT_FORMATS):
            scores[wrapper_name, format_name] = (0, 0)


def create_format(log_format: LogFormat, text: str) -> LogFormat:
    """Returns a format that the user chose, for lines that are wrapped if most lines of the text are."""
    wrapper_name = [name for name, _ in _unwrap_sample(_select_sample(text))][-1]
    return WrappedFormat(WRAPPERS[wrapper_name](), log_format) if wrapper_name else log_format


def _select_sample(text: str) -> list[str]:
    """Returns the first lines, and as many from the rest at equal distances."""
    lines = [line for line in text.split("\n") if line.strip()]
    step = max(1, (len(lines) - SAMPLE_LINES) // SAMPLE_LINES)
    return lines[:SAMPLE_LINES] + list(islice(lines[SAMPLE_LINES::step], SAMPLE_LINES))


def _unwrap_sample(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the lines as they are, and without the wrapper that most of them have, if any."""
    yield "", list(lines)
    for name, create in WRAPPERS.items():
        wrapper: Wrapper = create()
        inner_lines = [wrapper.unwrap(line) for line in lines]
        if sum(line is not None for line in inner_lines) * 2 > len(lines):
            yield name, [line.replace("\n", " ") for line in inner_lines if line is not None and line != INCOMPLETE]


def _score_lines(parsed_lines: Iterator[LogLine | Dropped | None]) -> tuple[int, int]:
    """Returns how many lines match fully, and how many match except for the client's address.

    Some servers log the client's host name, but usually it means that the line has another format.
    """
    full_matches = partial_matches = 0
    for parsed in parsed_lines:
        if isinstance(parsed, LogLine):
            if _is_full_match(parsed):
                full_matches += 1
            else:
                partial_matches += parse_log_time(parsed.time) is not None
        elif parsed is not None and parsed.reason not in MALFORMED_REASONS:
            full_matches += 1
    return full_matches, partial_matches


def _is_full_match(line: LogLine) -> bool:
    """Returns whether a line has a valid time and client address, which may be the hops of a forwarding header."""
    address = line.address or line.forwarded
    has_visitor_id = bool(line.extra and line.extra.visitor_id)
    return parse_log_time(line.time) is not None and (
        has_visitor_id or all(parse_ip(hop) for hop in address.split(","))
    )


def _create_format(name: str, wrapper_name: str) -> LogFormat:
    log_format = FORMATS[name]()
    return WrappedFormat(WRAPPERS[wrapper_name](), log_format) if wrapper_name else log_format
