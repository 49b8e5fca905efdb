"""Fills a service as a team would over two months: jobs, readers, feedback, keys and people."""

import random
from collections.abc import Iterator
from typing import Any

from copydesk.analytics.history import HistoryCounts, HistorySource, ImportedHistory
from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.automations.triggers.stale_pages.reports import CommitEntry, SourceEntry, StalePageEntry, StaleReport
from copydesk.cli.demo.sample_traffic import ASSISTANTS, BROWSERS, CRAWLERS
from copydesk.core.clock import DAY, HOUR, format_iso, now, today
from tests.support.people import get_or_add_person
from tests.support.service import Service

FILES = {
    "index.md": b"# Lamplight\n\nLamplight draws charts from plain text.\nPick a colour and start.\n",
    "install.md": b"# Install\n\nYou need version 3 or later.\n\n    pip install lamplight\n",
    "guides/themes.md": b"# Themes\n\nA theme names the colour of every part.\n\nSee [install](../install.md).\n",
    "guides/export.md": b"# Export\n\nExport to SVG, PNG or PDF. The colour profile is kept.\n",
    "reference/cli.md": b"# Command line\n\nRun `lamplight draw FILE`.\n",
}
PAGES = ("/", "/install", "/guides/themes", "/guides/export", "/reference/cli", "/reference/api", "/faq", "/changelog")
PROMPTS = (
    "Replace “colour” with “color” on every page.",
    "Replace “version 3” with “version 4” on every page.",
    "Rename guides/export.md to guides/exporting.md.",
    "Say hello to whoever reads this.",
)
REMARKS = (
    ("/install", True, ""),
    ("/guides/themes", False, "Which file do I edit?"),
    ("/faq", True, "Just what I needed."),
)

SEARCHES = (("install", "/install"), ("Install", None), ("export pdf", "/guides/export"), ("dark mode", None))
QUESTIONS = (
    ("How do I export to PDF?", "Run `lamplight draw FILE --to pdf`."),
    ("Can I use it without a network?", ""),
)


def fill_service(service: Service, days: int = 60) -> list[str]:
    """Fills the service and returns the ids of its jobs, the newest last; all have ended."""
    desk, project, client = service.desk, service.project, service.client
    for role in ("admin", "editor", "viewer"):
        get_or_add_person(service, role)
    desk.people.invite("grace@example.org", "editor", actor="admin@example.org")
    for name, options in (
        ("Docs build", {"expires_in": 90 * DAY}),
        ("Nightly export", {"scopes": ["read"], "expires_in": 3 * DAY}),
        ("Laptop", {"expires_in": None, "allow": ["192.0.2.0/24"]}),
    ):
        desk.keys.create(project.id, name=name, actor="admin@example.org", **options)
    desk.keys.revoke(desk.keys.create(project.id, name="Old pipeline", actor="editor@example.org")[0].id, actor="test")
    events = list(generate_events(days))
    result = client.send_events(events)
    assert result["accepted"] == len(events)
    for hours, (path, helpful, comment) in enumerate(REMARKS):
        desk.feedback.add(project.id, path, helpful, comment, now() - hours * HOUR)
    fill_interactions(service)
    client.send_events(generate_missing_requests())
    jobs = [client.create_job(prompt)["id"] for prompt in PROMPTS]
    for job in jobs:
        client.wait(job)
    return jobs


def generate_missing_requests() -> list[dict[str, object]]:
    """Returns requests for pages that do not exist, one with a path that is too long for a narrow screen."""
    paths = ("/guide/setup", f"/old/{'very-long-name-' * 20}", "/مرحبا/دليل", "/a/*")
    return [
        {
            "url": f"https://docs.example.com{path}",
            "status": 404,
            "ip": f"192.0.2.{number}",
            "userAgent": BROWSERS[0] if number % 3 else ASSISTANTS[0],
            "referrer": f"https://docs.example.com/page-{number}" if number % 2 else "https://www.example.org/",
        }
        for path in paths
        for number in range(5)
    ]


UNBROKEN_NAME = "unbroken" * 40
ARABIC_TEXT = "مرحبا بالعالم"


