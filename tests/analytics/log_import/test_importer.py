"""Imports count every line once: repeated, grown, rotated, in several files, in another process."""

import gzip
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.log_import import line_ids as ordinals
from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.file_check import UntrustedLog, check_formats
from copydesk.analytics.log_import.formats import UnknownLogFormat
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_files import FileNotReadable
from copydesk.analytics.log_import.reader_process import ReaderDied, read_in_subprocess
from copydesk.analytics.page_view import DropReason
from copydesk.analytics.stores.base import Store
from copydesk.core.errors import UserFacingError
from tests.analytics.log_import.conftest import Imported, check_files
from tests.analytics.log_import.examples import CHROME, COMBINED, LOGS, REQUEST


def make_line(number: int) -> str:
    request = f'[14/Nov/2026:12:00:00 +0000] "GET /{number} HTTP/1.1" 200 1'
    return f'192.0.2.{number % 250} - - {request} "-" "{CHROME}"\n'


@pytest.mark.deep
def test_file_imported_twice_counts_once(run_import: Imported, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(map(make_line, range(300))) * 2)
    first, again = run_import(log), run_import(log)
    assert (first.views, first.duplicates) == (600, 0)
    assert (again.views, again.duplicates) == (0, 600)
    assert store.count_views_by_page("prj_1").totals.human == 600
    assert store.count_visitors_by_page("prj_1").totals.human == 250


