"""Exports of Plausible and Umami become daily totals; what cannot be read is named, and bounded in its cost."""

import contextlib
import io
import random
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.history import HistoryCounts, HistorySource, ImportedHistory
from copydesk.transfer.history import history_files, limits
from copydesk.transfer.history.csv_rows import HistoryFileInvalid
from copydesk.transfer.history.history_files import HistoryReader
from copydesk.transfer.history.limits import ImportLimits
from tests.support.cpu_growth import Pump, assert_linear

VISITORS = """\
"date","visitors","pageviews","bounces","visits","visit_duration"
"2024-01-01",5,50,2,7,8640
"2024-01-02",3,4,2,3,43
"""
PAGES = """\
"date","hostname","page","visits","visitors","pageviews"
"2024-01-01","docs.example.com","/guide",4,3,9
"2024-01-01","www.example.com","/guide",1,1,2
"2024-01-02","docs.example.com","/a, ""b"" c",1,1,1
"""
METRICS = '"visitors","visits","visit_duration","bounces","pageviews"'
OTHER_FILES = {
    f"imported_{name}_20240101_20240102.csv": f'"date",{columns},{METRICS}\n"2024-01-01",{values},4,5,60,1,40\n'
    for name, columns, values in (
        ("browsers", '"browser","browser_version"', '"Firefox","121.0"'),
        ("devices", '"device"', '"Desktop"'),
        ("operating_systems", '"operating_system","operating_system_version"', '"Mac","14"'),
        ("locations", '"country","region","city"', '"DE","DE-BW",2929831'),
        ("sources", '"source","referrer","utm_source"', '"Google","google.com",""'),
        ("entry_pages", '"entry_page"', '"/guide"'),
        ("exit_pages", '"exit_page"', '"/guide"'),
    )
} | {"imported_custom_events_20240101_20240102.csv": '"date","name","link_url","path","visitors","events"\n'}
"""The other files of Plausible's export. Most of them have all columns of the totals by day."""
SOURCES = OTHER_FILES["imported_sources_20240101_20240102.csv"]
EVENTS = """\
website_id,session_id,visit_id,event_id,hostname,url_path,url_query,event_type,event_name,created_at
w,s1,v1,e1,docs.example.com,/,,1,,2024-01-01 10:00:00
w,s1,v1,e2,docs.example.com,/guide,,1,,2024-01-01 10:01:00
w,s1,v1,e3,docs.example.com,/guide,,1,,2024-01-01T10:02:00.123Z
w,s1,v1,e4,docs.example.com,/guide,,2,signup,2024-01-01 10:03:00
w,s2,v2,e5,docs.example.com,/guide,,1,,2024-01-01 23:59:59
w,s2,v3,e6,docs.example.com,/guide,,1,,2024-01-02 00:00:00
"""
DAY = 19_723
"""2024-01-01."""
PLAUSIBLE = ImportedHistory(
    HistorySource.PLAUSIBLE,
    {DAY: HistoryCounts(5, 50), DAY + 1: HistoryCounts(3, 4)},
    {(DAY, "/guide"): HistoryCounts(4, 11), (DAY + 1, '/a, "b" c'): HistoryCounts(1, 1)},
)
UMAMI = ImportedHistory(
    HistorySource.UMAMI,
    {DAY: HistoryCounts(2, 4), DAY + 1: HistoryCounts(1, 1)},
    {
        (DAY, "/"): HistoryCounts(1, 1),
        (DAY, "/guide"): HistoryCounts(2, 3),
        (DAY + 1, "/guide"): HistoryCounts(1, 1),
    },
)


