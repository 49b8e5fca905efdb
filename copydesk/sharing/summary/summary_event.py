"""The weekly summary as an event for webhooks. The numbers are those of the mail."""

from typing import Any

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.report_rows import Counts
from copydesk.sharing.summary.week_report import WeekReport


def describe_report(report: WeekReport) -> dict[str, Any]:
    """Returns the data of the event `summary.weekly`."""
    return {
        "summary": {
            "firstDay": format_day(report.days.first),
            "lastDay": format_day(report.days.end - 1),
            "visitors": _describe_counts(report.visitors),
            "visitorsBefore": _describe_counts(report.visitors_before),
            "views": _describe_counts(report.views),
            "viewsBefore": _describe_counts(report.views_before),
            "topPages": [{"path": row.path, **_describe_counts(row.count)} for row in report.top_pages],
            "missingPages": [{"path": row.path, "views": row.count.total} for row in report.missing],
            "feedback": {
                "helpful": report.feedback.helpful,
                "notHelpful": report.feedback.not_helpful,
                "total": report.feedback.total,
            },
            "merged": [{"title": pull.title, "url": pull.link} for pull in report.merged],
            "mergedCount": report.merged_count,
        }
    }


def _describe_counts(counts: Counts) -> dict[str, int]:
    return {"human": counts.human, "ai": counts.ai, "total": counts.total}
