"""A log whose lines cannot be trusted is refused before anything is stored; no damage gives wrong visitors."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.ip_addresses import parse_ip
from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.file_check import UntrustedLog, check_files
from copydesk.analytics.log_import.formats import detect_format
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.core.errors import UserFacingError
from tests.analytics.log_import.samples import (
    HEADERS,
    RENDERERS,
    REQUESTS,
    SAMPLES,
    WRAPPERS,
    render_combined,
    render_common,
)

COMMON, COMBINED = render_common(REQUESTS[0]), render_combined(REQUESTS[0])
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


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
    ],
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
    check_files(job(log), force=True)


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


LINES = [
    *((name, RENDERERS[name](request)) for name in RENDERERS for request in REQUESTS),
    *(("combined", wrap(render_combined(request))) for wrap in WRAPPERS.values() for request in REQUESTS),
    *(("", render_common(request)) for request in REQUESTS[:4]),
    *(("", noise) for noise in ("", "#", "started", "{}", '{"level": "info"}', "2026-11-14 INFO ready")),
]


def damage_lines(lines: list[str], seed: int) -> str:
    """Cuts some lines, joins a cut line with the next, and repeats some."""
    chooser = random.Random(seed)
    text = ""
    for line in lines:
        fate = chooser.random()
        if fate < 0.15 and line:
            cut_line = line[: chooser.randrange(len(line))]
            # After a comma, the next line's address would be one more hop, which no reader could notice.
            is_joined = chooser.random() < 0.3 and not cut_line.rstrip().endswith(",")
            text += cut_line if is_joined else f"{cut_line}\n"
        elif fate < 0.25:
            text += f"{line}\n" * chooser.randrange(2, 5)
        else:
            text += f"{line}\n"
    return text if chooser.random() < 0.8 else text.rstrip("\n")


@SHARED
@given(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=30),
    st.sampled_from(sorted(RENDERERS)),
    st.integers(0, 30),
    st.integers(0, 1 << 30),
)
def test_no_damaged_or_mixed_log_gives_wrong_visitors(
    job: Callable[..., ImportRequest],
    site: SiteConfig,
    tmp_path: Path,
    mixed: list[tuple[str, str]],
    main: str,
    weight: int,
    seed: int,
) -> None:
    people = {(request.address, request.agent) for request in REQUESTS}
    expected = {site.hasher.hash_visitor(0, None, parse_ip(address), agent) for address, agent in people}
    chooser = random.Random(seed)
    lines = [line for _, line in mixed] + [RENDERERS[main](chooser.choice(REQUESTS)) for _ in range(weight)]
    chooser.shuffle(lines)
    headers = "".join(HEADERS[name] for name in sorted({name for name, _ in mixed} | {main}) if name in HEADERS)
    log = tmp_path / "a.log"
    log.write_text(headers + damage_lines(lines, seed))
    request = job(log)
    try:
        check_files(request)
    except UserFacingError:
        return
    views = [view for batch in read_batches(request) for view in batch.views]
    assert {view.visitor for view in views} <= {*expected, None}
    assert all(view.path in ("/guide", "/install") for view in views if view.visitor)


def test_samples_are_trusted(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    for number, text in enumerate(SAMPLES.values()):
        log = tmp_path / f"{number}.log"
        log.write_text(text)
        check_files(job(log))
