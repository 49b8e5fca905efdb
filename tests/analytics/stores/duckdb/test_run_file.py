"""Files of visits: what is written is found, in every layout; damage is noticed."""

import random
import struct
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.stores.duckdb.folding.runs import (
    key_filter,
    run_file,
    run_pages,
)
from copydesk.analytics.stores.duckdb.folding.runs.chained_run_file import ChainedRunFile
from copydesk.analytics.stores.duckdb.folding.runs.open_run import open_run
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_writer import write_run
from copydesk.analytics.stores.duckdb.folding.visit_rows import VisitRows, find_sorted
from copydesk.analytics.stores.errors import StoreDamaged
from tests.analytics.stores.duckdb.run_files import (
    PAGE_ROWS,
    make_hashed_visits,
    make_visits,
    split_visits,
    to_tuples,
    write_visits,
)

FALLBACK_SIZES = run_pages.PAGE_SIZES[2:4]
"""The sizes for long files whose keys are farther apart than hashes are."""


@pytest.fixture(params=["short", "long"])
def is_long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Runs a test with files that are encoded as short ones and as long ones, whatever their length."""
    monkeypatch.setattr(run_pages, "MIN_RELATIVE_ROWS", 0 if request.param == "long" else 1 << 62)
    return bool(request.param == "long")


@pytest.fixture(params=[6, 7, 8])
def key_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a test with each width of keys."""
    allow_key_bytes(monkeypatch, request.param)
    return int(request.param)


def allow_key_bytes(patch: pytest.MonkeyPatch, key_bytes: int, page_rows: int = PAGE_ROWS) -> None:
    """Gives files of any length keys of so many bytes, if these are enough."""
    sizes = [run_pages.PageSize(0, page_rows, each) for each in (6, 7, 8) if each >= key_bytes]
    patch.setattr(run_pages, "PAGE_SIZES", sizes)