@pytest.mark.deep
def test_only_new_lines_of_a_grown_file_count(run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = [*map(make_line, range(50)), *map(make_line, range(50))]
    for count, (before, after) in enumerate(pairwise((0, 20, 70, 100))):
        log.write_text("".join(lines[:after]))
        tally = run_import(log)
        assert (tally.views, tally.duplicates) == (after - before, before), count


def test_rotated_and_compressed_file_is_the_same_log(run_import: Imported, tmp_path: Path) -> None:
    plain, packed, both = tmp_path / "access.log", tmp_path / "access.log.1.gz", tmp_path / "both"
    plain.write_text("".join(map(make_line, range(40))))
    packed.write_bytes(gzip.compress(plain.read_bytes()[:700]) + gzip.compress(plain.read_bytes()[700:]))
    both.write_bytes(plain.read_bytes().replace(b"\n", b"\r\n"))
    assert run_import(plain).views == 40
    assert (run_import(packed).duplicates, run_import(both).duplicates) == (40, 40)


def test_identical_lines_of_two_files_are_the_same_requests(run_import: Imported, tmp_path: Path) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.write_text(make_line(1) * 3)
    two.write_text(make_line(1) * 5 + make_line(2))
    tally = run_import(one, two)
    assert (tally.views, tally.duplicates) == (6, 3)


@pytest.mark.deep
def test_truncated_last_line_is_counted_once_complete(run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    whole = make_line(1) + make_line(2)
    for cut in range(len(make_line(1)) + 1, len(whole) - 1, 7):
        log.write_text(whole[:cut])
        tally = run_import(log)
        assert (tally.dropped, tally.views + tally.duplicates) == ({DropReason.TORN_LINE: 1}, 1), whole[:cut]
        assert tally.samples[DropReason.TORN_LINE] == f"{log}:2"
    log.write_text(whole[:-1])
    assert run_import(log).views == 1
    log.write_text(whole)
    assert run_import(log).views == 0


@pytest.mark.parametrize("tail", [' "-" 0.01', " 12"])
def test_last_line_without_newline_is_counted_later(tail: str, run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    full = f"{COMBINED if tail.startswith(' ' + chr(34)) else REQUEST}{tail}\n"
    log.write_text(full + full.replace("12:00:00", "12:00:01")[:-1])
    assert run_import(log).dropped == {DropReason.TORN_LINE: 1}


@pytest.mark.deep
def test_truncated_gzip_file_is_imported_up_to_its_end(run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.log.gz"
    log.write_bytes(gzip.compress("".join(make_line(n) for n in range(3000)).encode())[:-2000])
    tally = run_import(log)
    assert tally.views > 100
    assert tally.dropped == {DropReason.TORN_LINE: 1}
    assert tally.read_errors == [f"{log}: the gzip data is incomplete"]


def test_dropped_lines_are_counted_by_reason_with_an_example(run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    bad = [
        make_line(1),
        "\n",
        "garbage\n",
        make_line(2).replace("GET", "POST"),
        make_line(3).replace(" 200 ", " 403 "),
        make_line(4).replace("/4", "/a.css"),
        make_line(5).replace("2026", "2036"),
        make_line(6).replace("2026", "1996"),
        make_line(7).replace("Nov", "Nix"),
        "more garbage\n",
    ]
    log.write_text("".join(bad))
    tally = run_import(log)
    assert (tally.lines, tally.views) == (9, 1)
    assert tally.samples == {
        DropReason.MALFORMED_LINE: f"{log}:3",
        DropReason.NOT_GET: f"{log}:4",
        DropReason.NOT_SUCCESSFUL: f"{log}:5",
        DropReason.NOT_A_PAGE: f"{log}:6",
        DropReason.TIMESTAMP_IN_FUTURE: f"{log}:7",
        DropReason.TIMESTAMP_TOO_OLD: f"{log}:8",
        DropReason.BAD_TIMESTAMP: f"{log}:9",
    }
    assert tally.dropped[DropReason.MALFORMED_LINE] == 2


def test_logs_of_all_formats_are_imported_together(run_import: Imported, tmp_path: Path) -> None:
    files = []
    for name, text in LOGS.items():
        files.append(tmp_path / name)
        files[-1].write_text(text + "\n")
    assert run_import(*files).views == len(files)


def test_many_small_files_share_a_batch(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.log" for number in range(20)]
    for number, file in enumerate(files):
        file.write_text(make_line(number))
    [batch] = read_batches(job(*files))
    assert (len(batch.views), batch.bytes_read) == (20, sum(file.stat().st_size for file in files))


def test_an_event_that_was_sent_is_not_counted_again_from_a_log(run_import: Imported, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    told = '{"path": "/a", "timestamp": "2026-11-14T12:00:00Z", "eventId": "e1"}\n'
    log.write_text(told + told.replace("}", ', "visitorId": 7}'))
    tally = run_import(log)
    assert (tally.views, tally.duplicates) == (1, 1)


@pytest.mark.deep
def test_parsing_in_a_subprocess_gives_the_same_result(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(make_line(number % 5000) for number in range(25_000)))
    here, there = list(read_batches(job(log))), list(read_in_subprocess(job(log)))
    assert [batch.take_views() for batch in there] == [batch.views for batch in here]
    assert [replace(batch, encoded_views=b"") for batch in there] == [replace(batch, views=[]) for batch in here]
    assert len(here) > 1
    assert sum(len(batch.views) for batch in here) == 25_000


@pytest.mark.deep
def test_parsing_in_a_subprocess_raises_the_same_error(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nothing of the kind\n")
    with pytest.raises(UserFacingError, match="is not in a log format that Copydesk supports"):
        list(read_in_subprocess(job(log)))


@pytest.mark.deep
def test_death_of_the_parser_process_is_noticed(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(make_line(number) for number in range(45_000)))
    reading = read_in_subprocess(job(log))
    next(reading)
    [reader] = multiprocessing.active_children()
    reader.kill()
    with pytest.raises(ReaderDied, match="ended unexpectedly"):
        list(reading)
    assert not multiprocessing.active_children()


def test_all_files_are_checked_before_anything_is_stored(job: Callable[..., ImportRequest], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(make_line(1))
    with pytest.raises(FileNotReadable, match="no such file"):
        check_files(job(good, bad))
    bad.write_text("# A page\n")
    with pytest.raises(UnknownLogFormat, match=r"supports \(combined, vhost"):
        check_files(job(good, bad))
    with pytest.raises(UntrustedLog, match="1 of 1 lines do not match the format combined"):
        check_files(job(good, bad, format="combined"))
    check_formats(job(good, bad, format="combined"))


@given(st.lists(st.integers(0, 30)))
def test_line_ids_are_unique_and_stable(numbers: list[int]) -> None:
    first, again = LineIds(), LineIds()
    ids = [first.next_id(str(number)) for number in numbers]
    assert len(set(ids)) == len(ids)
    assert [again.next_id(str(number)) for number in numbers] == ids


@pytest.mark.deep
def test_identical_lines_get_different_ids_in_bounded_memory() -> None:
    near = LineIds()
    ids = {near.next_id("the same")}
    for turn in range(3):
        for number in range(ordinals.LINES_PER_GENERATION - 1):
            near.next_id(f"{turn} {number}")
        ids.add(near.next_id("the same"))
    assert len(ids) == 4
    assert len(near._recent) + len(near._older) <= 2 * ordinals.LINES_PER_GENERATION
