"""Exported files have the stored views and the numbers of the reports, in every format."""

import csv
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyarrow import parquet as untyped_parquet

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import TOP_SECTIONS, DayRange, Store
from copydesk.analytics.stores.export_format import EXPORT_COLUMNS, ColumnType, ExportDay, ExportFormat
from copydesk.analytics.stores.names import referrer_hosts
from copydesk.analytics.stores.names.missing_paths import MAX_NEW_MISSING_PATHS_PER_DAY
from copydesk.analytics.stores.shared import SharedStore
from copydesk.core.clock import DAY
from copydesk.core.text.csv_cells import escape_formula
from tests.analytics.stores.conformance.conftest import STORE_OPENERS
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.conformance.test_audience import make_arrival
from tests.analytics.stores.conformance.test_missing import make_missing
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

parquet: Any = untyped_parquet
Row = dict[str, Any]
ODD_PATHS = (
    '/"quoted", path',
    "=HYPERLINK()",
    "+1",
    "-1",
    "@x",
    "＝full",
    "/日本語/ä",
    "/it's",
    "/a\\b",
    "/%2e",
    "null",
)


@pytest.fixture(params=[*STORE_OPENERS, "shared"])
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    return STORE_OPENERS.get(request.param, SharedStore)


def export_rows(
    store: Store, folder: Path, dataset: str, file_format: ExportFormat, day: int = MONDAY, project: str = "docs"
) -> list[Row]:
    """Exports a day, reads the file with a reader that is not the store's, and returns its rows in a fixed order."""
    file = folder / f"file.{file_format}"
    row_count = store.export_day(project, dataset, day, file_format, file)
    rows = READERS[file_format](file, dataset)
    assert len(rows) == row_count
    assert all(list(row) == list(EXPORT_COLUMNS[dataset]) for row in rows)
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def read_parquet(file: Path, dataset: str) -> list[Row]:
    rows: list[Row] = parquet.read_table(file).to_pylist()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, datetime):
                assert value.tzinfo is not None
                row[name] = format_time(value)
            elif isinstance(value, date):
                row[name] = value.isoformat()
    return rows


def read_csv(file: Path, dataset: str) -> list[Row]:
    with file.open(newline="", encoding="utf-8") as opened:
        rows: list[Row] = list(csv.DictReader(opened))
    for row in rows:
        for name, column_type in EXPORT_COLUMNS[dataset].items():
            if column_type is ColumnType.COUNT:
                row[name] = int(row[name])
            elif column_type is ColumnType.FLAG:
                row[name] = {"true": True, "false": False}[row[name]]
    return rows


def read_jsonl(file: Path, dataset: str) -> list[Row]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def format_time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z"


READERS: dict[ExportFormat, Callable[[Path, str], list[Row]]] = {
    ExportFormat.PARQUET: read_parquet,
    ExportFormat.CSV: read_csv,
    ExportFormat.JSONL: read_jsonl,
}


def expect_rows(dataset: str, file_format: ExportFormat, *cells: tuple[Any, ...]) -> list[Row]:
    """Returns rows as a file of this format has them: in CSV, formulas are escaped and null is an empty cell."""
    columns = EXPORT_COLUMNS[dataset]
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    if file_format is ExportFormat.CSV:
        for row in rows:
            for name, value in row.items():
                if columns[name] is ColumnType.TEXT:
                    value = None if value is None else escape_formula(value)
                row[name] = "" if value is None else value
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def to_raw_cells(view: PageView) -> tuple[Any, ...]:
    time = datetime.fromtimestamp(view.at / 1000, UTC)
    return (
        *(format_time(time), view.path, view.is_missing, str(view.kind), view.agent or None, view.operator or None),
        *(view.rule, view.agent_table_version, None if view.visitor is None else f"{view.visitor:016x}"),
        *(view.host or None, view.referrer or None),
    )


@pytest.mark.deep
@pytest.mark.parametrize("file_format", ExportFormat)
def test_exported_raw_views_are_the_stored_views(store: Store, tmp_path: Path, file_format: ExportFormat) -> None:
    views = [
        *(make_view(path, visitor=2**62 + number) for number, path in enumerate(ODD_PATHS)),
        make_view("/a", visitor=None, kind="search", agent="Crawler", rule="=rule"),
        make_view("/a", visitor=7, kind="assistant")._replace(host="docs.example.com", referrer="news.example.com"),
        make_view("/a", visitor=7, kind="training", agent="Trainer"),
        make_view("/a", visitor=2**63 - 1, kind="other")._replace(at=MONDAY * DAY),
        make_view("/a", visitor=7)._replace(at=(MONDAY + 1) * DAY - 1),
        make_view("/a", visitor=7),
        make_view("/a", visitor=7),
        make_missing("/gone", 3, referrer="/a"),
    ]
    others = [make_view(day=MONDAY - 1), make_view(day=MONDAY + 1), make_view(project="other")]
    log_and_fold(store, *views, *others)
    exported = export_rows(store, tmp_path, "raw", file_format)
    assert exported == expect_rows("raw", file_format, *map(to_raw_cells, views))


