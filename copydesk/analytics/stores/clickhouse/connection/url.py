"""Parses URLs of ClickHouse: clickhouse://user:password@host:8123/database?secure=1&cluster=name."""

import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, unquote, urlsplit

IDENTIFIER_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
URL_OPTIONS = {"secure", "cluster"}
DEFAULT_PORT, DEFAULT_SECURE_PORT = 8123, 8443


@dataclass(frozen=True)
class ClickHouseAddress:
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    secure: bool = False
    cluster: str = ""

    def with_host(self, host: str, database: str) -> "ClickHouseAddress":
        """Returns the address of another server of the cluster, with the same port and user."""
        return replace(self, host=host, database=database)


def parse_clickhouse_url(url: str) -> ClickHouseAddress:
    """Parses a URL. The message of a ValueError never contains parts of the URL that may contain a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number") from None
    if parts.scheme != "clickhouse" or not parts.hostname:
        raise ValueError("must start with clickhouse://, followed by a host")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - URL_OPTIONS:
        raise ValueError(
            f"unknown option {', '.join(sorted(unknown))}; the options are {' and '.join(sorted(URL_OPTIONS))}"
        )
    database = unquote(parts.path.lstrip("/")) or "copydesk"
    cluster = options.get("cluster", "")
    for name in filter(None, (database, cluster)):
        if not IDENTIFIER_PATTERN.fullmatch(name):
            raise ValueError("the name of a database or cluster can have only letters, digits and underscores")
    secure = options.get("secure", "").lower() in ("1", "true", "yes")
    return ClickHouseAddress(
        parts.hostname,
        port or (DEFAULT_SECURE_PORT if secure else DEFAULT_PORT),
        unquote(parts.username or "default"),
        unquote(parts.password or ""),
        database,
        secure,
        cluster,
    )
