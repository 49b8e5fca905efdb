"""The bodies of deliveries: JSON with links to the dashboard, and short, escaped messages for Slack."""

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from copydesk.webhooks.endpoints import EVENT_TYPES
from copydesk.webhooks.payloads import EventContent, build_body
from copydesk.webhooks.signatures import build_headers, new_secret

WEBHOOKS_PAGE = Path(__file__).parents[2] / "docs/webhooks.md"
HOSTILE = "<!channel> & <https://evil.example|click> *bold* " + "x" * 5000
JOB: dict[str, Any] = {
    "id": "job_1",
    "status": "failed",
    "reason": "checks_failed",
    "message": HOSTILE,
    "title": HOSTILE,
    "summary": None,
    "prompt": "p",
    "pullRequest": {"url": "https://example.org/pull/7?a=<b>|c", "state": "open"},
}
COUNTS = {"human": 1, "ai": 2, "total": 3}
SUMMARY = {
    "firstDay": "2026-03-02",
    "visitors": COUNTS,
    "visitorsBefore": COUNTS,
    "views": COUNTS,
    "viewsBefore": COUNTS,
    "topPages": [{"path": HOSTILE, **COUNTS}] * 10,
    "feedback": {"total": 3},
    "mergedCount": 2,
}
DATA: dict[str, dict[str, Any]] = {
    "automation.failed": {
        "automation": {"id": "auto_1", "name": HOSTILE},
        "reason": "invalid",
        "message": HOSTILE,
        "job": None,
    },
    "feedback.created": {"feedback": {"id": "fb_1", "path": HOSTILE, "helpful": False, "comment": HOSTILE}},
    "summary.weekly": {"summary": SUMMARY},
}


def build(event_type: str, payload_format: str) -> Any:
    data = DATA.get(event_type, {"job": JOB})
    event = EventContent(event_type, data, 1_772_443_800_000, "proj_1", "Docs <!here>")
    return msgspec.json.decode(build_body(event, payload_format, "https://copydesk.example.org"))


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_text_cannot_mention_people_or_add_links_in_slack(event_type: str) -> None:
    message = build(event_type, "slack")
    [block] = message["blocks"]
    text = block["text"]["text"]
    for part in (message["text"], text):
        assert "<!" not in part
        assert "<https://evil" not in part
    assert "&lt;!here&gt;" in text
    assert text.count("<") == text.count(">") == 1, "only our own link"
    assert block["type"] == "section"
    assert block["text"]["type"] == "mrkdwn"
    assert len(text) < 3000, "Slack refuses longer sections"
    assert len(message["text"]) < 1000


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_json_has_type_time_and_data(event_type: str) -> None:
    payload = build(event_type, "json")
    assert set(payload) == {"type", "timestamp", "data"}
    assert (payload["type"], payload["timestamp"]) == (event_type, "2026-03-02T09:30:00.000Z")
    assert payload["data"]["project"] == {"id": "proj_1", "name": "Docs <!here>"}
    if "job" in payload["data"] and payload["data"]["job"]:
        assert payload["data"]["job"]["url"] == "https://copydesk.example.org/projects/proj_1/jobs/job_1"


def test_text_that_cannot_be_encoded_does_not_stop_a_delivery() -> None:
    event = EventContent("feedback.created", {"feedback": {"comment": "\ud800"}}, 0, "proj_1", "Docs")
    assert b"comment" in build_body(event, "json", "")


def test_documented_function_accepts_signed_deliveries_and_refuses_others() -> None:
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", WEBHOOKS_PAGE.read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "def verify(" in block), names)
    verify, secret, now = names["verify"], new_secret(), int(time.time())
    headers = build_headers("msg_1", now, b"{}", [secret])
    assert verify(secret, headers, b"{}")
    assert verify(secret, build_headers("msg_1", now, b"{}", [new_secret(), secret]), b"{}")
    assert not verify(secret, headers, b"{ }")
    assert not verify(new_secret(), headers, b"{}")
    assert not verify(secret, build_headers("msg_1", now - 400, b"{}", [secret]), b"{}")
    assert not verify(secret, {**headers, "webhook-signature": "v1,\xe9"}, b"{}")
