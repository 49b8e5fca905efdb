"""Visitor ids and their lifetime."""

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.ingest.visitor_ids import Rotation, VisitorHasher, rotation_period
from copydesk.core.clock import DAY

HOME, OFFICE = ip_address("203.0.113.9").packed, ip_address("198.51.100.1").packed
SECRET = b"a secret of the project"
KEY = VisitorHasher("prj_1", SECRET)
AT = 1_794_700_800_000  # 2026-11-15


def test_site_visitor_id_identifies_the_visitor_from_any_address() -> None:
    assert KEY.hash_visitor(AT, "ada", HOME, "Firefox") == KEY.hash_visitor(AT + 400 * DAY, "ada", OFFICE, "Safari")
    assert KEY.hash_visitor(AT, "ada", HOME, "Firefox") != KEY.hash_visitor(AT, "bob", HOME, "Firefox")


def test_address_and_agent_identify_the_visitor_without_an_id() -> None:
    ada = KEY.hash_visitor(AT, None, HOME, "Firefox")
    assert ada == KEY.hash_visitor(AT + 400 * DAY, None, HOME, "Firefox")
    assert len({ada, KEY.hash_visitor(AT, None, OFFICE, "Firefox"), KEY.hash_visitor(AT, None, HOME, "Safari")}) == 3


def test_no_visitor_without_id_and_address() -> None:
    assert KEY.hash_visitor(AT, None, None, "Firefox") is None
    assert KEY.hash_visitor(AT, "", None, "Firefox") is None


def test_visitor_id_equal_to_an_address_is_another_visitor() -> None:
    assert KEY.hash_visitor(AT, "203.0.113.9", None, None) != KEY.hash_visitor(AT, None, HOME, "")


def test_ipv6_addresses_of_one_network_are_one_visitor() -> None:
    first, second, next_door = (
        ip_address(text).packed for text in ("2001:db8:1:2:aaaa::1", "2001:db8:1:2:bbbb::9", "2001:db8:1:3:aaaa::1")
    )
    assert KEY.hash_visitor(AT, None, first, "Firefox") == KEY.hash_visitor(AT, None, second, "Firefox")
    assert KEY.hash_visitor(AT, None, first, "Firefox") != KEY.hash_visitor(AT, None, next_door, "Firefox")


def test_projects_and_secrets_do_not_share_visitors() -> None:
    keys = (KEY, VisitorHasher("prj_2", SECRET), VisitorHasher("prj_1", b"another"))
    assert len({key.hash_visitor(AT, "ada", None, None) for key in keys}) == 3


def test_rotated_key_does_not_recognize_earlier_visitors() -> None:
    daily, monthly = VisitorHasher("prj_1", SECRET, Rotation.DAILY), VisitorHasher("prj_1", SECRET, Rotation.MONTHLY)
    assert daily.hash_visitor(AT, "ada", None, None) == daily.hash_visitor(AT + DAY - 1, "ada", None, None)
    assert daily.hash_visitor(AT, "ada", None, None) != daily.hash_visitor(AT + DAY, "ada", None, None)
    assert monthly.hash_visitor(AT, "ada", None, None) == monthly.hash_visitor(AT + 10 * DAY, "ada", None, None)
    assert monthly.hash_visitor(AT, "ada", None, None) != monthly.hash_visitor(AT + 16 * DAY, "ada", None, None)
    assert len({key.hash_visitor(AT, "ada", None, None) for key in (KEY, daily, monthly)}) == 3


def test_late_view_uses_the_key_of_its_own_period() -> None:
    day = AT // DAY
    assert [rotation_period(rotation, day) for rotation in Rotation] == ["", "2026-11-15", "2026-11"]


def test_event_ids_are_stable_across_rotations_but_differ_by_project() -> None:
    daily = VisitorHasher("prj_1", SECRET, Rotation.DAILY)
    assert daily.hash_event("e1") == KEY.hash_event("e1") != VisitorHasher("prj_2", SECRET).hash_event("e1")
    assert KEY.hash_event("e1") < 2**128


@given(
    st.integers(0, 2**45), st.none() | st.text(), st.none() | st.binary(min_size=4, max_size=4), st.none() | st.text()
)
def test_a_visitor_is_64_bits_and_never_zero(
    at: int, name: str | None, address: bytes | None, agent: str | None
) -> None:
    visitor = KEY.hash_visitor(at, name, address, agent)
    assert visitor is None or 0 < visitor < 2**63


def test_one_changed_letter_flips_half_of_the_bits() -> None:
    """Checks that keys are spread evenly; the collision figures of the documentation depend on it."""
    changed = [
        (
            (KEY.hash_visitor(AT, f"v{n}", None, None) or 0) ^ (KEY.hash_visitor(AT, f"w{n}", None, None) or 0)
        ).bit_count()
        for n in range(500)
    ]
    assert 31 < sum(changed) / 500 < 33
