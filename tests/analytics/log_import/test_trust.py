"""A log whose lines cannot be trusted is refused before anything is stored; no damage gives wrong visitors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.log_import.file_check import UntrustedLog, check_formats
from copydesk.analytics.log_import.formats import detect_format
from copydesk.analytics.log_import.line_converter import ImportRequest
from tests.analytics.log_import.conftest import check_files
from tests.analytics.log_import.samples import (
    REQUESTS,
    SAMPLES,
    render_combined,
    render_common,
)

COMMON, COMBINED = render_common(REQUESTS[0]), render_combined(REQUESTS[0])


def repeat_requests(count: int) -> list[str]:
    return [render_combined(REQUESTS[number % 4]._replace(second=number)) for number in range(count)]


@pytest.mark.parametrize("odd", [COMMON, f"{COMMON} 0.004", "garbage", "#", "{}"])
@pytest.mark.parametrize("position", [0, 1, 25, 49])
def test_one_odd_line_does_not_change_the_format(odd: str, position: int) -> None:
    lines = repeat_requests(60)
    lines.insert(position, odd)
    detected = detect_format("\n".join(lines), "a.log")
    assert detected.name == "combined"
    parsed = list(detected.parse_lines("\n".join(lines)))
    assert sum(1 for line in parsed if getattr(line, "user_agent", "")) == 60


def test_format_is_that_of_most_lines_even_if_the_first_lines_differ() -> None:
    lines = [render_common(REQUESTS[0])] * 60 + repeat_requests(600)
    assert detect_format("\n".join(lines), "a.log").name == "combined"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (COMMON, "3 of 3 views have no user agent"),
        (COMBINED.replace("203.0.113.9", "client.example.com"), "3 of 3 views have no client address"),
        (COMBINED.replace("203.0.113.9", "0.0.0.0"), "3 of 3 views have no client address"),
        (COMBINED.replace("203.0.113.9", "::"), "3 of 3 views have no client address"),
        (COMBINED.replace("Chrome", "Chr\0\0e"), "3 of 3 lines do not match"),
    ],
    ids=["no agent", "host name", "address 0.0.0.0", "address ::", "NUL"],
)
def test_log_without_addresses_or_agents_is_refused(
    line: str, says: str, job: Callable[..., ImportRequest], tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{line}\n" * 3)
    with pytest.raises(UntrustedLog, match=says) as refused:
        check_files(job(log))
    assert "--force" in str(refused.value)
    assert "\n" not in str(refused.value)
    check_formats(job(log))


@pytest.mark.deep
def test_log_that_is_mostly_malformed_is_refused_even_after_a_good_start(
    job: Callable[..., ImportRequest], tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join([*repeat_requests(7000), *(["noise"] * 7001)]) + "\n")
    with pytest.raises(UntrustedLog, match=r"7,001 of 14,001 lines do not match the format combined .*line 7001"):
        check_files(job(log))
    log.write_text("\n".join([*repeat_requests(60), *(["noise"] * 40)]) + "\n")
    [facts] = check_files(job(log))
    assert (facts.lines, facts.malformed, facts.first_malformed) == (100, 40, 61)


def test_lines_with_and_without_agents_are_not_taken_for_common(
    job: Callable[..., ImportRequest], tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    gone = render_common(REQUESTS[4])
    log.write_text("\n".join([gone, gone, gone, render_common(REQUESTS[0]), *repeat_requests(2)]) + "\n")
    with pytest.raises(UntrustedLog):
        check_files(job(log))


def test_cut_forwarding_header_is_malformed(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    line = render_combined(REQUESTS[0]).replace("203.0.113.9", "10.0.0.7", 1)
    log.write_text(f'{line} "203.0.113.9, 10.0.0.8"\n{line} "203.0.113.9"\n{line} "203.0.11\n')
    [facts] = check_files(job(log, proxies=("10.0.0.0/8",)))
    assert (facts.views, facts.malformed) == (2, 1)


def test_samples_are_trusted(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    for number, text in enumerate(SAMPLES.values()):
        log = tmp_path / f"{number}.log"
        log.write_text(text)
        check_files(job(log))
