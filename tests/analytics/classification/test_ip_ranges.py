"""Published address ranges: read from a file, refreshed from operators' lists, and validated."""

import json
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.classification.ip_ranges import (
    InvalidRangeList,
    IpRanges,
    RangeList,
    format_range_lists,
    load_shipped_lists,
    merge_with_shipped,
    parse_range_lists,
    refresh_list,
)
from copydesk.analytics.page_view import VisitorClass

LIST = RangeList(
    "bot", "Bot", "Example", VisitorClass.SEARCH, "https://example.com/bot.json", "2026-01-01", ("192.0.2.0/24",)
)


def encode_published_list(*prefixes: str) -> bytes:
    entries = [{"ipv6Prefix" if ":" in prefix else "ipv4Prefix": prefix} for prefix in prefixes]
    return json.dumps({"creationTime": "2026-11-01T00:00:00", "prefixes": entries}).encode()


def test_every_bundled_list_has_operator_source_and_date() -> None:
    assert {listed.operator for listed in load_shipped_lists()} >= {
        "OpenAI",
        "Anthropic",
        "Perplexity",
        "Google",
        "Microsoft",
        "Apple",
    }
    for listed in load_shipped_lists():
        assert listed.source.startswith("https://")
        assert "2026-" in listed.fetched
        assert listed.prefixes


def test_no_bundled_list_contains_a_wide_network() -> None:
    narrow = {4: 16, 6: 40}
    for listed in load_shipped_lists():
        assert all(
            ip_network(p, strict=False).prefixlen >= narrow[ip_network(p, strict=False).version]
            for p in listed.prefixes
        )


def test_an_address_is_found_in_its_list() -> None:
    found = IpRanges(load_shipped_lists()).get(ip_address("160.79.104.10").packed)
    assert found
    assert (found.operator, found.kind) == ("Anthropic", VisitorClass.ASSISTANT)
    assert IpRanges(load_shipped_lists()).get(ip_address("203.0.113.9").packed) is None
    assert IpRanges().get(ip_address("160.79.104.10").packed) is None


def test_written_lists_are_read_back() -> None:
    assert parse_range_lists(format_range_lists(load_shipped_lists())) == load_shipped_lists()


def test_list_is_refreshed_from_its_operators_file() -> None:
    fresh = refresh_list(LIST, encode_published_list("198.51.100.0/28", "2001:db8::/48"), "2026-11-15")
    assert (fresh.prefixes, fresh.fetched) == (("198.51.100.0/28", "2001:db8::/48"), "2026-11-15")
    assert (fresh.name, fresh.kind) == (LIST.name, LIST.kind)


def test_list_published_only_as_html_page_is_not_refreshed() -> None:
    told = replace(LIST, page=True)
    assert refresh_list(told, b"<html>", "2026-11-15") == told
    assert [listed.name for listed in load_shipped_lists() if listed.page] == ["anthropic-outbound"]


def test_newer_bundled_lists_replace_older_stored_ones() -> None:
    first, second, *others = load_shipped_lists()
    fresh, stale = replace(first, fetched="2999-01-01"), replace(second, fetched="2020-01-01", prefixes=())
    retired = replace(LIST, name="retired")
    assert merge_with_shipped((stale, retired, fresh)) == (fresh, second, *others)


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"<html>", b"[]", b"{}", b"\xff", b"[" * 100_000),
        *(b'{"prefixes": []}', b'{"prefixes": [{}]}', b'{"prefixes": "0.0.0.0/0"}'),
        *map(encode_published_list, ("0.0.0.0/0", "::/0", "10.0.0.0/8", "nonsense", "198.51.100.0/99")),
    ],
)
def test_malformed_list_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidRangeList, match="not a list of address ranges"):
        refresh_list(LIST, payload, "2026-11-15")


@given(st.binary() | st.text().map(lambda text: json.dumps({"prefixes": [text]}).encode()))
def test_no_payload_raises_an_unexpected_error(payload: bytes) -> None:
    with pytest.raises(InvalidRangeList):
        refresh_list(LIST, payload, "2026-11-15")


@given(st.text())
def test_no_file_content_raises_an_unexpected_error(text: str) -> None:
    with pytest.raises(InvalidRangeList):
        parse_range_lists(text)
