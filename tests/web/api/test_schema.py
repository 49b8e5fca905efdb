"""The service against its own schema: HTTP responses match /openapi.json exactly."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis.errors import FailedHealthCheck
from schemathesis.engine import events, from_schema

from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.core import clock
from copydesk.webhooks.endpoints import Endpoints
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

# OpenAPI cannot express which models this project offers: a well-formed name may be refused.
ACCEPTS_ONLY_CONFIGURED_MODELS = {
    "include-operation-id": "createJob",
    "checks": {"positive_data_acceptance": {"enabled": False}},
}

ACCEPTS_MESSAGES_WITH_TEXT = {
    "include-operation-id": "createSession",
    "checks": {"positive_data_acceptance": {"enabled": False}},
}

# OpenAPI cannot express that feedback needs a rating, a comment or code.
ACCEPTS_FEEDBACK_WITH_CONTENT = {
    "include-operation-id": "sendBeacon",
    "checks": {"positive_data_acceptance": {"enabled": False}},
}

# OpenAPI cannot express valid schedules, path patterns and configured models, nor whether a repository can be read.
ACCEPTS_USABLE_DEFINITIONS = {"checks": {"positive_data_acceptance": {"enabled": False}}}
DEFINITIONS = (
    *("createAutomation", "changeAutomation", "addContextRepository", "createShare", "addWebhook"),
    *("createTemplate", "previewTemplate", "createJobFromTemplate"),
)
CHANGES_A_WEBHOOK = {"include-operation-id": "changeWebhook"}

# OpenAPI cannot express that a section is below its prefix, nor that hours need a range of at most 31 days.
ACCEPTS_FITTING_PARAMETERS = {"checks": {"positive_data_acceptance": {"enabled": False}}}
REPORTS_WITH_RELATED_PARAMETERS = ("exportSections", "exportTimeseries")

# OpenAPI cannot express which cursors this list returned.
ACCEPTS_OWN_CURSORS = {"checks": {"positive_data_acceptance": {"enabled": False}}}
LISTS_WITH_CURSORS = ("listSearches", "listConversations", "listFeedback", "listWebhookDeliveries")
THREAD = "thread-1"
WEBHOOK_IDS: list[str] = []
"""A webhook to use, one to remove, and one to change, which also disables it."""

NO_LIMITS = dict.fromkeys(
    ("jobs_per_hour", "exports_per_minute", "collect_per_minute", "collect_per_address", "feedback_per_address"),
    1000000,
)
# An invalid event is dropped with its reason and does not block the others: the response is 202 anyway.
ACCEPTS_PARTLY_VALID_BODIES = {
    "include-operation-id": "sendEvents",
    "checks": {"negative_data_rejection": {"enabled": False}},
}


def make_config(service: Service, examples: int, walks: int) -> schemathesis.Config:
    settings: dict[str, Any] = {
        "base-url": service.url,
        "headers": {"Authorization": f"Bearer {service.key}"},
        "parameters": {
            "path.projectId": service.project.id,
            "path.siteId": service.project.site_id,
            "path.feedbackId": service.desk.feedback.list_entries(service.project.id)[0][0].id,
            "path.threadId": THREAD,
            "path.automationId": service.client.list_automations()[0]["id"],
            "path.name": "code",
            "path.path": "a",
            "path.shareId": service.client.create_share()["id"],
            "path.templateName": "own",
            "path.webhookId": WEBHOOK_IDS[0],
            "path.deliveryId": service.client.test_webhook(WEBHOOK_IDS[0])["id"],
        },
        "request-timeout": 20,
        "continue-on-failure": True,
        "generation": {"max-examples": max(1, examples), "database": "none"},
        "operations": [
            ACCEPTS_ONLY_CONFIGURED_MODELS,
            ACCEPTS_MESSAGES_WITH_TEXT,
            ACCEPTS_PARTLY_VALID_BODIES,
            ACCEPTS_FEEDBACK_WITH_CONTENT,
            *({**ACCEPTS_USABLE_DEFINITIONS, "include-operation-id": name} for name in DEFINITIONS),
            *({**ACCEPTS_FITTING_PARAMETERS, "include-operation-id": name} for name in REPORTS_WITH_RELATED_PARAMETERS),
            {
                "include-operation-id": "deleteAutomation",
                "parameters": {"path.automationId": service.client.list_automations()[1]["id"]},
            },
            {"include-operation-id": "deleteTemplate", "parameters": {"path.templateName": "deleted"}},
            {
                **ACCEPTS_USABLE_DEFINITIONS,
                "include-operation-id": "changeTemplate",
                "parameters": {"path.templateName": "changed"},
            },
            {"include-operation-id": "removeWebhook", "parameters": {"path.webhookId": WEBHOOK_IDS[1]}},
            {**ACCEPTS_USABLE_DEFINITIONS, **CHANGES_A_WEBHOOK, "parameters": {"path.webhookId": WEBHOOK_IDS[2]}},
            *({**ACCEPTS_OWN_CURSORS, "include-operation-id": name} for name in LISTS_WITH_CURSORS),
            {
                "include-operation-id": "getSession",
                "parameters": {"path.id": service.client.list_jobs(limit=1)["jobs"][0]["id"]},
            },
        ],
        "phases": {
            "fuzzing": {"enabled": examples > 0},
            "stateful": {"enabled": walks > 0, "generation": {"max-examples": max(1, walks)}},
        },
    }
    return schemathesis.Config.from_dict(settings)


def _has_empty_param(failure: Any) -> bool:
    """Returns whether the invalid parameter is empty, which means that it is absent. OpenAPI cannot express this."""
    match = re.search(r"parameter `(\w+)` in query", str(failure.failure))
    return match is not None and re.search(rf"[?&]{match[1]}=['&]", failure.code_sample) is not None


class SchemaRun:
    """Runs the examples and the limits of each field; then random cases, and follows links from call to call."""

    def __init__(self, service: Service, examples: int = 0, walks: int = 0) -> None:
        self.phases: set[str] = set()
        self.answers: Counter[tuple[str, int]] = Counter()
        self.faults: list[str] = []
        chosen = make_config(service, examples, walks)
        self.schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json", config=chosen)
        for event in from_schema(self.schema).execute():
            if isinstance(event, events.NonFatalError) and isinstance(event.value, FailedHealthCheck):
                continue  # slow data generation is caused by the machine, not by the service
            if isinstance(event, events.NonFatalError | events.FatalError):
                self.faults.append(repr(event))
            elif isinstance(event, events.ScenarioFinished):
                self.phases.add(event.phase.name)
                self._note(event)

    def _note(self, event: events.ScenarioFinished) -> None:
        for case_id, said in event.recorder.interactions.items():
            operation = event.recorder.cases[case_id].value.operation.label
            if said.response is None:
                self.faults.append(f"{operation}: no answer")
            else:
                self.answers[operation, said.response.status_code] += 1
        self.faults += [
            f"{check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}"
            for checks in event.recorder.checks.values()
            for check in checks
            if check.failure_info is not None and not _has_empty_param(check.failure_info)
        ]

    @property
    def operations(self) -> set[str]:
        described = self.schema.raw_schema["paths"]
        return {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}


@pytest.fixture
def busy_service(tmp_path: Path) -> Iterator[Service]:
    """Jobs in every state that lasts; the mechanic ends the others immediately, so no stream stays open."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(
        tmp_path / "data", repository=repository, jobs_per_hour=1_000_000, exports_per_minute=1_000_000
    ) as service:
        changed = service.client.create_job('Replace "colour" with "color"')
        unchanged = service.client.create_job('Replace "nowhere" with "somewhere"')
        for job in (changed, unchanged):
            service.client.wait(job["id"])
        service.client.archive_job(unchanged["id"])
        service.desk.feedback.add(service.project.id, "/", True, None, clock.now())
        question = NewQuestion(THREAD, "How do I sign in?", "With a key.", clock.now())
        service.desk.conversations.add_all(service.project.id, [question])
        sent = service.client.send_events([{"url": "https://docs.example.com/a", "userAgent": "Firefox"}])
        assert sent["accepted"] == 1
        for name in ("Links", "To be deleted"):
            service.client.create_automation(name=name, prompt="Fix the broken links.", trigger={"type": "api"})
        for name in ("own", "changed", "deleted"):
            fields = [{"name": "version", "required": False}]
            service.client.create_template(name, name, "Write the notes.\nOf {{version}}.", fields=fields)
        WEBHOOK_IDS[:] = [add_webhook(service) for _ in range(3)]
        yield service


