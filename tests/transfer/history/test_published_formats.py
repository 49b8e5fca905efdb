"""Files are written here as Plausible, Umami and the databases behind them write them, with all their columns."""

import csv
import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from copydesk.analytics.history import HistoryCounts
from copydesk.transfer.history import history_files
from copydesk.transfer.history.csv_rows import HistoryFileInvalid
from copydesk.transfer.history.history_files import HistoryReader
from tests.transfer.history.test_history_files import (
    DAY,
    EVENTS,
    OTHER_FILES,
    PAGES,
    PLAUSIBLE,
    UMAMI,
    VISITORS,
    make_zip,
    read,
    read_refusal,
    write,
)  # fmt: skip

CLOUD_HEADER = (
    "website_id,session_id,visit_id,event_id,hostname,browser,os,device,screen,language,country,region,city,url_path,"
    "url_query,utm_source,utm_medium,utm_campaign,utm_content,utm_term,referrer_path,referrer_query,referrer_domain,"
    "page_title,gclid,fbclid,msclkid,ttclid,li_fat_id,twclid,lcp,inp,cls,fcp,ttfb,event_type,event_name,tag,"
    "distinct_id,created_at,job_id"
)
"""The columns of an export of Umami Cloud, which quotes every cell, also the \\N of NULL."""
TABLE_HEADER = (
    "event_id,website_id,session_id,created_at,url_path,url_query,referrer_path,referrer_query,referrer_domain,"
    "page_title,event_type,event_name,visit_id,tag,hostname"
)
"""The table website_event in PostgreSQL and MySQL."""
NULLABLE_COLUMNS = {"lcp", "inp", "cls", "fcp", "ttfb", "job_id"}
SITE, OTHER_SITE = "2b0a6f43-1c57-4d0e-9f57-5f6f3a0d7a10", "7c1d9f10-93c4-4a27-8f10-0d6c1f0e2b11"


def make_event(number: int, **cells: str) -> dict[str, str]:
    return {
        "website_id": SITE,
        "session_id": "s1",
        "event_id": f"e{number}",
        "hostname": "docs.example.com",
        "url_path": "/guide",
        "page_title": 'Say "hi",\nthen go',
        "event_type": "1",
        "created_at": "2024-01-01 10:00:00",
        **cells,
    }


def write_events(path: Path, header: str, events: Sequence[Mapping[str, str]], delimiter: str = ",") -> Path:
    columns = header.split(",")
    with path.open("w", newline="") as file:
        table = csv.writer(
            file,
            quoting=csv.QUOTE_ALL if header == CLOUD_HEADER else csv.QUOTE_MINIMAL,
            lineterminator="\n",
            delimiter=delimiter,
        )
        table.writerow(columns)
        for event in events:
            table.writerow([event.get(column, "\\N" if column in NULLABLE_COLUMNS else "") for column in columns])
    return path


def make_streamed_zip(files: Mapping[str, str]) -> bytes:
    """Returns an archive as Plausible streams it: stored, with sizes after the contents, and with a comment."""
    contents, directory = b"", b""
    for name, text in files.items():
        content, encoded_name = text.encode(), name.encode()
        sizes = struct.pack("<III", zlib.crc32(content), len(content), len(content))
        header = struct.pack("<HHHHH", 20, 0x808, 0, 0, 0x5821)
        lengths = struct.pack("<HHHHHII", len(encoded_name), 0, 0, 0, 0, 0o100644 << 16, len(contents))
        directory += b"PK\x01\x02" + struct.pack("<H", 52) + header + sizes + lengths + encoded_name
        contents += b"PK\x03\x04" + header + bytes(12) + struct.pack("<HH", len(encoded_name), 0) + encoded_name
        contents += content + b"PK\x07\x08" + sizes
    counts = struct.pack("<HHHHII", 0, 0, len(files), len(files), len(directory), len(contents))
    comment = b"Created by Zstream"
    return contents + directory + b"PK\x05\x06" + counts + struct.pack("<H", len(comment)) + comment


