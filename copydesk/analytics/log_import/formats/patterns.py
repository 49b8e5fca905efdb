"""Text logs of load balancers, proxies and CDNs, each with a pattern that a line must match completely."""

import re
from collections.abc import Callable, Iterator

from copydesk.analytics.log_import.formats.json_lines import line_from_fields
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine, unescape
from copydesk.analytics.page_view import Dropped

Fields = dict[str, str]
QUOTED = r'"(?:[^"\\]|\\.)*+"'
ELB_FIELDS = (
    r"(?P<when>\S+Z) (?P<balancer>\S+) (?P<address>\S+) \S+ (?:-?[\d.]+|-) (?:-?[\d.]+|-) (?:-?[\d.]+|-) "
    r'(?P<status>\d{3}) (?:\d{3}|-) \d+ \d+ "(?P<request>[^"]*)" "(?P<agent>(?:[^"\\]|\\.)*+)" \S+ \S+'
)
ALB_PATTERN = re.compile(rf'(?:https?|h2|grpcs?|wss?) {ELB_FIELDS} \S+ {QUOTED} "(?P<host>[^"]*)" {QUOTED} \S+ \S+ .*')
"""Application load balancers of AWS. Later versions add fields at the end."""
CLASSIC_ELB_PATTERN = re.compile(ELB_FIELDS)
S3_PATTERN = re.compile(
    r"[0-9a-f]{16,}+ (?P<bucket>\S+) \[(?P<when>[^\]]{19,40})\] (?P<address>\S+) \S+ \S+ "
    r'(?P<operation>[A-Z.\d_]+) (?P<key>\S+) (?:"(?P<request>[^"]*)"|-) (?P<status>\d{3}|-) \S+ \S+ \S+ \S+ \S+ '
    r'(?:"(?P<referrer>(?:[^"\\]|\\.)*+)"|-) (?:"(?P<agent>(?:[^"\\]|\\.)*+)"|-)(?: \S+)*'
)
"""Later versions add fields at the end; the first had none after the user agent."""
ENVOY_TAIL = (
    r'"(?P<address>[^"]*)" "(?P<agent>(?:[^"\\]|\\.)*+)" "[^"]*" "(?P<host>[^"]*)" (?:"[^"]*"|\S+)(?P<more>(?: \S+)*)'
)
ENVOY_START = r'\[(?P<when>[^\]]{19,40})\] "(?P<request>[^"]*)" (?P<status>\d{1,3}) \S+ '
ENVOY_PATTERN = re.compile(rf"{ENVOY_START}\d+ \d+ \d+ \S+ {ENVOY_TAIL}")
ISTIO_PATTERN = re.compile(rf"{ENVOY_START}\S+ \S+ {QUOTED} \d+ \d+ \d+ \S+ {ENVOY_TAIL}")
"""Istio adds the details of the response, and at the end the addresses of the connections."""
BUNNY_PATTERN = re.compile(
    r"[A-Z_]+\|(?P<status>\d{3})\|(?P<when>\d{10,13})\|\d+\|\d+\|(?P<address>[^|]+)\|(?P<referrer>[^|]*)"
    r"\|(?P<url>[^|]*)\|[^|]*\|(?P<agent>[^|]*)\|[^|]+\|(?:[A-Z]{2}|-|)"
)
S3_READ_OPERATIONS = ("REST.GET.OBJECT", "WEBSITE.GET.OBJECT", "REST.HEAD.OBJECT", "WEBSITE.HEAD.OBJECT")
DEFAULT_PORT_PATTERN = re.compile(r"^(\S+ https?://[^/:]+):(?:80|443)(?=/| |$)")
LAST_ADDRESS_INDEX = 3
"""Istio's fields after the upstream host are: cluster, local address, own address, the peer's address, server name,
route."""


class PatternFormat:
    """A format whose lines match a pattern with named groups."""

    def __init__(self, name: str, patterns: tuple[re.Pattern[str], ...], adapt: Callable[[Fields], Fields]) -> None:
        self.name = name
        self._patterns = patterns
        self._adapt = adapt

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line."""
        for line in text.split("\n"):
            yield self._parse_line(line) if line and not line.isspace() else None

    def is_complete(self, line: str) -> bool:
        """Returns False: a truncated last field looks like a complete one."""
        return False

    def _parse_line(self, line: str) -> LogLine | Dropped:
        for pattern in self._patterns:
            if match := pattern.fullmatch(line):
                fields = {name: value for name, value in match.groupdict("").items() if value not in ("", "-")}
                return line_from_fields(line, self._adapt(fields))
        return MALFORMED


def adapt_elb(fields: Fields) -> Fields:
    """Removes the default port from the URL, and the balancer's name."""
    fields.pop("balancer", None)
    fields["request"] = DEFAULT_PORT_PATTERN.sub(r"\1", fields.get("request", ""))
    return _unescape_agent(fields)


def adapt_s3(fields: Fields) -> Fields:
    """Removes the bucket from a path-style URL.

    Other operations than reading an object, such as `REST.GET.LOCATION`, become the method, which is no page view.
    """
    bucket, key = fields.pop("bucket", ""), fields.pop("key", "")
    operation = fields.pop("operation", "")
    if "request" not in fields or operation not in S3_READ_OPERATIONS:
        fields["request"] = f"{operation} /"
    fields.setdefault("status", "000")
    prefix = f" /{bucket}/"
    if prefix in fields["request"] and not key.startswith(f"{bucket}/"):
        fields["request"] = fields["request"].replace(prefix, " /", 1)
    return _unescape_agent(fields)


def adapt_envoy(fields: Fields) -> Fields:
    """Uses the address of the connection if there is no forwarding header. Status 0 means that nothing was sent."""
    addresses = fields.pop("more", "").split()
    if "address" not in fields and len(addresses) > LAST_ADDRESS_INDEX:
        fields["address"] = addresses[LAST_ADDRESS_INDEX]
    fields["status"] = fields.get("status", "").zfill(3)
    fields.setdefault("request", "")
    return fields


def adapt_bunny(fields: Fields) -> Fields:
    """Bunny does not log the method, and caches only GET and HEAD requests."""
    fields.setdefault("url", "")
    return fields


def _unescape_agent(fields: Fields) -> Fields:
    if "agent" in fields:
        fields["agent"] = unescape(fields["agent"])
    return fields