def add_webhook(service: Service) -> str:
    """Adds a webhook to which nothing can be sent. Returns its ID."""
    desk = service.desk
    endpoints = Endpoints(desk.database, desk.secrets, allow_private=True)
    return endpoints.add(service.project.id, "http://127.0.0.1:1/", actor="test").endpoint.id


@pytest.mark.deep
def test_every_operation_matches_its_openapi_description(busy_service: Service) -> None:
    seen = SchemaRun(busy_service)
    assert not seen.faults, "\n\n".join(seen.faults[:10])
    assert seen.phases == {"EXAMPLES", "COVERAGE"}
    assert sum(seen.answers.values()) >= 500
    assert {operation for operation, _ in seen.answers} == seen.operations
    answered_well = {operation for operation, status in seen.answers if status in (200, 201, 202)}
    # A job is rarely still active when it is canceled; 409 is the other valid response. Deletions answer 204, a context
    # repository must be readable, which none of the examples is, OpenAPI cannot express the fields of a template, and a
    # webhook of an example has no host.
    assert seen.operations - answered_well <= {
        "POST /v2/agent/{projectId}/job/{id}/cancel",
        "DELETE /v2/agent/{projectId}/automations/{automationId}",
        "POST /v2/agent/{projectId}/context",
        "DELETE /v2/agent/{projectId}/context/{name}",
        "DELETE /v1/analytics/{projectId}/shares/{shareId}",
        "DELETE /v2/agent/{projectId}/templates/{templateName}",
        "POST /v2/agent/{projectId}/templates/{templateName}/job",
        "POST /v2/agent/{projectId}/webhooks",
        "DELETE /v2/agent/{projectId}/webhooks/{webhookId}",
    }
    assert not [found for found in seen.answers if found[1] >= 500]


@pytest.mark.drill
def test_every_operation_matches_its_openapi_description_in_random_cases(busy_service: Service) -> None:
    seen = SchemaRun(busy_service, examples=1000, walks=200)
    assert not seen.faults, "\n\n".join(seen.faults[:10])
    assert seen.phases == {"EXAMPLES", "COVERAGE", "FUZZING", "STATEFUL_TESTING"}
    assert sum(seen.answers.values()) >= 8000
