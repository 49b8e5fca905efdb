"""The OpenAPI schemas of bodies that the collector parses itself: events and beacons.

Each has a name under `components`, so that client generators give it one, too.
"""

from typing import Any

import msgspec

from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.interaction_events import AssistantEvent, FeedbackEvent, SearchEvent
from copydesk.web.collection.payloads import FeedbackBeacon, MissingBeacon, SearchBeacon, ViewBeacon

REF_TEMPLATE = "#/components/schemas/{name}"
BEACONS = (ViewBeacon, MissingBeacon, FeedbackBeacon, SearchBeacon)


def _build_schemas() -> dict[str, dict[str, Any]]:
    events = (Event, SearchEvent, AssistantEvent, FeedbackEvent)
    _, schemas = msgspec.json.schema_components(events, ref_template=REF_TEMPLATE)
    schemas["ViewEvent"] = {**schemas.pop("Event"), "title": "ViewEvent"}
    return {**schemas, **{model.__name__: model.model_json_schema() for model in BEACONS}}


def _refer_to(*names: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": REF_TEMPLATE.format(name=name)} for name in names]}


BODY_SCHEMAS = _build_schemas()
EVENT_SCHEMA = _refer_to("ViewEvent", "SearchEvent", "AssistantEvent", "FeedbackEvent")
EVENTS_BODY = {
    "application/json": {
        "schema": {"anyOf": [*EVENT_SCHEMA["anyOf"], {"type": "array", "items": EVENT_SCHEMA}]},
        "examples": {
            "one": {"value": {"url": "https://docs.example.com/guide", "userAgent": "ChatGPT-User/1.0"}},
            "search": {"value": {"type": "search", "query": "install", "results": 3, "clicked": "/install"}},
            "several": {"value": [{"path": "/guide", "ip": "203.0.113.7"}, {"path": "/guide", "eventId": "7c9e6679"}]},
        },
    },
    "application/x-ndjson": {
        "schema": {
            "type": "string",
            "description": 'For example: `{"path": "/a"}\\n{"path": "/b", "visitorId": "42"}\\n`.',
        }
    },
}
BEACON_BODY = {
    "application/json": {
        "schema": _refer_to(*(model.__name__ for model in BEACONS)),
        "examples": {
            "view": {"value": {"u": "https://docs.example.com/guide", "r": "https://www.example.org/"}},
            "missing": {"value": {"k": "missing", "u": "https://docs.example.com/old-guide"}},
            "search": {"value": {"k": "search", "u": "https://docs.example.com/guide", "q": "install", "n": 3}},
            "feedback": {"value": {"k": "feedback", "u": "https://docs.example.com/guide", "h": True, "c": "Clear."}},
        },
    }
}
