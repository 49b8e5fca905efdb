"""Writes the mail of a weekly summary: plain text and HTML with the same facts."""

from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import DayRange
from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.sharing.summary.week_report import WeekReport

MAX_TITLE_CHARS = 120
MINUS = "\N{MINUS SIGN}"
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class SummaryText(NamedTuple):
    subject: str
    text: str
    html: str


class Fact(NamedTuple):
    """A row of the mail: what it is about, its number, and what to compare it with."""

    label: str
    value: str
    note: str = ""
    link: str = ""


class FactSection(NamedTuple):
    title: str
    facts: list[Fact]


def write_summary(report: WeekReport, base_url: str, unsubscribe_url: str) -> SummaryText:
    """Returns the mail. An empty `unsubscribe_url` leaves the link out, for a preview."""
    name = clean_line(report.project.name)
    span = format_days(report.days)
    dashboard_url = (
        f"{base_url}/projects/{report.project.id}/readership?range=days"
        f"&from={format_day(report.days.first)}&to={format_day(report.days.end - 1)}"
    )
    change = describe_change(report.visitors.total, report.visitors_before.total)
    values: dict[str, Any] = {
        "name": name,
        "span": span,
        "sections": build_sections(report),
        "dashboard_url": dashboard_url,
        "unsubscribe_url": unsubscribe_url,
    }
    return SummaryText(
        subject=f"{name}: {pluralize(report.visitors.total, 'visitor')}, {change} ({span})",
        text=_write_text(**values),
        html=_templates.get_template("weekly-summary.html").render(**values),
    )


def build_sections(report: WeekReport) -> list[FactSection]:
    now, before = report.visitors, report.visitors_before
    views, views_before = report.views, report.views_before
    readers = [
        _compare("Visitors", now.total, before.total),
        _compare("People", now.human, before.human),
        _compare("AI", now.ai, before.ai),
        _compare("Views", views.total, views_before.total),
        _compare("Views by people", views.human, views_before.human),
        _compare("Views by AI", views.ai, views_before.ai),
    ]
    pages = [
        Fact(clean_line(row.path), f"{row.count.total:,}", f"{row.count.human:,} people, {row.count.ai:,} AI")
        for row in report.top_pages
    ]
    risers = [
        Fact(clean_line(row.path), f"+{row.now - row.before:,}", f"{row.before:,} to {row.now:,}")
        for row in report.risers
    ]
    missing = [
        Fact(clean_line(row.path), f"{row.count.total:,}", pluralize(row.views, "request")) for row in report.missing
    ]
    counts = report.feedback
    feedback = [
        Fact("Helpful", f"{counts.helpful:,}"),
        Fact("Not helpful", f"{counts.not_helpful:,}"),
        Fact("Entries", f"{counts.total:,}"),
    ]
    merged = [Fact(clean_line(pull.title), "", "", _check_link(pull.link)) for pull in report.merged]
    more = report.merged_count - len(merged)
    merged += [Fact(f"and {more:,} more", "")] if more else []
    sections = [
        FactSection("Readers", readers),
        FactSection("Top pages, by visitors", pages),
        FactSection("Risers", risers),
        FactSection("Missing pages, by visitors", missing),
        FactSection("Feedback", feedback if counts.total else []),
        FactSection(f"Merged pull requests: {report.merged_count:,}", merged),
    ]
    return [section for section in sections if section.facts]


def describe_change(now: int, before: int) -> str:
    """Describes the change from the week before, as a percentage if that week was not empty."""
    if now == before:
        return "no change"
    if before == 0:
        return "new"
    share = (now - before) / before
    return f"{'+' if share > 0 else MINUS}{abs(share):,.1%}"


def format_days(days: DayRange) -> str:
    """Formats a range, such as `9–15 Nov 2026` or `28 Dec 2026 – 3 Jan 2027`."""
    first = date.fromordinal(EPOCH_ORDINAL + days.first)
    last = date.fromordinal(EPOCH_ORDINAL + days.end - 1)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{last.day} {last:%b %Y}"
    year = f" {first.year}" if first.year != last.year else ""
    return f"{first.day} {first:%b}{year} – {last.day} {last:%b %Y}"


def clean_line(text: str) -> str:
    """Returns text of readers and sites on one line, without characters that could imitate another line."""
    return truncate(to_single_line("".join(c if c.isprintable() else " " for c in text)), MAX_TITLE_CHARS)


def _check_link(link: str | None) -> str:
    """Returns the link if it is one that a mail may contain; otherwise an empty string."""
    is_web = link is not None and link.startswith(("https://", "http://")) and link.isprintable() and " " not in link
    return link if link is not None and is_web else ""


def _compare(label: str, now: int, before: int) -> Fact:
    return Fact(label, f"{now:,}", f"{describe_change(now, before)} from {before:,}")


def _write_text(name: str, span: str, sections: list[FactSection], dashboard_url: str, unsubscribe_url: str) -> str:
    lines = [f"{name}, {span}", ""]
    for section in sections:
        lines += [section.title, *(_write_fact(fact) for fact in section.facts), ""]
    lines += ["Days are in UTC. Each visitor counts once in the week.", f"All numbers: {dashboard_url}"]
    if unsubscribe_url:
        lines += ["", f"To stop these mails: {unsubscribe_url}"]
    return "\n".join(lines) + "\n"


def _write_fact(fact: Fact) -> str:
    note = f" ({fact.note})" if fact.note else ""
    link = f" {fact.link}" if fact.link else ""
    return f"  {fact.label}{': ' if fact.value else ''}{fact.value}{note}{link}"