def add_unusual_names(service: Service) -> None:
    """Gives every list of the analytics long names without a space, and text that is written from right to left."""
    desk, project, client = service.desk, service.project, service.client
    desk.projects.change(project.id, {"name": UNBROKEN_NAME[:80]}, actor="admin@example.org")
    for text in (UNBROKEN_NAME, ARABIC_TEXT):
        path = f"/{text.replace(' ', '-')}"
        reader = {"userAgent": BROWSERS[0], "ip": "192.0.2.9"}
        accepted = client.send_events([{"path": path, **reader}, {"path": "/", **reader}, {"path": "/style.css"}])
        assert accepted["accepted"] == 2
        missing = {
            "url": f"https://docs.example.com{path}-lost",
            "status": 404,
            "referrer": f"https://{'a' * 60}.example",
        }
        client.send_events([{**missing, **reader}])
        desk.feedback.add(project.id, path, False, text, now())
        desk.searches.add_all(project.id, [NewSearch(text, now(), 3, path)])
        desk.conversations.add_all(project.id, [NewQuestion("thread", text, text, now(), page_url=path)])
        client.send_events([{"path": f"{path}/{path}", "referrer": f"https://{'b' * 60}.example", **reader}])
        desk.sharing.links.create(project.id, name=text[:80], actor="test")
    add_imported_history(service)
    add_stale_pages(service)


def add_imported_history(service: Service) -> None:
    counts = HistoryCounts(3, 9)
    paths = (f"/{UNBROKEN_NAME}", f"/{ARABIC_TEXT}")
    history = ImportedHistory(
        HistorySource.UMAMI, {today() - 3: counts}, {(today() - 3, path): counts for path in paths}
    )
    service.desk.history.replace(service.project.id, history)


def add_stale_pages(service: Service) -> None:
    """Stores a report of stale pages, as a worker that has compared them does."""
    reports = service.desk.stale_pages.reports
    reports.request(service.project.id, 0)
    claimed = reports.claim_next()
    assert claimed is not None
    pages = [describe_stale_page(text) for text in (UNBROKEN_NAME, ARABIC_TEXT)]
    contexts = sorted(context.name for context in service.desk.contexts.list(service.project.id))
    report = StaleReport(
        pages=pages, page_count=101, popular_count=200, known_count=150, has_sources=True, is_complete=False,
        contexts=contexts,
    )  # fmt: skip
    reports.finish(claimed, "key", report)


def describe_stale_page(text: str) -> StalePageEntry:
    url = "https://forge.example/commit/1"
    commits = [
        CommitEntry(id="1" * 40, at=now() - DAY, author=text[:80], subject=text[:120], url=url),
        CommitEntry(id="2" * 40, at=now() - 2 * DAY, author=text[:80], subject="", url=None),
    ]
    source = SourceEntry(
        repository=text[:60], path=f"src/{text}.py", names=[text, "--flag"], commits=commits, commit_count=9
    )
    path = f"/{text.replace(' ', '-')}"
    return StalePageEntry(
        path=path, readers=1234, file=f"docs{path}.md", edited=commits[0], sources=[source, source], source_count=7
    )


def fill_interactions(service: Service) -> None:
    """Adds searches with and without clicks, and questions with and without answers."""
    desk, project = service.desk, service.project
    desk.searches.add_all(
        project.id,
        [NewSearch(query, now() - hours * HOUR, 3, clicked) for hours, (query, clicked) in enumerate(SEARCHES)],
    )
    desk.conversations.add_all(
        project.id,
        [NewQuestion("thread", query, answer, now() - HOUR, answered=bool(answer)) for query, answer in QUESTIONS],
    )


def generate_events(days: int) -> Iterator[dict[str, Any]]:
    """Generates events: more on working days, more recently, and a growing share of AI."""
    chance, today = random.Random(7), now() // DAY
    for day in range(today - days, today):
        busy = (0.5 if day % 7 in (2, 3) else 1.0) * (1 + (day - today + days) / days)
        for who, count, agents, network in (
            ("person", int(chance.uniform(18, 30) * busy), BROWSERS, "192.0.2"),
            ("assistant", int(chance.uniform(4, 9) * busy * busy), ASSISTANTS[:2], "198.51.100"),
            ("crawler", 4, CRAWLERS, "203.0.113"),
        ):
            for number in range(count):
                reader = chance.randrange(250)
                pages = chance.choices(PAGES, [8, 6, 4, 3, 3, 2, 1, 1], k=chance.randint(1, 3))
                for path in sorted(set(pages)):
                    yield {
                        "path": path,
                        "timestamp": format_iso(day * DAY + chance.randrange(DAY)),
                        "userAgent": agents[reader % len(agents)],
                        "ip": f"{network}.{reader}",
                        "eventId": f"{day}-{who}-{number}-{path}",
                    }
