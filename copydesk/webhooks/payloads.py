"""The bodies of deliveries: JSON for programs, and messages for Slack's incoming webhooks."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from copydesk.core.clock import format_iso
from copydesk.core.projects.project_events import EventType
from copydesk.core.text.truncation import to_single_line, truncate

MAX_TITLE_CHARS = 200
MAX_DETAIL_CHARS = 500
MAX_TOP_PAGES = 5


class EventContent(NamedTuple):
    """An event as it is stored, with the project that it belongs to."""

    type: str
    data: Mapping[str, Any]
    created_at: int
    project_id: str
    project_name: str


class SlackText(NamedTuple):
    """The parts of a message in Slack's markup."""

    title: str
    detail: str = ""
    link: str | None = None
    link_text: str = "Open"


def build_body(event: EventContent, payload_format: str, base_url: str) -> bytes:
    """Returns the body of a delivery. It is the same for every attempt."""
    payload = build_slack_message(event, base_url) if payload_format == "slack" else build_payload(event, base_url)
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def build_payload(event: EventContent, base_url: str) -> dict[str, Any]:
    """Returns the type, time and data of an event, with links to the dashboard."""
    data: dict[str, Any] = {"project": {"id": event.project_id, "name": event.project_name}, **event.data}
    if data.get("job"):
        data["job"] = {**data["job"], "url": _build_job_url(event, base_url)}
    return {"type": event.type, "timestamp": format_iso(event.created_at), "data": data}


def build_slack_message(event: EventContent, base_url: str) -> dict[str, Any]:
    """Returns a message with a plain text for notifications, and a section with a link and the details."""
    text = SLACK_TEXTS.get(event.type, _describe_other)(event, base_url)
    title = escape_slack(truncate(to_single_line(text.title), MAX_TITLE_CHARS))
    if text.link:
        title = f"{title} <{escape_slack(text.link).replace('|', '%7C')}|{text.link_text}>"
    detail = escape_slack(truncate(text.detail.strip(), MAX_DETAIL_CHARS))
    body = f"*{escape_slack(to_single_line(event.project_name))}*: {title}" + (f"\n{detail}" if detail else "")
    fallback = f"{to_single_line(event.project_name)}: {truncate(to_single_line(text.title), MAX_TITLE_CHARS)}"
    return {
        "text": escape_slack(fallback),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": body, "verbatim": True}}],
        "unfurl_links": False,
    }


def escape_slack(text: str) -> str:
    """Escapes Slack's three control characters, so that a text cannot mention people or contain links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _build_job_url(event: EventContent, base_url: str) -> str:
    return f"{base_url}/projects/{event.project_id}/jobs/{event.data['job']['id']}"


def _name_job(event: EventContent) -> str:
    job = event.data["job"]
    return truncate(to_single_line(job["title"] or job["prompt"]), MAX_TITLE_CHARS // 2)


def _describe_job(verb: str) -> Callable[[EventContent, str], SlackText]:
    def describe(event: EventContent, base_url: str) -> SlackText:
        job = event.data["job"]
        detail = job["message"] or job["summary"] or ""
        return SlackText(f"Job {verb}: {_name_job(event)}", detail, _build_job_url(event, base_url))

    return describe


def _describe_pull(verb: str) -> Callable[[EventContent, str], SlackText]:
    def describe(event: EventContent, base_url: str) -> SlackText:
        job = event.data["job"]
        link = (job["pullRequest"] or {}).get("url") or _build_job_url(event, base_url)
        return SlackText(f"Pull request {verb}: {_name_job(event)}", job["summary"] or "", link, "Pull request")

    return describe


def _describe_automation(event: EventContent, base_url: str) -> SlackText:
    data = event.data
    link = (
        _build_job_url(event, base_url)
        if data["job"]
        else f"{base_url}/projects/{event.project_id}/automations/{data['automation']['id']}"
    )
    return SlackText(f"Automation failed: {data['automation']['name']}", data["message"] or data["reason"], link)


def _describe_feedback(event: EventContent, base_url: str) -> SlackText:
    feedback = event.data["feedback"]
    rating = {True: "Helpful", False: "Not helpful", None: "Feedback"}[feedback["helpful"]]
    link = f"{base_url}/projects/{event.project_id}/readership/feedback"
    return SlackText(f"{rating}: {feedback['path']}", feedback["comment"] or "", link)


def _describe_summary(event: EventContent, base_url: str) -> SlackText:
    summary = event.data["summary"]
    visitors, views = summary["visitors"], summary["views"]
    lines = [
        f"Visitors: {visitors['total']:,} (people {visitors['human']:,}, AI {visitors['ai']:,}); "
        f"week before: {summary['visitorsBefore']['total']:,}",
        f"Page views: {views['total']:,}; week before: {summary['viewsBefore']['total']:,}",
        f"Feedback: {summary['feedback']['total']:,}; merged pull requests: {summary['mergedCount']:,}",
        *(f"{page['total']:,} {page['path']}" for page in summary["topPages"][:MAX_TOP_PAGES]),
    ]
    link = f"{base_url}/projects/{event.project_id}/readership"
    return SlackText(f"Week of {summary['firstDay']}", "\n".join(lines), link, "Analytics")


def _describe_test(event: EventContent, base_url: str) -> SlackText:
    return SlackText("This is a test of your webhook. It works.")


def _describe_other(event: EventContent, base_url: str) -> SlackText:
    return SlackText(event.type)


SLACK_TEXTS: dict[str, Callable[[EventContent, str], SlackText]] = {
    EventType.JOB_COMPLETED: _describe_job("completed"),
    EventType.JOB_FAILED: _describe_job("failed"),
    EventType.JOB_ARCHIVED: _describe_job("archived"),
    EventType.PULL_OPENED: _describe_pull("opened"),
    EventType.PULL_MERGED: _describe_pull("merged"),
    EventType.PULL_CLOSED: _describe_pull("closed"),
    EventType.AUTOMATION_FAILED: _describe_automation,
    EventType.FEEDBACK_CREATED: _describe_feedback,
    EventType.SUMMARY_WEEKLY: _describe_summary,
    EventType.TEST: _describe_test,
}
