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

from copydesk.analytics.ip_addresses import Networks
from copydesk.analytics.page_view import Class

log = logging.getLogger(__name__)

WIDEST = {4: 12, 6: 28}
"""No operator owns more: a list that claims the whole internet is a mistake or an attack."""


class NotAList(ValueError):
    message = "This is not a list of address ranges as operators publish them."

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class Listed:
    """One published list: whose, where it is published, when it was last fetched."""

    name: str
    agent: str
    operator: str
    kind: Class
    source: str
    fetched: str
    prefixes: tuple[str, ...]
    page: bool = False
    """The source is a page for people, from which no program can refresh the list."""


class Ranges:
    """All lists at once. Where lists overlap, the narrower network decides, then the earlier list."""

    def __init__(self, lists: Iterable[Listed] = ()) -> None:
        self.lists = tuple(lists)
        self._networks = Networks((prefix, listed) for listed in self.lists for prefix in listed.prefixes)

    def get(self, address: bytes) -> Listed | None:
        return self._networks.get(address)


def read(text: str) -> tuple[Listed, ...]:
    """The lists of a file that `written` made. NotAList where it is none."""
    try:
        return tuple(_listed(told) for told in json.loads(text)["lists"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise NotAList from fault


def written(lists: Iterable[Listed]) -> str:
    return json.dumps({"lists": [asdict(listed) for listed in lists]}, indent=1) + "\n"


def refreshed(listed: Listed, published: bytes, today: str) -> Listed:
    """The list with what its operator publishes now; NotAList leaves the caller with the old one."""
    if listed.page:
        return listed
    try:
        prefixes = tuple(sorted(set(_prefixes(json.loads(published)))))
        for prefix in prefixes:
            _checked(prefix)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise NotAList from fault
    if not prefixes:
        raise NotAList
    return replace(listed, prefixes=prefixes, fetched=today)


@cache
def shipped() -> tuple[Listed, ...]:
    """The lists that Copydesk ships with."""
    return read(files("copydesk.analytics.classification").joinpath("ip_ranges.json").read_text("utf-8"))


def current(file: Path) -> tuple[Listed, ...]:
    """The lists that hold: those of the file where they are newer, and what ships where it is missing or damaged."""
    if not file.exists():
        return shipped()
    try:
        return newest(read(file.read_text("utf-8")))
    except (OSError, ValueError) as fault:
        log.warning("%s is not used: %s", file, fault)
        return shipped()


def newest(kept: Iterable[Listed]) -> tuple[Listed, ...]:
    """The lists that ship, each as it was kept if that is not older: a new release may bring lists, and newer ones."""
    known = {listed.name: listed for listed in kept}
    return tuple(max(listed, known.get(listed.name, listed), key=lambda one: one.fetched) for listed in shipped())


def _prefixes(published: Mapping[str, Any]) -> Iterator[str]:
    """Google's form, which all but Ahrefs use: {"prefixes": [{"ipv4Prefix": …} or {"ipv6Prefix": …}]}."""
    for entry in published.get("prefixes") or published["ips"]:
        yield entry.get("ipv4Prefix") or entry.get("ipv6Prefix") or entry["ip_address"]


def _listed(told: dict[str, Any]) -> Listed:
    prefixes = tuple(_checked(prefix) for prefix in told.pop("prefixes"))
    return Listed(**{**told, "kind": Class(told["kind"]), "prefixes": prefixes})


def _checked(prefix: str) -> str:
    network = ip_network(prefix, strict=False)
    if network.prefixlen < WIDEST[network.version]:
        raise ValueError(f"{prefix} is too wide to be one operator's.")
    return prefix