def make_zip(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write(folder: Path, content: str | bytes, name: str = "file.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(*paths: Path, **max_counts: int) -> ImportedHistory:
    return HistoryReader(ImportLimits(**max_counts)).read_files(paths)


def read_refusal(*paths: Path, **max_counts: int) -> str:
    with pytest.raises(HistoryFileInvalid) as refused:
        read(*paths, **max_counts)
    return str(refused.value)


def test_plausible_archive_is_read(tmp_path: Path) -> None:
    files = {
        "imported_visitors_20240101_20240102.csv": VISITORS,
        "export/imported_pages_20240101_20240102.csv": PAGES,
        **OTHER_FILES,
        "readme.txt": "not a table",
    }
    reader = HistoryReader()
    assert reader.read_files([make_zip(tmp_path, files)]) == PLAUSIBLE
    assert reader.skipped == list(OTHER_FILES)


def test_totals_by_browser_or_place_are_not_taken_for_totals_of_the_site_under_another_name(tmp_path: Path) -> None:
    visitors = write(tmp_path, VISITORS, "totals.csv")
    others = [write(tmp_path, content, f"{number}.csv") for number, content in enumerate(OTHER_FILES.values())]
    assert read(visitors, *others).days == PLAUSIBLE.days
    assert read(visitors, *others).pages == {}


def test_plausible_files_are_read_without_an_archive(tmp_path: Path) -> None:
    assert read(write(tmp_path, VISITORS, "a.csv"), write(tmp_path, PAGES, "b.csv")) == PLAUSIBLE
    assert read(write(tmp_path, VISITORS)).pages == {}
    assert read(write(tmp_path, PAGES)).days == {}


def test_umami_events_are_counted_by_day_and_page(tmp_path: Path) -> None:
    assert read(write(tmp_path, EVENTS, "website_event.csv")) == UMAMI
    archive = {"website_event.csv": EVENTS, "event_data.csv": "", "session_data.csv": "a,b\n"}
    assert read(make_zip(tmp_path, archive)) == UMAMI


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), max_size=60))
def test_umami_visitors_are_distinct_sessions(views: list[tuple[int, int, int]]) -> None:
    lines = [f"s{session},/{page},1,2024-01-0{day + 1} 00:00:00" for day, page, session in views]
    sessions: defaultdict[int, set[int]] = defaultdict(set)
    for day, _, session in views:
        sessions[DAY + day].add(session)
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder), "\n".join(["session_id,url_path,event_type,created_at", *lines]))
        if not views:
            assert "no days to import" in read_refusal(file)
            return
        history = read(file)
    assert {day: counts.visitors for day, counts in history.days.items()} == {d: len(s) for d, s in sessions.items()}
    assert sum(counts.pageviews for counts in history.pages.values()) == len(views)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + VISITORS.encode(),
        VISITORS.encode("utf-16"),
        b"\xfe\xff" + VISITORS.encode("utf-16-be"),
        VISITORS.replace("\n", "\r\n").encode(),
        (VISITORS + "\n\n").encode(),
        VISITORS.replace('"', "").encode(),
        VISITORS.replace('"date"', '" Date "').encode(),
    ],
)
def test_encodings_and_line_endings_are_understood(tmp_path: Path, content: bytes) -> None:
    assert read(write(tmp_path, content)).days == PLAUSIBLE.days


def test_bad_lines_are_named_and_nothing_is_imported(tmp_path: Path) -> None:
    bad = VISITORS + '"2024-13-01",1,1,1,1,1\n"2024-01-03",-1,1,1,1,1\n1,2\n'
    bad += '"2024-01-04",1e3,1,1,1,1\n2999-01-01,1,1,1,1,1\n'
    message = read_refusal(write(tmp_path, bad, "visitors.csv"))
    assert message.splitlines() == [
        "5 lines cannot be imported, so nothing was imported:",
        "  visitors.csv, line 4: '2024-13-01' is not a date",
        "  visitors.csv, line 5: visitors is '-1', which is not a whole number",
        "  visitors.csv, line 6: it has 2 cells, and the header has 6",
        "  visitors.csv, line 7: visitors is '1e3', which is not a whole number",
        "  visitors.csv, line 8: the date '2999-01-01' is before 1990 or in the future",
    ]
    pages = PAGES + f'"2024-01-01","h","/{"x" * 3000}",1,1,1\n'
    assert "line 5: the path '/xxx" in read_refusal(write(tmp_path, pages))
    events = EVENTS + "w,s,v,e,h,/a,,1,,\x1b[31myesterday\n"
    assert "line 8: '�[31myesterday' is not a date" in read_refusal(write(tmp_path, events))
    many = VISITORS + "1,2\n" * 100_000
    assert read_refusal(write(tmp_path, many)).startswith("1,000 lines cannot be imported")
    assert "and 990 more" in read_refusal(write(tmp_path, many))


def test_files_that_are_no_export_are_refused(tmp_path: Path) -> None:
    for content in ("", "a,b\n1,2\n", SOURCES, "\0" * 1000, "x" * 50_000):
        assert "No file is an export" in read_refusal(write(tmp_path, content))
    assert "line 4: it has 1 cells" in read_refusal(write(tmp_path, VISITORS.encode() + b"\xff\xfe\n"))
    assert "more than 100,000 characters" in read_refusal(write(tmp_path, VISITORS + "x" * 200_000))
    assert "line" in read_refusal(write(tmp_path, VISITORS + '"open\n' * 60_000))
    assert "cannot be read" in read_refusal(tmp_path / "nowhere.csv")
    assert "of several tools" in read_refusal(write(tmp_path, VISITORS, "a.csv"), write(tmp_path, EVENTS, "b.csv"))