def test_archive_that_plausible_streams_is_read(tmp_path: Path) -> None:
    files = {**OTHER_FILES, "imported_visitors_20240101_20240102.csv": VISITORS, "imported_pages_1_2.csv": PAGES}
    assert read(write(tmp_path, make_streamed_zip(files), "docs_example_com_20240103.zip")) == PLAUSIBLE


@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        ('"date","visitors","pageviews","hostname","page"', '3,9,"h","/guide"'),
        ('"date","hostname","page","visits","visitors","pageviews","exits","time_on_page"', '"h","/guide",4,3,9,2,60'),
        ('"date","hostname","page","visits","visitors","pageviews"', '"h","/guide",4,3,9'),
        (
            '"date","hostname","page","visits","visitors","pageviews","total_scroll_depth",'
            '"total_scroll_depth_visits","total_time_on_page","total_time_on_page_visits"',
            '"h","/guide",4,3,9,120,2,\\N,\\N',
        ),
    ],
)
def test_pages_of_every_version_of_plausible_are_read(tmp_path: Path, columns: str, cells: str) -> None:
    file = write(tmp_path, f'{columns}\n"2024-01-01",{cells}\n"2024-01-01",{cells}\n', "imported_pages_1_2.csv")
    assert read(file).pages == {(DAY, "/guide"): HistoryCounts(6, 18)}


def test_paths_that_are_not_text_do_not_hold_up_the_import(tmp_path: Path) -> None:
    pages = PAGES.encode() + b'"2024-01-02","h","/\xff\xfe",1,1,1\n"2024-01-02","h","/two\nlines",1,1,1\n'
    paths = {path for _, path in read(write(tmp_path, pages)).pages}
    assert {"/\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}", "/twolines"} <= paths


def test_days_in_two_files_of_plausible_are_refused_instead_of_added(tmp_path: Path) -> None:
    archive = make_zip(tmp_path, {"imported_visitors_1.csv": VISITORS, "imported_pages_1.csv": PAGES})
    visitors = write(tmp_path, VISITORS.splitlines()[0] + '\n"2024-01-02",1,1,1,1,1\n', "visitors.csv")
    assert "visitors.csv has days that another file has too, such as 2024-01-02" in read_refusal(archive, visitors)
    assert "pages.csv has days that another file has too" in read_refusal(archive, write(tmp_path, PAGES, "pages.csv"))
    later = write(tmp_path, VISITORS.replace("2024-01-0", "2024-02-0"), "later.csv")
    assert len(read(archive, later).days) == 4


def test_missing_columns_are_named(tmp_path: Path) -> None:
    without = VISITORS.replace('"pageviews"', '"views"')
    assert read_refusal(write(tmp_path, without, "imported_visitors_1_2.csv")) == (
        "imported_visitors_1_2.csv has no column pageviews in its first line."
    )
    assert "has no column page " in read_refusal(write(tmp_path, VISITORS, "imported_pages_1_2.csv"))
    headless = "\n".join(EVENTS.splitlines()[1:])
    assert "names of the columns in the first line" in read_refusal(write(tmp_path, headless, "website_event.csv"))


def test_notes_of_macos_and_folders_in_archives_are_no_problem(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "Export/imported_visitors_1_2.csv": VISITORS,
        "__MACOSX/Export/._imported_visitors_1_2.csv": b"\0\x05\x16\x07\0\x02\0\0Mac OS X\xff\xff",
        "Export/._imported_pages_1_2.csv": b"\0\x05\x16\x07",
        "Export\\imported_pages_1_2.CSV": PAGES,
    }
    reader = HistoryReader()
    assert reader.read_files([make_zip(tmp_path, files)]) == PLAUSIBLE
    assert reader.skipped == []


