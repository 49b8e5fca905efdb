"""Files of any size and state are read as far as possible, line by line, in little memory."""

import gzip
import io
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.log_import.log_files import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    FileNotReadable,
    LogFile,
    TextBlock,
    open_log_file,
)


def read_blocks(data: bytes) -> tuple[list[TextBlock], str]:
    log = LogFile("a.log", io.BytesIO(data))
    return list(log.read_blocks()), log.read_error


def read_lines(data: bytes) -> list[str]:
    return [line for block in read_blocks(data)[0] for line in block.text.split("\n")]


def test_lines_are_complete_across_block_boundaries() -> None:
    written = [f"{number} {'x' * (number % 3000)}" for number in range(2600)]
    data = "\n".join(written).encode() + b"\n"
    assert len(data) > 3 * BLOCK_BYTES
    assert read_lines(data) == written
    assert read_lines(gzip.compress(data)) == written


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line and b"\r" not in line), min_size=1))
def test_lines_are_read_without_losing_bytes(written: list[bytes]) -> None:
    data = b"\n".join(written) + b"\n"
    assert [line.encode("utf-8", "surrogateescape") for line in read_lines(b"x\n" + data)] == [b"x", *written]


def test_crlf_line_endings_are_removed() -> None:
    assert read_lines(b"a\r\nb\r\n") == ["a", "b"]


def test_unterminated_last_line_is_marked() -> None:
    assert read_blocks(b"a\nb")[0] == [TextBlock("a", ended=True), TextBlock("b", ended=False)]
    assert read_blocks(b"a\n")[0] == [TextBlock("a", ended=True)]
    assert read_blocks(b"")[0] == []


def test_concatenated_gzip_members_are_one_log() -> None:
    data = gzip.compress(b"a\nb") + gzip.compress(b"c\n") + gzip.compress(b"") + gzip.compress(b"d\n") + bytes(512)
    assert read_lines(data) == ["a", "bc", "d"]
    assert read_blocks(data)[1] == ""


@pytest.mark.parametrize("cut", [1, 5, 9, 200, 5_000])
def test_readable_part_of_a_truncated_gzip_file_is_read(cut: int) -> None:
    whole = b"".join(b"%d %d\n" % (number, zlib.crc32(b"%d" % number)) for number in range(5000))
    blocks, fault = read_blocks(gzip.compress(whole)[:-cut])
    text = "\n".join(block.text for block in blocks)
    assert whole.decode().startswith(text)
    assert len(text) > len(whole) - 20 * cut - 20
    assert fault == "the gzip data is incomplete"


def test_a_damaged_gzip_file_is_read_up_to_the_damage() -> None:
    data = bytearray(gzip.compress(b"a\n") + gzip.compress(b"b\n" * 5000))
    data[40] ^= 255
    blocks, fault = read_blocks(bytes(data))
    assert blocks[0] == TextBlock("a", ended=True)
    assert fault == "the gzip data is damaged"
    assert read_blocks(gzip.compress(b"a\n") + b"garbage")[1] == "the gzip data is damaged"


@given(st.binary(max_size=300))
def test_no_bytes_after_a_gzip_header_raise(data: bytes) -> None:
    read_blocks(b"\x1f\x8b" + data)
    read_blocks(gzip.compress(b"a\n") + data)


@pytest.mark.deep
def test_memory_is_bounded_for_long_lines_and_gzip_bombs() -> None:
    bomb = gzip.compress(bytes(60 * BLOCK_BYTES), 9)
    tracemalloc.start()
    blocks, _ = read_blocks(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(block.text) for block in blocks] == [MAX_LINE_BYTES]
    assert peak < 8 * BLOCK_BYTES


@pytest.mark.parametrize("magic", [b"BZh91AY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1"])
def test_other_archives_are_refused_by_name(magic: bytes) -> None:
    with pytest.raises(FileNotReadable, match="Decompress it first"):
        read_blocks(magic + bytes(20))


def test_unreadable_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for name, why in ((tmp_path / "none.log", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(FileNotReadable, match=why), open_log_file(str(name)):
            pass
