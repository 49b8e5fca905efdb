"""Events from servers: every invalid event has a drop reason, and none is an error."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS
from copydesk.analytics.ingest import raw_view as event
from copydesk.analytics.ingest.event_schema import validate_event
from copydesk.analytics.ingest.pipeline import run_pipeline
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, parse_timestamp
from copydesk.analytics.page_view import DROP_MESSAGES, Dropped, DropReason, PageView
from copydesk.core.clock import DAY

NOW = 1_794_700_800_000  # 2026-11-15T00:00:00Z


def parse_event(sent: object, site: SiteConfig, now: int) -> RawView | Dropped:
    found = validate_event(sent)
    return found if isinstance(found, Dropped) else event.raw_view_from_event(found, site, now)


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        ("2026-11-14T23:00:00Z", NOW - 3_600_000),
        ("2026-11-14T23:00:00.250+00:00", NOW - 3_599_750),
        ("2026-11-15T01:00:00+02:00", NOW - 3_600_000),
        ("2026-11-14T23:00:00", NOW - 3_600_000),
        ("2026-11-14", NOW - DAY),
        ("20261114T230000Z", NOW - 3_600_000),
        (1_794_700_800, NOW),
        (1_794_700_800.5, NOW + 500),
        (1_794_700_800_000, NOW),
        (1_794_700_800_000_000, NOW),
        (1_794_700_800_000_000_000, NOW),
        ("1794700800", NOW),
        ("1794700800.25", NOW + 250),
        ("2003-02-01T00:00:00Z", 1_044_057_600_000),
        ("2026-11-15T23:59:00Z", NOW + DAY - 60_000),
    ],
)
def test_timestamp_is_parsed_in_every_usual_format(timestamp: object, at: int) -> None:
    assert parse_timestamp(timestamp, NOW) == at


@pytest.mark.parametrize(
    ("timestamp", "reason"),
    [
        ("2026-11-16T00:00:01Z", DropReason.TIMESTAMP_IN_FUTURE),
        ("9999-12-31T23:59:59-23:59", DropReason.TIMESTAMP_IN_FUTURE),
        (0, DropReason.TIMESTAMP_TOO_OLD),
        ("1999-12-31T23:59:59Z", DropReason.TIMESTAMP_TOO_OLD),
        ("0001-01-01T00:00:00+23:59", DropReason.TIMESTAMP_TOO_OLD),
        ("yesterday", DropReason.BAD_TIMESTAMP),
        ("", DropReason.BAD_TIMESTAMP),
        ("²", DropReason.BAD_TIMESTAMP),
        ("9" * 5000, DropReason.BAD_TIMESTAMP),
        (True, DropReason.BAD_TIMESTAMP),
        (float("nan"), DropReason.BAD_TIMESTAMP),
        (float("inf"), DropReason.BAD_TIMESTAMP),
        (-1, DropReason.BAD_TIMESTAMP),
        (10**400, DropReason.BAD_TIMESTAMP),
        ([], DropReason.BAD_TIMESTAMP),
    ],
)
def test_impossible_timestamp_is_refused_with_a_reason(timestamp: object, reason: DropReason) -> None:
    assert parse_timestamp(timestamp, NOW) == Dropped(reason, "timestamp")


def test_only_the_path_of_an_event_is_required(site: SiteConfig) -> None:
    raw = parse_event({"path": "/a"}, site, NOW)
    assert isinstance(raw, RawView)
    assert (raw.url, raw.at, raw.method, raw.status) == ("/a", NOW, "GET", 200)


@pytest.mark.parametrize("sent", [None, [], "x", 3, {}, {"path": ""}, {"url": None}])
def test_malformed_event_is_refused(sent: object, site: SiteConfig) -> None:
    dropped = parse_event(sent, site, NOW)
    assert isinstance(dropped, Dropped)
    assert dropped.reason in (DropReason.NOT_AN_EVENT, DropReason.NO_PATH)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "200"),
        ("status", True),
        ("userAgent", 7),
        ("ip", 1),
        ("visitorId", "x" * 257),
        ("eventId", {}),
        ("method", []),
    ],
)
def test_field_of_wrong_type_is_named(field: str, value: object, site: SiteConfig) -> None:
    assert parse_event({"path": "/a", field: value}, site, NOW) == Dropped(DropReason.BAD_FIELD, field)


def test_long_user_agent_is_truncated_and_numeric_id_is_accepted(site: SiteConfig) -> None:
    raw = parse_event({"path": "/a", "userAgent": "x" * 5000, "visitorId": 7}, site, NOW)
    assert isinstance(raw, RawView)
    assert (len(raw.user_agent or ""), raw.visitor_id) == (MAX_AGENT_CHARS, "7")


def test_every_drop_reason_has_a_message_and_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/ai-traffic.md").read_text("utf-8")
    assert [reason for reason in DropReason if f"`{reason}`" not in page] == []
    assert set(DROP_MESSAGES) == set(DropReason)
    assert all(sentence.endswith(".") for sentence in DROP_MESSAGES.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELD = st.sampled_from(
    "url path timestamp userAgent ip referrer method status accept visitorId eventId".split()  # noqa: SIM905
)


@pytest.mark.deep
@given(st.dictionaries(FIELD, JSON | st.text(), max_size=11))
def test_any_event_becomes_a_view_or_a_drop_reason(site: SiteConfig, sent: dict[str, Any]) -> None:
    raw = parse_event(sent, site, NOW)
    outcome = run_pipeline(raw) if isinstance(raw, RawView) else raw
    assert isinstance(outcome, PageView | Dropped)
    if isinstance(outcome, PageView):
        assert outcome.visitor is None or 0 < outcome.visitor < 2**63
        json.dumps([outcome.path, outcome.agent, outcome.rule])