def test_export_of_umami_cloud_is_read_alone_in_gzip_and_in_an_archive(tmp_path: Path) -> None:
    events = [
        make_event(1, url_path="/"),
        make_event(2),
        make_event(3, created_at="2024-01-01 10:02:00"),
        make_event(4, event_type="2", event_name="signup"),
        make_event(5, session_id="s2", created_at="2024-01-01 23:59:59"),
        make_event(6, session_id="s2", created_at="2024-01-02 00:00:00"),
        make_event(7, event_type="5", session_id="s3"),
    ]
    file = write_events(tmp_path / "website_event.csv", CLOUD_HEADER, events)
    assert '"\\N"' in file.read_text()
    assert read(file) == UMAMI
    packed = gzip.compress(file.read_bytes())
    assert read(write(tmp_path, packed, "website_event.csv.gz")) == UMAMI
    assert read(make_zip(tmp_path, {"website_event.csv.gz": packed, "event_data.csv": ""})) == UMAMI


@pytest.mark.parametrize(
    "time",
    [
        "2024-01-02 00:30:00.123456+05:30",
        "2024-01-01 19:30:00-04",
        "2024-01-01 10:00:00+00",
        "2024-01-01T10:00:00.000Z",
        "2024-01-01 10:00:00.000 UTC",
        "2024-01-01 10:00:00",
    ],
)
def test_times_of_databases_belong_to_their_day_in_utc(tmp_path: Path, time: str) -> None:
    file = write_events(tmp_path / "website_event.csv", TABLE_HEADER, [make_event(1, created_at=time)])
    assert read(file).days == {DAY: HistoryCounts(1, 1)}


def test_tables_with_tabs_and_semicolons_are_read(tmp_path: Path) -> None:
    semicolons = write_events(tmp_path / "a.csv", TABLE_HEADER, [make_event(1, url_path="/a;b")], delimiter=";")
    assert read(semicolons).pages == {(DAY, "/a;b"): HistoryCounts(1, 1)}
    cells = ["e1", SITE, "s1", "2024-01-01 10:00:00", r"/a\tb\\c", *[r"\N"] * 4, '"Quoted" title', "1", *["NULL"] * 4]
    tabs = write(tmp_path, TABLE_HEADER.replace(",", "\t") + "\n" + "\t".join(cells) + "\n", "website_event.tsv")
    assert read(tabs).pages == {(DAY, r"/ab\c"): HistoryCounts(1, 1)}


def test_page_views_of_umami_1_are_read_without_their_queries(tmp_path: Path) -> None:
    rows = ["1,1,7,2024-01-01 10:00:00.5+00,/guide?a=1,", "2,1,7,2024-01-01 11:00:00.5+00,/guide?a=2,https://x.example"]
    file = write(tmp_path, "\n".join(["view_id,website_id,session_id,created_at,url,referrer", *rows]), "pageview.csv")
    assert read(file).pages == {(DAY, "/guide"): HistoryCounts(1, 2)}


def test_event_in_several_files_counts_once(tmp_path: Path) -> None:
    first = write_events(tmp_path / "a.csv", CLOUD_HEADER, [make_event(1), make_event(2)])
    second = write_events(tmp_path / "b.csv", TABLE_HEADER, [make_event(2), make_event(3, session_id="s2")])
    reader = HistoryReader()
    assert reader.read_files([first, second]).days == {DAY: HistoryCounts(2, 3)}
    assert reader.duplicate_count == 1
    unnamed = write_events(tmp_path / "c.csv", TABLE_HEADER, [make_event(1, event_id="")] * 3)
    assert read(unnamed).days == {DAY: HistoryCounts(1, 3)}


