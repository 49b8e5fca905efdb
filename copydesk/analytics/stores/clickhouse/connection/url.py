"""Where ClickHouse is: clickhouse://user:password@host:8123/database?secure=1&cluster=name."""

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
        """Another server of the same cluster: same port, same user."""
        return replace(self, host=host, database=database)


def parse_clickhouse_url(url: str) -> ClickHouseAddress:
    """A ValueError says what is wrong, without repeating what may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number") from None
    if parts.scheme != "clickhouse" or not parts.hostname:
        raise ValueError("must begin with clickhouse://, followed by a host")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - URL_OPTIONS:
        raise ValueError(f"knows the options {' and '.join(sorted(URL_OPTIONS))}, not {', '.join(sorted(unknown))}")
    database, cluster = unquote(parts.path.lstrip("/")) or "copydesk", options.get("cluster", "")
    for name in filter(None, (database, cluster)):
        if not IDENTIFIER_PATTERN.fullmatch(name):
            raise ValueError("a database or cluster is named with letters, digits and underscores")
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
