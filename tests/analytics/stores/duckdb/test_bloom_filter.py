"""The Bloom filter of events, in memory and in files."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.stores.duckdb.log.bloom_filter import MIN_ARRAY_EVENTS, BloomFilter, FilterDamaged
from copydesk.analytics.stores.duckdb.log.filter_files import FilterFiles, get_filter_folder

EVENTS = st.integers(0, (1 << 63) - 1)
BATCHES = st.lists(st.lists(EVENTS, max_size=2 * MIN_ARRAY_EVENTS), max_size=8)


def make_events(count: int, seed: int = 0) -> list[int]:
    chance = random.Random(seed)
    return [chance.getrandbits(63) for _ in range(count)]


def write_filter(files: FilterFiles, events: list[int], capacity: int | None = None) -> int:
    bloom_filter = BloomFilter(capacity or len(events))
    bloom_filter.add_array(np.array(events, np.int64))
    return files.write(bloom_filter.copy())


@given(BATCHES, st.integers(1, 300))
def test_added_event_is_known_whatever_the_size_of_its_batch(batches: list[list[int]], capacity: int) -> None:
    bloom_filter = BloomFilter(capacity)
    added: list[int] = []
    for events in batches:
        possible_duplicates = bloom_filter.add(events)
        repeated = [event for index, event in enumerate(events) if event in added or event in events[:index]]
        assert set(repeated) <= set(possible_duplicates)
        added += events
    assert bloom_filter.split_known(added) == (added, [])
    for event in added:
        assert bloom_filter.split_known([event]) == ([event], [])


def test_batches_of_any_size_set_the_same_bits() -> None:
    events = make_events(2_000)
    filters = [BloomFilter(2_000) for _ in range(3)]
    for event in events:
        filters[0].add([event])
    filters[1].add(events)
    filters[2].add_array(np.array(events, np.int64))
    assert len({bytes(each.copy().words) for each in filters}) == 1


def test_full_filter_takes_few_new_events_for_known_ones() -> None:
    bloom_filter = BloomFilter(100_000)
    bloom_filter.add(make_events(100_000))
    known, new = bloom_filter.split_known(make_events(50_000, seed=1))
    assert len(known) < 40
    assert len(known) + len(new) == 50_000


def test_filter_is_the_same_after_it_was_written_and_opened(tmp_path: Path) -> None:
    files, events, later = FilterFiles(tmp_path / "a.duckdb"), make_events(30_000), make_events(3_000, seed=2)
    filter_id = write_filter(files, events, capacity=40_000)
    for batch in (1, 100):
        opened = files.open(filter_id)
        assert (opened.capacity, opened.count) == (40_000, 30_000)
        for first in range(0, len(events), batch):
            assert not opened.split_known(events[first : first + batch])[1]
    writable = files.open(filter_id, is_writable=True)
    for event in later[:100]:
        writable.add([event])
    writable.add(later)
    assert writable.split_known(events + later) == (events + later, [])
    again = files.open(files.write(writable.copy()))
    assert again.split_known(events + later) == (events + later, [])
    assert len(files.open(filter_id).split_known(later)[0]) < 100, "adding changed the file"


@pytest.mark.parametrize("batch", [1, 500])
def test_damaged_block_is_noticed_before_it_is_used(tmp_path: Path, batch: int) -> None:
    files, events, chance = FilterFiles(tmp_path / "a.duckdb"), make_events(5_000), random.Random(4)
    filter_id = write_filter(files, events)
    path = files.get_path(filter_id)
    content = path.read_bytes()
    for _ in range(60):
        position = chance.randrange(len(content))
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 1 << chance.randrange(8)]) + content[position + 1 :]
        )
        with pytest.raises(FilterDamaged):
            opened = files.open(filter_id)
            for first in range(0, len(events), batch):
                opened.split_known(events[first : first + batch])
                assert not opened.split_known(events[first : first + batch])[1], "a known event was taken for a new one"
        with pytest.raises(FilterDamaged):
            writable = files.open(filter_id, is_writable=True)
            for first in range(0, len(events), batch):
                writable.add(events[first : first + batch])
        with pytest.raises(FilterDamaged):
            files.write(files.open(filter_id, is_writable=True).copy())


def test_truncated_swapped_and_missing_files_are_not_opened(tmp_path: Path) -> None:
    files = FilterFiles(tmp_path / "a.duckdb")
    first_id, second_id = write_filter(files, make_events(100)), write_filter(files, make_events(100, seed=1))
    content = files.get_path(first_id).read_bytes()
    wrong_contents = [content[:size] for size in range(0, len(content), 7)]
    wrong_contents += [content + b"\0", content[8:], files.get_path(second_id).read_bytes()]
    for wrong_content in wrong_contents:
        files.get_path(first_id).write_bytes(wrong_content)
        with pytest.raises(FilterDamaged):
            files.open(first_id)
    files.get_path(first_id).unlink()
    with pytest.raises(FilterDamaged):
        files.open(first_id)


def test_only_listed_files_stay_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    files = FilterFiles(path)
    files.delete_others()
    kept_id, _ = write_filter(files, make_events(10)), write_filter(files, make_events(10))
    (get_filter_folder(path) / "unfinished").touch()
    files.delete_others(kept_id)
    assert list(get_filter_folder(path).iterdir()) == [files.get_path(kept_id)]
    assert get_filter_folder(path).stat().st_mode & 0o777 == 0o700
    assert files.get_path(kept_id).stat().st_mode & 0o777 == 0o600