def test_damaged_and_encrypted_archives_are_refused(tmp_path: Path) -> None:
    content = make_zip(tmp_path, {"imported_visitors.csv": VISITORS * 50}).read_bytes()
    damaged = bytearray(content)
    damaged[60:70] = b"\0" * 10
    assert "export.zip" in read_refusal(write(tmp_path, bytes(damaged), "export.zip"))
    encrypted = bytearray(content)
    encrypted[6] |= 1
    encrypted[content.index(b"PK\x01\x02") + 8] |= 1
    assert "is not a readable zip archive" in read_refusal(write(tmp_path, bytes(encrypted), "export.zip"))


def test_zip_bombs_and_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = make_zip(tmp_path, {f"{number}.csv": "" for number in range(limits.MAX_ARCHIVE_ENTRIES + 1)})
    assert "contains more than 1,000 files" in read_refusal(many)
    monkeypatch.setattr(history_files, "MAX_UNPACKED_BYTES", 1_000_000)
    assert "when unpacked" in read_refusal(make_zip(tmp_path, {"a.csv": VISITORS + "\n" * 2_000_000}))
    assert "when unpacked" in read_refusal(write(tmp_path, VISITORS + "\n" * 2_000_000))
    liar = bytearray(make_zip(tmp_path, {"a.csv": VISITORS + "\n" * 900_000}).read_bytes())
    directory = liar.index(b"PK\x01\x02")
    liar[directory + 24 : directory + 28] = (500).to_bytes(4, "little")  # says that it has 500 bytes
    with pytest.raises(HistoryFileInvalid):
        read(write(tmp_path, bytes(liar), "export.zip"))
    assert "rows. Export shorter" in read_refusal(write(tmp_path, VISITORS), max_rows=1)
    assert "events. Export shorter" in read_refusal(write(tmp_path, EVENTS), max_events=5)
    assert "day and a page. Export" in read_refusal(write(tmp_path, EVENTS), max_page_rows=2)
    assert "day and a page. Export" in read_refusal(write(tmp_path, PAGES), max_page_rows=1)


@pytest.mark.deep
def test_mutated_files_are_read_or_refused_with_a_message(tmp_path: Path) -> None:
    chance = random.Random(7)
    archive = make_zip(tmp_path, {"imported_visitors.csv": VISITORS, "imported_pages.csv": PAGES}).read_bytes()
    for original in (VISITORS.encode(), PAGES.encode(), EVENTS.encode(), archive):
        for _ in range(300):
            content = bytearray(original)
            for _ in range(chance.randint(1, 6)):
                place = chance.randrange(len(content))
                action = chance.randrange(3)
                if action == 0:
                    content[place] = chance.randrange(256)
                elif action == 1:
                    del content[place : place + chance.randint(1, 20)]
                else:
                    content[place:place] = chance.choice((b'"', b"\n", b"\r", b",", b"\0", b"\xff", b"9" * 30))
                if not content:
                    break
            with contextlib.suppress(HistoryFileInvalid):
                history = read(write(tmp_path, bytes(content)))
                assert history.days or history.pages


@pytest.mark.deep
@pytest.mark.parametrize(
    "pump",
    [
        Pump('"2024-01-01",5,50,2,7,8640\n', VISITORS),
        Pump("w,s1,v1,e2,h,/guide,,1,,2024-01-01 10:01:00\n", EVENTS),
        Pump('"2024-01-01","h","/guide",1,1,1\n', PAGES),
        Pump('"', VISITORS),
        Pump('""\n', VISITORS),
        Pump("\r", VISITORS),
        Pump("\t", VISITORS.replace(",", "\t").replace('"', "")),
        Pump("\\", VISITORS.replace(",", "\t").replace('"', "")),
        Pump(",", VISITORS),
    ],
)
def test_cost_grows_with_the_file_only(tmp_path: Path, pump: Pump) -> None:
    def run(text: str) -> None:
        path = write(tmp_path, text)
        with contextlib.suppress(HistoryFileInvalid):
            read(path)

    assert_linear(run, pump, 100_000)


def test_reader_holds_one_line_at_a_time() -> None:
    """A line without an end is refused before it is read whole."""

    class Endless(io.RawIOBase):
        read_bytes = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            self.read_bytes += len(buffer)
            assert self.read_bytes < 10_000_000
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    from copydesk.transfer.history.csv_rows import CsvFile, FaultLog

    with pytest.raises(HistoryFileInvalid):
        CsvFile("endless", Endless(), FaultLog())  # type: ignore[arg-type]