def test_one_of_several_websites_is_chosen(tmp_path: Path) -> None:
    events = [
        make_event(1),
        make_event(2, website_id=OTHER_SITE, hostname="blog.example.com", url_path="/post"),
        make_event(3, website_id=OTHER_SITE, hostname="blog.example.com", url_path="/post"),
        make_event(4, website_id="events only", event_type="2"),
    ]
    file = write_events(tmp_path / "website_event.csv", TABLE_HEADER, events)
    websites = [f"  {OTHER_SITE} (blog.example.com): 2 page views", f"  {SITE} (docs.example.com): 1 page view"]
    problem = "The files have page views of 2 websites. Choose one with --website:"
    assert read_refusal(file).splitlines() == [problem, *websites]
    chosen = HistoryReader(website=OTHER_SITE.upper()).read_files([file])
    assert chosen.pages == {(DAY, "/post"): HistoryCounts(1, 2)}
    for website, path, message in (
        ("nowhere", file, f"no page views of the website 'nowhere', but of:\n{websites[0]}"),
        (SITE, write(tmp_path, EVENTS.replace("website_id", "site"), "events.csv"), "has no column website_id"),
        (SITE, write(tmp_path, VISITORS, "visitors.csv"), "--website is for files of Umami"),
    ):
        with pytest.raises(HistoryFileInvalid) as refused:
            HistoryReader(website=website).read_files([path])
        assert message in str(refused.value)


def test_event_types_that_are_no_numbers_are_faults(tmp_path: Path) -> None:
    file = write_events(tmp_path / "website_event.csv", TABLE_HEADER, [make_event(1, event_type="pageview")])
    assert "line 3: event_type is 'pageview', which is not a whole number" in read_refusal(file)


@pytest.mark.parametrize(
    ("content", "tool"),
    [
        ("date,visitors,pageviews,visits,views_per_visit,bounce_rate,visit_duration\n2021-09-20,1,1,1,1.0,100,\n", "P"),
        ("date,visitors,pageviews,bounce_rate,visit_duration\n2021-09-20,1,1,100,0\n", "P"),
        ("date,visitors\n2020-09-20,1\n", "P"),
        ("name,visitors,pageviews,bounce_rate,time_on_page,scroll_depth\n/,4,3,67,30,27\n", "P"),
        ("name,visitors\nChrome,3\n", "P"),
        ('"timestamp","name","site_id","user_id","session_id","hostname","pathname"\n', "P"),
        ("x,y\r\n/,12\r\n", "U"),
        ("name,pageviews,visitors,visits,bounces,totaltime\r\n/,12,3,4,1,60\r\n", "U"),
        ("--\n-- PostgreSQL database dump\n--\n", "U"),
        ("-- MySQL dump 10.13  Distrib 8.0.31, for Linux (x86_64)\n", "U"),
        ("/*M!999999\\- enable the sandbox mode */ \n", "U"),
    ],
)
def test_wrong_files_are_recognized_and_the_right_one_is_named(tmp_path: Path, content: str, tool: str) -> None:
    advice = {"P": "click Export to CSV, and import the zip archive", "U": "Import website_event.csv"}[tool]
    assert advice in read_refusal(write(tmp_path, content, "download.csv"))
    assert read(write(tmp_path, content, "download.csv"), write(tmp_path, VISITORS, "v.csv")).days == PLAUSIBLE.days


@pytest.mark.deep
def test_damaged_and_huge_gzip_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(EVENTS.encode() * 100)
    for content in (packed[:-20], packed[:30] + b"\0" * 10 + packed[40:], packed[:3]):
        assert "is not a readable gzip file" in read_refusal(write(tmp_path, content, "website_event.csv.gz"))
    monkeypatch.setattr(history_files, "MAX_UNPACKED_BYTES", 1_000_000)
    bomb = gzip.compress(EVENTS.encode() + b"\n" * 2_000_000)
    assert "when unpacked" in read_refusal(write(tmp_path, bomb, "website_event.csv.gz"))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("website_event.csv.gz", bomb)
    assert "when unpacked" in read_refusal(write(tmp_path, archive.getvalue(), "export.zip"))
