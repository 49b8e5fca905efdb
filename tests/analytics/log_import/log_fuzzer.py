"""Writes logs of random requests in random formats, damages them, and knows which visitors they contain.

The truth is kept while the log is written, so it does not depend on how the importer reads logs.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NamedTuple

from tests.analytics.log_import.samples import (
    ASSISTANT,
    CHROME,
    FIREFOX,
    HEADERS,
    RENDERERS,
    WRAPPERS,
    Request,
    render_common,
)

AGENTS = (
    CHROME,
    FIREFOX,
    ASSISTANT,
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Claude-User (claude-code/2.1.90; +https://support.anthropic.com/)",
    "curl/8.4.0",
)
PAGES = ("/guide", "/install", "/reference/api", "/ja/start", "/release-1.2")
PATHS = (*PAGES, "/guide/?x=1", "/install?utm_source=a&b=c", "/app.css", "/logo.svg")
STATUSES = (200, 200, 200, 304, 404, 301, 500)
NOISE = (
    "",
    " ",
    "#",
    "started",
    "{}",
    '{"level": "info"}',
    "2026-11-14 INFO ready",
    "\0\0\0",
    "]",
    '"',
    "[error] 7#7: *1",
)
WRAPPABLE = ("combined", "vhost", "caddy", "jsonl, nginx", "combined, Traefik", "traefik")


class Person(NamedTuple):
    address: str
    agent: str

    @property
    def packed_address(self) -> bytes:
        return ip_address(self.address).packed


Sighting = tuple[Person, str, bool]
"""A person, the page that they requested, and whether it was missing."""


@dataclass
class DamagedLog:
    text: str
    certain: Counter[Sighting] = field(default_factory=Counter)
    """The views in undamaged lines: an accepted log must give all of them."""
    possible: Counter[Sighting] = field(default_factory=Counter)
    """The views in all lines, damaged or not: no log may give any other."""
    is_undamaged: bool = True
    last: Sighting | None = None
    """The view in the last line, if it is certain."""


class Line(NamedTuple):
    text: str
    request: Request | None
    """The request of the line; None for a header or noise."""
    is_readable: bool = True
    """False for a line without a user agent, which alone identifies nobody."""


def write_random_log(seed: int) -> DamagedLog:
    """Writes a log of one to four formats, in sections or shuffled, and damages most logs."""
    chooser = random.Random(seed)
    lines = _mix_sections(chooser, [_write_section(chooser) for _ in range(chooser.choice((1, 1, 2, 2, 3, 4)))])
    damage = chooser.choice((0.0, 0.02, 0.1, 0.3, 0.6))
    log = DamagedLog("", is_undamaged=damage == 0 and all(line.is_readable for line in lines))
    is_glued = False
    for line in lines:
        is_glued = _add_line(log, chooser, line, damage, is_glued)
    _cut_end(log, chooser, damage)
    if chooser.random() < 0.1:
        log.text = log.text.replace("\n", "\r\n")
    return log


def _write_section(chooser: random.Random) -> list[Line]:
    """Writes a section in one format, with its header. Formats without a header may be wrapped."""
    name = chooser.choice(sorted(RENDERERS))
    wrap: Callable[[str], str] = lambda text: text  # noqa: E731 - the alternative is one of a table of lambdas
    if name in WRAPPABLE and chooser.random() < 0.4:
        wrap = WRAPPERS[chooser.choice(sorted(WRAPPERS))]
    people = [_create_person(chooser) for _ in range(chooser.randrange(1, 6))]
    lines = [Line(header, None) for header in HEADERS.get(name, "").splitlines()]
    for _ in range(chooser.randrange(1, 25)):
        request = _create_request(chooser, people, is_get=name == "bunny")
        lines.append(Line(wrap(RENDERERS[name](request)), request))
        if chooser.random() < 0.03:
            request = _create_request(chooser, people, is_get=True)
            lines.append(Line(wrap(render_common(request)), request, is_readable=False))
    return lines


def _mix_sections(chooser: random.Random, sections: list[list[Line]]) -> list[Line]:
    """Returns the sections one after the other, or shuffled if no section needs its header before its lines."""
    lines = [line for section in sections for line in section]
    if chooser.random() < 0.5 and all(line.request for line in lines):
        chooser.shuffle(lines)
    return lines


def _create_person(chooser: random.Random) -> Person:
    address = ".".join(str(chooser.randrange(1, 255)) for _ in range(3))
    if chooser.random() < 0.2:
        return Person(f"2001:db8:{chooser.randrange(1, 65_536):x}::7", chooser.choice(AGENTS))
    return Person(f"{chooser.choice((31, 80, 203))}.{address}", chooser.choice(AGENTS))


def _create_request(chooser: random.Random, people: list[Person], *, is_get: bool) -> Request:
    person = chooser.choice(people)
    method = "GET" if is_get else chooser.choice(("GET", "GET", "GET", "POST", "HEAD"))
    return Request(
        person.address,
        person.agent,
        chooser.choice(PATHS),
        chooser.choice(STATUSES),
        chooser.randrange(3600),
        method,
        chooser.choice(("-", "https://search.example.com/?q=setup", "https://docs.example.com/guide")),
    )


def find_sighting(request: Request) -> Sighting | None:
    """Returns the view or the request for a missing page, or None if the request is neither."""
    path = request.path.partition("?")[0].rstrip("/")
    if request.method != "GET" or request.status not in (200, 304, 404) or path not in PAGES:
        return None
    return Person(request.address, request.agent), path, request.status == 404


def _add_line(log: DamagedLog, chooser: random.Random, line: Line, damage: float, is_glued: bool) -> bool:
    """Adds a line, perhaps damaged. Returns whether the next line continues it."""
    sighting = find_sighting(line.request) if line.request else None
    copies = chooser.randrange(2, 5) if chooser.random() < damage / 4 else 1
    for _ in range(copies):
        if sighting:
            log.possible[sighting] += 1
        text, ending = line.text, "\n"
        if line.request and chooser.random() < damage:
            text, is_joinable = _damage_text(chooser, line.text, line.request.address, is_glued)
            ending = "" if is_joinable and chooser.random() < 0.2 else "\n"
        log.last = None
        if sighting and line.is_readable and text == line.text and not is_glued:
            log.certain[sighting] += 1
            log.last = sighting
        log.text += text + ending
        is_glued = not ending
    if damage and chooser.random() < damage / 4:
        log.text += chooser.choice(NOISE) + "\n"
        log.last = None
        is_glued = False
    return is_glued


def _damage_text(chooser: random.Random, text: str, address: str, is_glued: bool) -> tuple[str, bool]:
    """Cuts the end or the start of a line, splits it, or overwrites a part with zeros, as a power failure does.

    Returns the damaged text, and whether another line may be joined to it. Avoids what no reader could notice: a part
    of an address that is another address, and a line of which a part within one value is missing.
    """
    start = text.find(address)
    end = start + len(address)
    if text[end : end + 1] == ",":
        end = max(text.find(" - ", end), text.find('"', end))
    positions = [position for position in range(len(text) + 1) if not start < position <= end]
    cut = chooser.choice(positions)
    match chooser.randrange(1 if is_glued else 0, 4):
        case 0:
            return text[cut:], False
        case 1:
            zeros = chooser.randrange(1, 80)
            return text[:cut] + "\0" * zeros + text[cut + zeros :], False
        case 2:
            return f"{text[:cut]}\n{text[cut:]}", False
        case _:
            return text[:cut], cut < len(text)


def _cut_end(log: DamagedLog, chooser: random.Random, damage: float) -> None:
    """Removes the last newline, as in a log that is still written: the last line may be incomplete."""
    if damage and chooser.random() < 0.2:
        log.text = log.text.removesuffix("\n")
        if log.last:
            log.certain[log.last] -= 1