@pytest.mark.deep
@pytest.mark.parametrize("file_format", ExportFormat)
def test_exported_reports_have_the_numbers_of_the_day(store: Store, tmp_path: Path, file_format: ExportFormat) -> None:
    store.set_ai_classes("docs", {"assistant", "search"})
    for day in (MONDAY - 1, MONDAY, MONDAY + 1):
        views = [make_view("=a", day), make_view("/b", day, visitor=2), make_view("/b", day, "assistant", 2, agent="X")]
        crawls = [make_view("/b", day, "search", 5), make_view("/c", day, "training", 6, agent="T")]
        missing = [make_missing("/gone", visitor, referrer="/a", day=day) for visitor in (1, 2)]
        missing += [make_missing("/gone", 1, referrer="x.example", day=day), make_missing("/crawled", 9, kind="other")]
        log_and_fold(store, *views, *crawls, *missing, make_view("/d", day, visitor=None))
    today, seen_at = format_day(MONDAY), f"{format_day(MONDAY)}T00:00:00.005Z"
    reports: dict[str, list[tuple[Any, ...]]] = {
        "visitors": [(today, "=a", 1, 0, 1), (today, "/b", 1, 2, 2)],
        "views": [(today, "=a", 1, 0, 1), (today, "/b", 1, 2, 3), (today, "/d", 1, 0, 1)],
        "agents": [
            (today, None, None, "human", 2, 3),
            (today, "X", "Example", "assistant", 1, 1),
            (today, None, None, "search", 1, 1),
            (today, "T", "Example", "training", 1, 1),
        ],
        "timeseries": [(today, 2, 2, 3, 3, 2, 5)],
        "missing": [(today, "/gone", 2, 0, 2, 3, seen_at, "/a 2\nx.example 1")],
    }
    for dataset, rows in reports.items():
        assert export_rows(store, tmp_path, dataset, file_format) == expect_rows(dataset, file_format, *rows), dataset
    report = store.count_visitors_by_page("docs", DayRange(MONDAY, MONDAY + 1)).rows
    assert {(row.path, row.count.total) for row in report} == {(row[1], row[4]) for row in reports["visitors"]}


def make_random_views(seed: int) -> list[PageView]:
    """Returns views of two days by few visitors, who come from several places and read pages of several sections."""
    random = Random(seed)
    referrers = ("", "www.google.co.uk", "bing.com", "old.reddit.com", "example.org", "chatgpt.com", "docs.example.com")
    paths = ("/", "/=a", "/ja", "/ja/a", "/ja/b/c", "/ja?v=/x", "/jaa/x", "/日本語/ä", "/en/a")
    return [
        make_view(
            random.choice(paths),
            MONDAY + random.randrange(2),
            random.choice(["human", "human", "assistant", "search"]),
            random.choice([None, 1, 2, 3, 4]),
        )._replace(referrer=random.choice(referrers), host="docs.example.com")
        for _ in range(60)
    ]


@pytest.mark.deep
@pytest.mark.parametrize("file_format", ExportFormat)
def test_exported_referrers_and_sections_are_counted_exactly(
    store: Store, tmp_path: Path, file_format: ExportFormat
) -> None:
    reference = ReferenceStore()
    for seed in (1, 2):
        views = make_random_views(seed)
        reference.log_views(views)
        reference.fold()
        log_and_fold(store, *views, make_view("/ja", project="other"))
    store.delete_raw_views(MONDAY + 1)
    for day in (MONDAY, MONDAY + 1):
        days, date_text = DayRange(day, day + 1), format_day(day)
        referrers = reference.list_referrers("docs", days, 100, 0).rows
        sections = reference.list_sections("docs", days, 100, 0, TOP_SECTIONS).rows
        assert len(referrers) >= 6
        assert len(sections) >= 5
        assert export_rows(store, tmp_path, "referrers", file_format, day) == expect_rows(
            "referrers", file_format, *((date_text, *vars(row).values()) for row in referrers)
        )
        assert export_rows(store, tmp_path, "sections", file_format, day) == expect_rows(
            "sections",
            file_format,
            *((date_text, row.section, *vars(row.count).values(), row.views) for row in sections),
        )


