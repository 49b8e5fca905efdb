"""Calls every operation of a running Copydesk with the client that openapi-python-client generated.

Runs in the generator's own environment: python python_calls.py URL KEY PROJECT SITE. Prints the operations it called.
"""

import importlib
import json
import pkgutil
import sys
import time
from datetime import UTC, date, datetime, timedelta

from copydesk_api import AuthenticatedClient, Client, api, models

URL, KEY, PROJECT, SITE = sys.argv[1:]
PAGE = "https://docs.example.com/install"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
TODAY = datetime.now(UTC).date()

client = AuthenticatedClient(base_url=URL, token=KEY, timeout=60)
stranger = AuthenticatedClient(base_url=URL, token="desk_" + "0" * 38, timeout=60)
operations = {
    module.name: importlib.import_module(f"{api.__name__}.{tag.name}.{module.name}")
    for tag in pkgutil.iter_modules(api.__path__)
    for module in pkgutil.iter_modules([f"{api.__path__[0]}/{tag.name}"])
}
called = set()


def call(name, *args, expect=200, using=client, **options):
    """Returns the parsed body and the headers, after checking the status."""
    called.add(name)
    response = operations[name].sync_detailed(*args, client=using, **options)
    assert response.status_code == expect, (name, response.status_code, response.content)
    return response


def read(name, *args, **options):
    return call(name, PROJECT, *args, **options).parsed


def refuse(name, *args, expect, code, using=client, **options):
    error = call(name, *args, expect=expect, using=using, **options).parsed
    assert isinstance(error, models.ErrorResponse), (name, error)
    assert error.code == code, (name, error)


def wait_for_end(job_id):
    for _ in range(600):
        job = read("get_job", job_id)
        if job.status is not models.Status.ACTIVE:
            return job
        time.sleep(0.1)
    raise AssertionError("the job did not end")


def call_public_routes():
    public = Client(base_url=URL)
    assert call("healthz", using=public).parsed.additional_properties["status"] == "ok"
    assert call("readyz", using=public).parsed.status == "ready"
    assert "copydesk" in call("metrics", using=public).parsed
    assert "copydesk" in call("beacon", using=public).parsed
    viewed = call("send_beacon", SITE, expect=202, using=public, body=models.ViewBeacon(u=PAGE, v="grace"))
    assert viewed.parsed.accepted == 1
    search = models.SearchBeacon.from_dict({"k": "search", "u": PAGE, "q": "install", "n": 3, "v": "grace"})
    assert call("send_beacon", SITE, expect=202, using=public, body=search).parsed.accepted == 1
    rating = models.FeedbackBeacon.from_dict({"k": "feedback", "u": PAGE, "h": False, "c": "Too short."})
    assert call("send_beacon", SITE, expect=202, using=public, body=rating).parsed.accepted == 1
    assert call("pixel", SITE, using=public, u=PAGE).content.startswith(b"GIF89a")


def call_collecting():
    events = [
        models.ViewEvent(url=PAGE, visitor_id="ada", user_agent=FIREFOX, status=200),
        models.ViewEvent(path="/guide.md", visitor_id=7, user_agent="ChatGPT-User/1.0"),
        models.SearchEvent(type_=models.SearchEventType.SEARCH, query="dark mode", results=0),
        models.AssistantEvent(
            type_=models.AssistantEventType.ASSISTANT,
            thread_id="thread-1",
            query="How?",
            response="So.",
            sources=[models.SourceItem(title="Install", url="/install")],
            caller="web",
        ),
        models.FeedbackEvent(
            type_=models.FeedbackEventType.FEEDBACK, path="/install", helpful=True, contact="ada@example.org"
        ),
        models.FeedbackEvent(type_=models.FeedbackEventType.FEEDBACK, path="/install", code="x = 1", lang="python"),
    ]
    assert call("send_events", PROJECT, expect=202, body=events).parsed.accepted == len(events)
    dropped = call("send_events", PROJECT, expect=202, body=models.ViewEvent(path="/logo.png")).parsed.dropped
    assert [each.reason for each in dropped] == [models.DropReason.NOT_A_PAGE]


def call_reports():
    days = {"date_from": TODAY - timedelta(1), "date_to": TODAY + timedelta(1)}
    times = {"date_from": datetime.now(UTC) - timedelta(hours=1), "date_to": datetime.now(UTC)}
    visitors = read("export_visitors", limit=1, offset=0, **days)
    assert visitors.totals == models.CountResponse(human=1, ai=1, total=2), visitors
    assert visitors.has_more, visitors
    assert [row.path for row in visitors.visitors] == ["/guide"], visitors
    views = read("export_views", **days)
    assert views.totals.total == sum(row.total for row in views.views) == 2, views
    assert "ChatGPT-User" in [row.agent for row in read("export_agents", **days).agents]
    assert read("export_missing", **days).missing == []
    series = read("export_timeseries", interval=models.ExportTimeseriesInterval.DAY, **days)
    assert [date.fromisoformat(str(point.date)) for point in series.timeseries] == [TODAY]
    assert read("export_visitors", date_to=date(2000, 1, 1)).visitors == []

    call_feedback(times)
    first = read("list_searches", limit=1, **times)
    assert first.total_searches == 2, first
    assert first.searches[0].hits == 1, first
    second = read("list_searches", limit=1, cursor=first.next_cursor)
    assert {first.searches[0].search_query, second.searches[0].search_query} == {"install", "dark mode"}
    assert second.next_cursor is None
    question = read("list_conversations", **times).conversations[0]
    assert question.sources[0].title == "Install", question
    assert question.resolution_status == "answered", question
    assert (read("count_callers").web, read("count_callers").total) == (1, 1)
    thread = read("get_thread", question.thread_id)
    assert [message.role for message in thread.messages] == ["user", "assistant"], thread


