"""IP ranges that operators publish for their agents. They are read from a file, so no network is needed."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from copydesk.analytics.ip_addresses import NetworkTable
from copydesk.analytics.page_view import VisitorClass

log = logging.getLogger(__name__)

MIN_PREFIX_BITS = {4: 12, 6: 28}
"""The shortest accepted prefixes, by IP version. No operator owns larger networks; a list with one is a mistake or an
attack."""


class InvalidRangeList(ValueError):
    message = "This is not a list of address ranges in a known format."

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class RangeList:
    """A published list of IP ranges: its operator, its source and when it was last fetched."""

    name: str
    agent: str
    operator: str
    kind: VisitorClass
    source: str
    fetched: str
    prefixes: tuple[str, ...]
    page: bool = False
    """True if the source is a web page for people, so that the list cannot be refreshed automatically."""


class IpRanges:
    """All lists combined. If lists overlap, the narrower network decides, then the earlier list."""

    def __init__(self, lists: Iterable[RangeList] = ()) -> None:
        self.lists = tuple(lists)
        self._networks = NetworkTable(
            (prefix, range_list) for range_list in self.lists for prefix in range_list.prefixes
        )

    def get(self, address: bytes) -> RangeList | None:
        return self._networks.get(address)


def parse_range_lists(text: str) -> tuple[RangeList, ...]:
    """Parses a file that `format_range_lists` wrote. Raises InvalidRangeList if it is malformed."""
    try:
        return tuple(_parse_list(data) for data in json.loads(text)["lists"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidRangeList from error


def format_range_lists(lists: Iterable[RangeList]) -> str:
    return json.dumps({"lists": [asdict(range_list) for range_list in lists]}, indent=1) + "\n"


def refresh_list(range_list: RangeList, published: bytes, today: str) -> RangeList:
    """Returns the list with the prefixes that its operator publishes now.

    Raises InvalidRangeList if they are malformed; the caller then keeps the old list.
    """
    if range_list.page:
        return range_list
    try:
        prefixes = tuple(sorted(set(_extract_prefixes(json.loads(published)))))
        for prefix in prefixes:
            _validate_prefix(prefix)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidRangeList from error
    if not prefixes:
        raise InvalidRangeList
    return replace(range_list, prefixes=prefixes, fetched=today)


@cache
def load_shipped_lists() -> tuple[RangeList, ...]:
    """Returns the lists that Copydesk ships with."""
    return parse_range_lists(files("copydesk.analytics.classification").joinpath("ip_ranges.json").read_text("utf-8"))


def load_current_lists(path: Path) -> tuple[RangeList, ...]:
    """Returns the lists that apply: of each list the newer of the file's and the shipped version.

    If the file is missing or damaged, the shipped lists apply.
    """
    if not path.exists():
        return load_shipped_lists()
    try:
        return merge_with_shipped(parse_range_lists(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        log.warning("ignoring %s, using the IP ranges that Copydesk ships with: %s", path, error)
        return load_shipped_lists()


def merge_with_shipped(saved: Iterable[RangeList]) -> tuple[RangeList, ...]:
    """Returns the shipped lists, each replaced by its saved version if that is newer. A new release may add lists and
    update others."""
    saved_by_name = {listed.name: listed for listed in saved}
    return tuple(
        max(listed, saved_by_name.get(listed.name, listed), key=lambda one: one.fetched)
        for listed in load_shipped_lists()
    )


def _extract_prefixes(published: Mapping[str, Any]) -> Iterator[str]:
    """Yields the prefixes of a published list. All operators but Ahrefs use Google's format:
    {"prefixes": [{"ipv4Prefix": …} or {"ipv6Prefix": …}]}."""
    for entry in published.get("prefixes") or published["ips"]:
        yield entry.get("ipv4Prefix") or entry.get("ipv6Prefix") or entry["ip_address"]


def _parse_list(data: dict[str, Any]) -> RangeList:
    prefixes = tuple(_validate_prefix(prefix) for prefix in data.pop("prefixes"))
    return RangeList(**{**data, "kind": VisitorClass(data["kind"]), "prefixes": prefixes})


def _validate_prefix(prefix: str) -> str:
    network = ip_network(prefix, strict=False)
    if network.prefixlen < MIN_PREFIX_BITS[network.version]:
        raise ValueError(f"{prefix} is too large: no operator owns such a network.")
    return prefix