def test_exported_hosts_beyond_the_limit_are_one_row(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(referrer_hosts, "MAX_NEW_REFERRER_HOSTS_PER_DAY", 2)
    log_and_fold(store, *(make_arrival(f"{number}.example.org", number + 1) for number in range(5)))
    rows = export_rows(store, tmp_path, "referrers", ExportFormat.JSONL)
    assert [(row["referrer"], row["kind"], row["visitors"], row["views"]) for row in rows] == [
        ("(other)", "site", 3, 3),
        ("0.example.org", "site", 1, 1),
        ("1.example.org", "site", 1, 1),
    ]


@pytest.mark.deep
def test_exported_sections_have_another_fingerprint_when_only_the_visitors_change(store: Store) -> None:
    """Every number of a page and of the site stays the same, but one visitor reads both pages of the section."""
    views = [make_view("/a/x", visitor=1, event=1), make_view("/a/y", visitor=2, event=2)]
    log_and_fold(store, *views, make_view("/b", visitor=2, event=3))
    before = look(store)[0]
    store.withdraw_views("docs", [2, 3])
    log_and_fold(store, make_view("/a/y", visitor=1, event=4), make_view("/b", visitor=2, event=5))
    after = look(store)[0]
    [section, _] = store.list_sections("docs").rows
    assert (section.section, section.count.total) == ("/a", 1)
    assert after.report_fingerprint == before.report_fingerprint
    assert after.get_fingerprint("visitors") == before.get_fingerprint("visitors")
    assert after.get_fingerprint("sections") != before.get_fingerprint("sections")


@pytest.mark.deep
def test_exported_missing_pages_beyond_the_limit_are_one_row(store: Store, tmp_path: Path) -> None:
    count = MAX_NEW_MISSING_PATHS_PER_DAY + 2
    log_and_fold(store, *(make_missing(f"/{number}", number + 1) for number in range(count)))
    rows = export_rows(store, tmp_path, "missing", ExportFormat.JSONL)
    assert len(rows) == MAX_NEW_MISSING_PATHS_PER_DAY + 1
    [other] = [row for row in rows if not row["path"]]
    assert (other["total"], other["requests"]) == (2, 2)


@pytest.mark.deep
def test_exported_unknown_project_and_empty_day_have_no_rows(store: Store, tmp_path: Path) -> None:
    assert store.find_export_range("docs") is None
    assert store.list_export_days("docs", DayRange(MONDAY, MONDAY + 1)) == []
    log_and_fold(store, make_view())
    assert store.find_export_range("docs") == DayRange(MONDAY, MONDAY + 1)
    for dataset in EXPORT_COLUMNS:
        for file_format in ExportFormat:
            assert export_rows(store, tmp_path, dataset, file_format, MONDAY + 1) == []
            assert export_rows(store, tmp_path, dataset, file_format, project="nobody") == []


def look(store: Store) -> dict[int, ExportDay]:
    return {day.day - MONDAY: day for day in store.list_export_days("docs", DayRange(MONDAY, MONDAY + 9))}


@pytest.mark.deep
def test_fingerprints_change_with_the_data_of_their_day_only(store: Store) -> None:
    log_and_fold(store, *(make_view(f"/{n % 3}", MONDAY + n % 2, visitor=n, event=n) for n in range(1, 8)))
    log_and_fold(store, make_view(project="other"), make_missing("/gone", 3))
    before = look(store)
    assert list(before) == [0, 1]
    assert all(day.raw_fingerprint and day.report_fingerprint and day.has_all_raw_views for day in before.values())
    store.rebuild_index()
    log_and_fold(store, make_view(project="other"), make_view(day=MONDAY + 5, visitor=1))
    assert {**look(store), 5: None} == {**before, 5: None}

    log_and_fold(store, make_view("/late", MONDAY + 1, visitor=None))
    late = look(store)
    assert late[0] == before[0]
    assert late[1].raw_fingerprint != before[1].raw_fingerprint
    assert late[1].report_fingerprint != before[1].report_fingerprint

    store.forget_visitor("docs", 2)
    forgotten = look(store)
    assert forgotten[0].raw_fingerprint != late[0].raw_fingerprint
    assert forgotten[0].report_fingerprint != late[0].report_fingerprint
    assert forgotten[1] == late[1]

    store.set_ai_classes("docs", {"search"})
    changed = look(store)
    assert changed[0].raw_fingerprint == forgotten[0].raw_fingerprint
    assert changed[0].report_fingerprint != forgotten[0].report_fingerprint

    store.withdraw_views("docs", [4])
    assert look(store)[0].raw_fingerprint != changed[0].raw_fingerprint
    assert look(store)[1] == changed[1]


@pytest.mark.deep
def test_day_with_deleted_raw_views_is_not_complete(store: Store) -> None:
    log_and_fold(store, make_view(), make_view(visitor=2), make_view(day=MONDAY + 1))
    reports = look(store)[0].report_fingerprint
    store.delete_raw_views(MONDAY + 1)
    days = look(store)
    assert days[0] == ExportDay(MONDAY, "", reports, False)
    assert days[1].has_all_raw_views
    log_and_fold(store, make_view(visitor=3))
    assert look(store)[0].raw_fingerprint
    assert not look(store)[0].has_all_raw_views