def call_feedback(times):
    first = read("list_feedback", limit=2, **times)
    rest = read("list_feedback", limit=2, cursor=first.next_cursor)
    entries = {entry.source: entry for entry in [*first.feedback, *rest.feedback]}
    assert first.has_more
    assert not rest.has_more
    snippet, rating = entries[models.FeedbackSource.CODE_SNIPPET], entries[models.FeedbackSource.CONTEXTUAL]
    assert isinstance(snippet, models.SnippetResponse)
    assert (snippet.code, snippet.lang) == ("x = 1", "python")
    assert isinstance(rating, models.RatingResponse)
    assert rating.status is models.FeedbackStatus.PENDING
    resolved = models.FeedbackStatusRequest(status=models.FeedbackStatusRequestStatus.RESOLVED)
    assert read("update_feedback", rating.id, body=resolved).status is models.FeedbackStatus.RESOLVED
    found = read("list_feedback", source=models.FeedbackSource.CONTEXTUAL, status="resolved,dismissed").feedback
    assert [entry.id for entry in found] == [rating.id]
    pages = read("feedback_by_page", limit=10).feedback
    assert [(page.path, page.thumbs_up, page.thumbs_down, page.code) for page in pages] == [("/install", 1, 1, 1)]
    refuse("update_feedback", PROJECT, "fb_" + "0" * 26, body=resolved, expect=404, code="feedback_not_found")


def call_jobs():
    assert read("list_models").default == "mechanic"
    assert read("get_key").scopes == ["read", "write"]
    new_job = models.NewJobRequest(prompt="Replace “colour” with “color” on every page.", draft=True)
    created = call("create_job", PROJECT, expect=201, body=new_job, idempotency_key="once")
    job_id = created.parsed.id
    assert call("create_job", PROJECT, expect=201, body=new_job, idempotency_key="once").parsed.id == job_id
    assert b"event: " in call("job_events", PROJECT, job_id).content
    job = wait_for_end(job_id)
    assert job.status is models.Status.COMPLETED, job
    assert job.pr_link, job
    assert "+Pick a color." in read("diff_job", job_id)
    message = models.JobMessageRequest(prompt="Replace “Pick” with “Choose” on every page.")
    assert read("message_job", job_id, body=message).status is models.Status.ACTIVE
    wait_for_end(job_id)
    refuse("cancel_job", PROJECT, job_id, expect=409, code="wrong_state")
    assert read("archive_job", job_id).archived_at
    assert read("unarchive_job", job_id).archived_at is None
    listed = read("list_jobs", limit=1)
    assert [job.id for job in listed.jobs] == [job_id]
    retried = call("retry_job", PROJECT, job_id, expect=201).parsed
    assert (retried.prompt, retried.status) == (job.prompt, models.Status.ACTIVE)
    wait_for_end(retried.id)
    refuse("get_job", PROJECT, "job_" + "0" * 26, expect=404, code="job_not_found")


def call_sessions():
    request = models.NewSessionRequest(
        messages=[
            models.ChatMessageRequest(role=models.ChatMessageRequestRole.SYSTEM, content="Be brief."),
            models.ChatMessageRequest(role=models.ChatMessageRequestRole.USER, content="Replace “start” with “begin”."),
        ],
        as_draft=True,
        model="sonnet",
    )
    created = call("create_session", PROJECT, body=request)
    session_id = created.headers["x-session-id"]
    assert "event: " in created.content.decode()
    assert created.headers["x-branch-name"]
    session = read("get_session", session_id)
    assert session.haulted, session
    assert session.session_id == session_id, session
    assert read("list_sessions", skip=0, take=1).all_sessions[0].session_id == session_id
    refuse("get_session", PROJECT, "job_" + "0" * 26, expect=404, code="job_not_found")


def call_without_access():
    """Every operation of a project refuses a wrong key and an unknown project."""
    samples = {
        "job_id": "job_" + "0" * 26,
        "create_job": models.NewJobRequest(prompt="Hello."),
        "message_job": models.JobMessageRequest(prompt="Hello."),
        "create_session": models.NewSessionRequest(
            messages=[models.ChatMessageRequest(role=models.ChatMessageRequestRole.USER, content="Hello.")]
        ),
        "update_feedback": models.FeedbackStatusRequest(status=models.FeedbackStatusRequestStatus.RESOLVED),
        "send_events": models.ViewEvent(path="/"),
    }
    of_one_row = (
        "get_job",
        "message_job",
        "cancel_job",
        "archive_job",
        "unarchive_job",
        "diff_job",
        "job_events",
        "retry_job",
    )
    of_one_row += ("get_session", "update_feedback", "get_thread")
    for name in operations.keys() - {"healthz", "readyz", "metrics", "beacon", "send_beacon", "pixel"}:
        ids = (samples["job_id"],) if name in of_one_row else ()
        body = {"body": samples[name]} if name in samples else {}
        refuse(name, PROJECT, *ids, using=stranger, expect=401, code="key_rejected", **body)
        refuse(name, "proj_" + "0" * 26, *ids, expect=404, code="project_not_found", **body)
    refuse("send_beacon", "site_" + "0" * 26, body=models.ViewBeacon(u=PAGE), expect=404, code="site_not_found")
    refuse("list_feedback", PROJECT, cursor="no-cursor", expect=400, code="invalid_request")


call_public_routes()
call_collecting()
call_reports()
call_jobs()
call_sessions()
call_without_access()
assert called == operations.keys(), operations.keys() - called
sys.stdout.write(json.dumps(sorted(called)))
