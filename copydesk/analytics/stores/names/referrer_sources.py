"""Where visitors come from: the kind of a referring host, by the table in `referrers.toml`."""

import tomllib
from enum import IntEnum
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

MAX_CACHED_HOSTS = 1 << 14


class SourceKind(IntEnum):
    """The kinds of sources. The numbers are stored and never change."""

    AI = 1
    SEARCH = 2
    SOCIAL = 3
    SITE = 4
    DIRECT = 5


class Source(NamedTuple):
    """Where a view came from: the host of the referring page without `www.`, "" if there was none (`DIRECT`)."""

    kind: SourceKind
    host: str


DIRECT_SOURCE = Source(SourceKind.DIRECT, "")


@lru_cache(maxsize=MAX_CACHED_HOSTS)
def find_source(host: str, referrer: str) -> Source | None:
    """Returns the source of a view of a page on this host, or None if the visitor came from another page of the same
    host, which is no arrival.

    `www.example.com` and `example.com` are the same host. If the page's host is unknown (""), all referrers are
    sources.
    """
    if not referrer:
        return DIRECT_SOURCE
    source_host = _strip_www(referrer)
    if source_host == _strip_www(host):
        return None
    return Source(find_source_kind(source_host), source_host)


def find_source_kind(host: str) -> SourceKind:
    """Returns the kind of a referring host: by its longest domain in the table, and SITE for all others."""
    kinds = _load_kinds()
    name, *rest = labels = host.split(".")
    if 1 <= len(rest) <= 2 and (kind := kinds.get(f"{name}.*")):
        return kind
    for start in range(len(labels)):
        if kind := kinds.get(".".join(labels[start:])):
            return kind
    return SourceKind.SITE


def _strip_www(host: str) -> str:
    return host.lower().removeprefix("www.")


@cache
def _load_kinds() -> dict[str, SourceKind]:
    text = files("copydesk.analytics.stores.names").joinpath("referrers.toml").read_text("utf-8")
    return {domain: SourceKind[kind.upper()] for kind, domains in tomllib.loads(text).items() for domain in domains}
