"""Address ranges that operators publish for their agents: read from a file, so that they work without a network."""

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
"""No operator owns more: a list that claims the whole internet is a mistake or an attack."""


class InvalidRangeList(ValueError):
    message = "This is not a list of address ranges as operators publish them."

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class RangeList:
    """One published list: whose, where it is published, when it was last fetched."""

    name: str
    agent: str
    operator: str
    kind: VisitorClass
    source: str
    fetched: str
    prefixes: tuple[str, ...]
    page: bool = False
    """The source is a page for people, from which no program can refresh the list."""


class IpRanges:
    """All lists at once. Where lists overlap, the narrower network decides, then the earlier list."""

    def __init__(self, lists: Iterable[RangeList] = ()) -> None:
        self.lists = tuple(lists)
        self._networks = NetworkTable(
            (prefix, range_list) for range_list in self.lists for prefix in range_list.prefixes
        )

    def get(self, address: bytes) -> RangeList | None:
        return self._networks.get(address)


def parse_range_lists(text: str) -> tuple[RangeList, ...]:
    """The lists of a file that `written` made. NotAList where it is none."""
    try:
        return tuple(_parse_list(data) for data in json.loads(text)["lists"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidRangeList from error


def format_range_lists(lists: Iterable[RangeList]) -> str:
    return json.dumps({"lists": [asdict(range_list) for range_list in lists]}, indent=1) + "\n"


def refresh_list(range_list: RangeList, published: bytes, today: str) -> RangeList:
    """The list with what its operator publishes now; NotAList leaves the caller with the old one."""
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
    """The lists that Copydesk ships with."""
    return parse_range_lists(files("copydesk.analytics.classification").joinpath("ip_ranges.json").read_text("utf-8"))


def load_current_lists(path: Path) -> tuple[RangeList, ...]:
    """The lists that hold: those of the file where they are newer, and what ships where it is missing or damaged."""
    if not path.exists():
        return load_shipped_lists()
    try:
        return merge_with_shipped(parse_range_lists(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        log.warning("%s is not used: %s", path, error)
        return load_shipped_lists()


def merge_with_shipped(saved: Iterable[RangeList]) -> tuple[RangeList, ...]:
    """The lists that ship, each as it was kept if that is not older: a new release may bring lists, and newer ones."""
    saved_by_name = {listed.name: listed for listed in saved}
    return tuple(
        max(listed, saved_by_name.get(listed.name, listed), key=lambda one: one.fetched)
        for listed in load_shipped_lists()
    )


def _extract_prefixes(published: Mapping[str, Any]) -> Iterator[str]:
    """Google's form, which all but Ahrefs use: {"prefixes": [{"ipv4Prefix": …} or {"ipv6Prefix": …}]}."""
    for entry in published.get("prefixes") or published["ips"]:
        yield entry.get("ipv4Prefix") or entry.get("ipv6Prefix") or entry["ip_address"]


def _parse_list(data: dict[str, Any]) -> RangeList:
    prefixes = tuple(_validate_prefix(prefix) for prefix in data.pop("prefixes"))
    return RangeList(**{**data, "kind": VisitorClass(data["kind"]), "prefixes": prefixes})


def _validate_prefix(prefix: str) -> str:
    network = ip_network(prefix, strict=False)
    if network.prefixlen < MIN_PREFIX_BITS[network.version]:
        raise ValueError(f"{prefix} is too wide to be one operator's.")
    return prefix