@pytest.fixture(params=["packed", "in columns"])
def others(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Runs a test with scopes and days that share 4 bytes, and with some that do not fit. Returns what to add."""
    return (0, 0) if request.param == "packed" else (2**30, 60_000)


@pytest.fixture(params=[False, True])
def by_reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with searches in the mapped file, and with searches that read the pages they need."""
    if request.param:
        monkeypatch.setattr(run_file, "MAX_HELD_ROWS", 0)
        monkeypatch.setattr(run_file, "DENSE_ROWS_PER_KEY", 0)


@pytest.mark.parametrize(
    "count", [1, 128, 129, *(pytest.param(count, marks=pytest.mark.deep) for count in (2, 127, 1_000))]
)
def test_run_has_all_visits_and_finds_those_of_a_key(
    tmp_path: Path, is_long: bool, key_bytes: int, others: tuple[int, int], count: int
) -> None:
    visits = make_visits(count)
    scope, day = visits.scope.copy(), visits.day.copy()
    scope[0] += others[0]
    day[-1] += others[1]
    visits = VisitRows(visits.key, scope, day, visits.bits)
    run = write_visits(tmp_path / "a.run", *split_visits(visits, max(1, count // 3)))
    assert isinstance(run, ChainedRunFile) != is_long
    key_counts = [len(set(page.key.tolist())) for page in split_visits(visits, PAGE_ROWS)]
    assert (tmp_path / "a.run").stat().st_size == measure_run(count, key_counts, key_bytes, 7 if others[0] else 4)
    wanted = np.unique(np.concatenate((visits.key[::3], [count + 5])))
    _, found = run.find(wanted)
    assert to_tuples(found) == to_tuples(visits.take(np.isin(visits.key, wanted)))
    for first, end in ((0, count), (count // 2, count), (3, 5), (130, 140), (0, 2 * count)):
        for column, read_column in zip(visits.columns(), run.read_rows(first, end).columns(), strict=True):
            assert read_column.tolist() == column[first:end].tolist()
            assert read_column.dtype == column.dtype
    assert [run.get_key(position) for position in range(count)] == visits.key.tolist()
    for key in range(-1, count + 2):
        assert run.find_end(key) == np.searchsorted(visits.key, key, "right")


def measure_run(rows: int, key_counts: list[int], key_bytes: int, other_bytes: int = 4, filter_bits: int = 3) -> int:
    """Returns the size of a run whose pages have so many keys: a page has 128 scopes, days and class bits, 128 flags,
    and keys; a fence has eight bytes, and one for the number of keys."""
    pages = sum(128 * other_bytes + 16 + count * key_bytes for count in key_counts)
    return -(-rows * filter_bits // 32) * 4 + pages + 9 * len(key_counts) + run_file.FOOTER.size


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=70),
    st.lists(st.integers(-2, 45), max_size=20),
    st.sampled_from([6, 7, 8]),
    st.sampled_from([1, 2, 4, 64]),
    st.booleans(),
    st.booleans(),
)
@pytest.mark.deep
def test_search_finds_what_a_plain_search_finds(
    stored: list[int], wanted: list[int], key_bytes: int, page_rows: int, by_reading: bool, is_long: bool
) -> None:
    visits = make_visits(len(stored))
    visits = VisitRows(np.array(sorted(stored), np.int64), visits.scope, visits.day, visits.bits)
    wanted_keys = np.array(sorted(set(wanted)), np.int64)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(run_pages, "MIN_RELATIVE_ROWS", 0 if is_long else 1 << 62)
        allow_key_bytes(patch, key_bytes, page_rows)
        if by_reading:
            patch.setattr(run_file, "MAX_HELD_ROWS", 0)
            patch.setattr(run_file, "DENSE_ROWS_PER_KEY", 0)
        positions, found = write_visits(Path(folder, "a.run"), visits).find(wanted_keys)
    wanted_positions = find_sorted(visits.key, wanted_keys)
    assert positions.tolist() == wanted_positions.tolist()
    assert to_tuples(found) == to_tuples(visits.take(wanted_positions))


def test_keys_take_as_many_bytes_as_their_distances_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    allow_key_bytes(monkeypatch, 6)
    for distance, key_bytes in ((2**48 - 1, 6), (2**48, 7), (2**56 - 1, 7), (2**56, 8)):
        visits = make_visits(300)
        if is_long:
            visits.key[200:] += visits.key[128] + distance - visits.key[255]  # the first and the last one of a page
        else:
            visits.key[200:] += visits.key[199] + distance - visits.key[200]
        check_key_bytes(tmp_path / str(distance), visits, key_bytes)
    check_key_bytes(tmp_path / "hashed", make_hashed_visits(300), 8)


def check_key_bytes(path: Path, visits: VisitRows, key_bytes: int) -> None:
    run = write_visits(path, *split_visits(visits, 50))
    key_counts = [len(set(page.key.tolist())) for page in split_visits(visits, PAGE_ROWS)]
    assert path.stat().st_size == measure_run(300, key_counts, key_bytes)
    assert to_tuples(run.read_rows(0, 300)) == to_tuples(visits)


@pytest.mark.parametrize("size", [size for size in run_pages.PAGE_SIZES if size not in FALLBACK_SIZES])
def test_keys_of_hashed_visits_fit_into_what_files_of_their_length_have(size: run_pages.PageSize) -> None:
    """A file is written again if its keys do not fit, so this must be rare. Of a long file, a part is encoded."""
    rows = max(size.min_rows, 1)
    part_rows = min(rows, 1_500_000)
    visits = make_visits(part_rows)
    span = 2**63 * part_rows // rows - 1
    hashes = np.sort(np.random.default_rng(3).integers(0, span, -(-part_rows // 2)))
    visits = VisitRows(np.repeat(hashes, 2)[:part_rows], visits.scope, visits.day, visits.bits)
    layout = run_pages.list_layouts(rows, run_pages.find_bounds(visits))[0]
    assert (layout.page_rows, layout.key_bytes) == (size.page_rows, size.key_bytes)
    assert len(layout.encode(visits).key_counts) == layout.count_pages(part_rows)


@pytest.mark.parametrize("size", FALLBACK_SIZES)
def test_long_file_whose_keys_occur_many_times_has_more_bytes_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: run_pages.PageSize
) -> None:
    sizes = [each._replace(min_rows=min(each.min_rows, 1_000)) for each in run_pages.PAGE_SIZES]
    monkeypatch.setattr(run_pages, "MIN_RELATIVE_ROWS", 1_000)
    monkeypatch.setattr(run_pages, "PAGE_SIZES", sizes)
    visits = make_visits(1_000)
    visits.key[500:] += 2 ** (8 * (size.key_bytes - 1))  # within a page
    run = write_visits(tmp_path / "a.run", visits)
    assert (run._layout.page_rows, run._layout.key_bytes) == (size.page_rows, size.key_bytes)
    assert to_tuples(run.find(np.unique(visits.key))[1]) == to_tuples(visits)


def test_how_keys_are_encoded_is_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """Stays readable when the limit for long files changes."""
    visits = make_visits(1_000)
    write_visits(tmp_path / "a.run", visits)
    monkeypatch.setattr(run_pages, "MIN_RELATIVE_ROWS", 1 << 62 if is_long else 0)
    run = open_run(tmp_path / "a.run", 1_000)
    run.verify()
    assert to_tuples(run.find(np.unique(visits.key))[1]) == to_tuples(visits)


def test_visits_are_selected_in_parts_that_have_no_key_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    monkeypatch.setattr(run_file, "KEYS_PER_BATCH", 50)
    visits = make_visits(2_000)
    write_visits(tmp_path / "a.run", visits)
    wanted, seen = np.arange(0, 1_000, 3), []

    def select_first_scopes(rows: VisitRows) -> VisitRows:
        seen.append(set(rows.key.tolist()))
        return rows.take(rows.scope < 4)

    found = open_run(tmp_path / "a.run", 2_000).find_selected(wanted, select_first_scopes)
    assert to_tuples(found) == to_tuples(visits.take(np.isin(visits.key, wanted) & (visits.scope < 4)))
    assert sum(map(len, seen)) == len(set.union(*seen)), "no key is in two parts"


def test_key_that_occurs_several_times_on_a_page_is_stored_once(tmp_path: Path, is_long: bool) -> None:
    visits = make_hashed_visits(1_280)
    visits.key[:] = np.repeat(visits.key[::10], 10)
    run = write_visits(tmp_path / "a.run", visits)
    assert (tmp_path / "a.run").stat().st_size < 1_280 * 6
    assert to_tuples(run.find(visits.key[600:601])[1]) == to_tuples(visits.take(visits.key == visits.key[600]))


@pytest.mark.parametrize(
    ("scope", "day", "bits"), [(9, 5, 1), (8, 100, 1), (8, 0, 1), (-1, 5, 1), (8, 5, 32), (2**20, 5, 1)]
)
def test_visits_beyond_the_bounds_are_not_written(tmp_path: Path, scope: int, day: int, bits: int) -> None:
    """They would be read back as other visits."""
    visits = VisitRows(
        np.ones(1, np.int64), np.array([scope], np.int32), np.array([day], np.uint16), np.array([bits], np.uint8)
    )
    with pytest.raises(ValueError, match="not within"):
        write_run(tmp_path / "a.run", 1, run_pages.VisitBounds(8, 1, 99), lambda: [visits])


@pytest.mark.parametrize(("page_rows", "key_bytes"), [(0, 8), (3, 8), (2**31, 8), (128, 5), (128, 9)])
def test_layout_that_no_version_writes_is_refused(page_rows: int, key_bytes: int) -> None:
    layout = run_pages.list_layouts(1, run_pages.VisitBounds(1, 1, 1))[0].pack()
    assert run_pages.unpack_layout(layout).page_rows == PAGE_ROWS
    with pytest.raises(StoreDamaged):
        run_pages.unpack_layout(struct.pack("<IB", page_rows, key_bytes) + layout[5:])


@pytest.mark.parametrize("part_rows", [1, 7, 5_000])
@pytest.mark.usefixtures("by_reading")
def test_filter_keeps_every_key_of_the_run_and_few_others(tmp_path: Path, is_long: bool, part_rows: int) -> None:
    visits = make_hashed_visits(5_000)
    run = write_visits(tmp_path / "a.run", *split_visits(visits, part_rows))
    absent = np.sort(np.random.default_rng(2).integers(0, 2**63 - 1, 3_000))
    wanted = np.unique(np.concatenate((visits.key, absent, [-1, 0, 2**63 - 1])))
    positions, found = run.find(wanted)
    assert positions.tolist() == list(range(5_000))
    assert to_tuples(found) == to_tuples(visits)
    assert set(visits.key.tolist()) <= set(run.select_possible(wanted).tolist())
    assert len(run.select_possible(absent)) < 900
    assert len(run.find(absent[:0])[0]) == 0


@pytest.mark.parametrize("part_rows", [7, 5_000])
def test_long_run_has_a_smaller_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_rows: int) -> None:
    monkeypatch.setattr(key_filter, "MIN_LONG_ROWS", 5_000)
    monkeypatch.setattr(run_file, "MIN_LONG_ROWS", 5_000)
    monkeypatch.setattr(run_file, "KEYS_PER_BATCH", 300)
    visits = make_hashed_visits(5_000)
    run = write_visits(tmp_path / "a.run", *split_visits(visits, part_rows))
    key_counts = [len(set(page.key.tolist())) for page in split_visits(visits, PAGE_ROWS)]
    assert (tmp_path / "a.run").stat().st_size == measure_run(5_000, key_counts, 7, filter_bits=2)
    absent = np.sort(np.random.default_rng(2).integers(0, 2**63 - 1, 3_000))
    assert 500 < len(run.select_possible(absent)) < 800, "half of the keys occur several times"
    wanted = np.unique(np.concatenate((visits.key[::5], absent[:900])))
    assert run.find(wanted)[0].tolist() == np.flatnonzero(np.isin(visits.key, wanted)).tolist()
    run.verify()
    assert run.find(np.unique(visits.key))[0].tolist() == list(range(5_000)), "of many keys, in parts"


def test_lookup_of_many_keys_finds_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool) -> None:
    monkeypatch.setattr(run_file, "KEYS_PER_BATCH", 7)
    visits = make_visits(1_000)
    positions, found = write_visits(tmp_path / "a.run", visits).find(np.unique(visits.key))
    assert positions.tolist() == list(range(1_000))
    assert to_tuples(found) == to_tuples(visits)


@pytest.mark.parametrize("place", range(0, measure_run(100, [40], 8), 23))
def test_changed_run_is_refused(tmp_path: Path, is_long: bool, place: int) -> None:
    write_visits(tmp_path / "a.run", make_visits(100))
    content = bytearray((tmp_path / "a.run").read_bytes())
    content[place] ^= 1
    (tmp_path / "a.run").write_bytes(content)
    with pytest.raises(StoreDamaged):
        open_run(tmp_path / "a.run", 100).verify()


@pytest.mark.parametrize("bit", [0, 5])
def test_search_on_a_page_with_changed_flags_is_refused(tmp_path: Path, is_long: bool, bit: int) -> None:
    """A search does not read the whole run, and must not return other visits, or fail in another way."""
    visits = make_visits(400)
    write_visits(tmp_path / "a.run", visits)
    content = (tmp_path / "a.run").read_bytes()
    page_start = -(-400 * 3 // 32) * 4
    for place in range(page_start + 128 * 4, page_start + 128 * 4 + 16):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        (tmp_path / "a.run").write_bytes(damaged)
        run = open_run(tmp_path / "a.run", 400)
        with pytest.raises(StoreDamaged):
            run.find(np.unique(visits.key))
        with pytest.raises(StoreDamaged):
            run.read_rows(0, 400)


def test_page_whose_first_visit_has_no_flag_is_refused(tmp_path: Path, is_long: bool) -> None:
    """The visits of the key before would continue on this page, whose number of flags is right."""
    visits = make_visits(400)
    written = write_visits(tmp_path / "a.run", visits)
    content, pages = bytearray(written.path.read_bytes()), written._layout.encode(visits).pages
    place = content.index(pages[1]["flags"].tobytes(), content.index(pages[1].tobytes()))
    flags = int.from_bytes(pages[1]["flags"].tobytes(), "little")
    unused_bit = next(bit for bit in range(128) if not flags >> bit & 1)
    content[place : place + 16] = (flags ^ 1 ^ 1 << unused_bit).to_bytes(16, "little")
    (tmp_path / "a.run").write_bytes(content)
    run = open_run(tmp_path / "a.run", 400)
    with pytest.raises(StoreDamaged):
        run.find(np.unique(visits.key))
    with pytest.raises(StoreDamaged):
        run.read_rows(0, 400)


@pytest.mark.parametrize("count", [100, 400])
@pytest.mark.deep
def test_search_in_a_run_with_damaged_pages_fails_in_no_other_way(tmp_path: Path, is_long: bool, count: int) -> None:
    """The damage may be in keys, which a search does not check, or in the flags of rows after the last visit."""
    visits = make_hashed_visits(count)
    write_visits(tmp_path / "a.run", visits)
    content = (tmp_path / "a.run").read_bytes()
    chance, refused = random.Random(5), 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 8])):
            damaged[chance.randrange(len(content) - run_file.FOOTER.size)] ^= chance.randrange(1, 256)
        (tmp_path / "a.run").write_bytes(damaged)
        try:
            run = open_run(tmp_path / "a.run", count)
            positions, rows = run.find(np.unique(visits.key))
            assert len(positions) == len(rows) <= count
        except StoreDamaged:
            refused += 1
        with pytest.raises(StoreDamaged):
            open_run(tmp_path / "a.run", count).verify()
    assert refused > 30


@pytest.mark.parametrize("field", [0, 1, 3])
@pytest.mark.parametrize("value", [0, 2, 8])
def test_footer_with_another_number_is_refused(tmp_path: Path, field: int, value: int) -> None:
    """The footer has a mark, the rows, the layout, the bits of the filter, checksums, and a checksum of its own."""
    write_visits(tmp_path / "a.run", make_visits(300))
    content = bytearray((tmp_path / "a.run").read_bytes())
    start = len(content) - run_file.FOOTER.size
    fields = list(run_file.FOOTER.unpack_from(content, start))
    fields[field] = value if field else b"visits%02d" % value
    run_file.FOOTER.pack_into(content, start, *fields)
    content[-4:] = struct.pack("<I", zlib.crc32(content[start:-4]))
    (tmp_path / "a.run").write_bytes(content)
    with pytest.raises(StoreDamaged):
        open_run(tmp_path / "a.run", 300).verify()


def test_run_with_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    write_visits(tmp_path / "a.run", make_visits(300))
    with pytest.raises(StoreDamaged):
        RunFile(tmp_path / "a.run", 299)


@pytest.mark.usefixtures("by_reading")
@pytest.mark.parametrize("rows_before", [0, 1, 127])
def test_key_on_several_pages_is_found(tmp_path: Path, is_long: bool, rows_before: int) -> None:
    """A key has 300 visits, which take up to four pages; keys around it have few."""
    keys = np.concatenate((np.arange(rows_before), np.full(300, 1_000), [1_001, 1_001, 1_002], np.arange(2_000, 2_300)))
    visits = make_visits(len(keys))
    run = write_visits(tmp_path / "a.run", VisitRows(keys, visits.scope, visits.day, visits.bits))
    for wanted in ([1_000], [1_001], [0, 1_000, 1_002, 1_500], keys[::7].tolist()):
        positions, found = run.find(np.unique(wanted))
        assert positions.tolist() == find_sorted(keys, np.unique(wanted)).tolist()
        assert to_tuples(found) == to_tuples(VisitRows(keys, visits.scope, visits.day, visits.bits).take(positions))


def test_cut_or_moved_run_is_refused(tmp_path: Path) -> None:
    write_visits(tmp_path / "a.run", make_visits(300))
    content = (tmp_path / "a.run").read_bytes()
    for damaged in (content[1:], content[:-1], content + b"1", content[-40:], b""):
        (tmp_path / "b.run").write_bytes(damaged)
        with pytest.raises(StoreDamaged):
            open_run(tmp_path / "b.run", 300).verify()
