"""The pages of people, accounts, the audit log and the system, over real HTTP."""

import ast
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import delete, insert

import copydesk
from copydesk.core import audit_log, clock
from copydesk.core.db.tables import audit as log
from copydesk.core.db.tables import people
from copydesk.core.ids import new_id
from copydesk.jobs.storage.tables import runs
from copydesk.web.dashboard.admin.audit_sentences import ACTION_SENTENCES, describe_action
from copydesk.web.dashboard.admin.browser_names import describe_browser
from tests.support.people import PASSWORD, csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.postgres import new_database
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ACTION_PATTERN = re.compile(r"(person|access|key|project|secret|analytics)\.(?!key$)[a-z_]+")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("people")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def admin(service: Service) -> Iterator[httpx.Client]:
    with signed_in_client(service) as browser:
        yield browser


def post_form(browser: httpx.Client, path: str, **form: str) -> httpx.Response:
    return browser.post(path, data={"token": csrf_token_from_html(browser.get("/account").text), **form})


def find_row(html: str, email: str) -> str:
    """Returns the text of one person's or invitation's row."""
    return next(part for part in re.split(r"<li\b", html) if email in part)


@pytest.mark.deep
def test_invitation_link_is_shown_once_and_works(service: Service, admin: httpx.Client) -> None:
    made = post_form(admin, "/people/invite", email="New@example.org", role="editor")
    link = re.search(r'value="(http://[^"]+/join/\w{32})"', made.text)
    assert link
    assert "editor" in find_row(admin.get("/people").text, "new@example.org")
    assert link[1] not in admin.get("/people").text
    with httpx.Client(headers={"Accept": "text/html"}, timeout=60) as new:
        assert "admin@example.org invited you as editor" in new.get(link[1]).text
        assert new.post(link[1], data={"name": "New", "password": PASSWORD}).status_code == 303
    assert service.desk.people.get_by_email("new@example.org").role == "editor"
    assert "Withdraw" not in find_row(admin.get("/people").text, "new@example.org")


def test_refused_invitation_keeps_the_form_values(admin: httpx.Client) -> None:
    answer = post_form(admin, "/people/invite", email='"><script>', role="admin")
    assert answer.status_code == 400
    assert 'value="&#34;&gt;&lt;script&gt;"' in answer.text
    assert re.search(r'value="admin" checked', answer.text)
    assert "already has an account" in post_form(admin, "/people/invite", email="admin@example.org", role="admin").text
    assert post_form(admin, "/people/invite", email="a@example.org", role="owner").status_code == 400


def test_an_invitation_can_be_withdrawn(service: Service, admin: httpx.Client) -> None:
    secret = service.desk.people.invite("waiting@example.org", "viewer", actor="test")
    assert post_form(admin, "/people/withdraw", email="waiting@example.org").headers["location"] == "/people"
    assert "waiting@example.org" not in admin.get("/people").text
    assert admin.get(f"/join/{secret}").status_code == 404


def test_changed_role_applies_immediately(service: Service, admin: httpx.Client) -> None:
    with signed_in_client(service, "viewer", "rising@example.org") as rising:
        assert rising.get("/people").status_code == 403
        someone = get_or_add_person(service, "viewer", "rising@example.org")
        assert post_form(admin, f"/people/{someone.id}/role", role="admin").status_code == 303
        assert rising.get("/people").status_code == 200
        assert post_form(admin, f"/people/{someone.id}/role", role="owner").status_code == 400
        assert post_form(admin, f"/people/{someone.id}/role", role="viewer").status_code == 303
        assert rising.get("/people").status_code == 403
    assert post_form(admin, "/people/pers_nobody/role", role="viewer").status_code == 404


@pytest.mark.parametrize(("choice", "status"), [("revoke", 401), ("keep", 200)])
def test_demoting_an_administrator_asks_about_the_keys_they_created(
    service: Service, admin: httpx.Client, choice: str, status: int
) -> None:
    someone = get_or_add_person(service, "admin", f"demoted-{choice}@example.org")
    jobs = f"/v2/agent/{service.project.id}/jobs"
    with (
        signed_in_client(service, "admin", someone.email) as theirs,
        httpx.Client(base_url=service.url, timeout=60) as api,
    ):
        form = {"name": "Mine", "use": "write", "expiry": "none", "id": new_id("key")}
        made = post_form(theirs, f"/projects/{service.project.id}/keys", **form)
        key = {"Authorization": f"Bearer {re.findall(r'desk_[A-Za-z0-9]{38}', made.text)[0]}"}
        assert api.get(jobs, headers=key).status_code == 200
        asked = post_form(admin, f"/people/{someone.id}/role", role="editor")
        assert asked.status_code == 200
        assert "<strong>Mine</strong>" in asked.text
        assert 'value="revoke" checked' in asked.text
        assert theirs.get("/people").status_code == 200, "nothing is changed before the answer"
        assert post_form(admin, f"/people/{someone.id}/role", role="editor", keys=choice).status_code == 303
        assert theirs.get("/people").status_code == 403, "an open session loses its rights at once"
        assert post_form(theirs, f"/projects/{service.project.id}/keys", **form).status_code == 403
        assert api.get(jobs, headers=key).status_code == status


def test_administrator_cannot_change_own_role_or_remove_themselves_by_accident(
    service: Service, admin: httpx.Client
) -> None:
    me = get_or_add_person(service)
    assert "You cannot change your own role" in post_form(admin, f"/people/{me.id}/role", role="viewer").text
    assert "the only administrator" in admin.get(f"/people/{me.id}/remove").text
    assert post_form(admin, f"/people/{me.id}/remove", oneself="on").status_code == 409
    with signed_in_client(service, "admin", "second@example.org") as second:
        mine = get_or_add_person(service, "admin", "second@example.org").id
        assert "This is your own account" in second.get(f"/people/{mine}/remove").text
        refused = post_form(second, f"/people/{mine}/remove")
        assert (refused.status_code, "Tick the box" in refused.text) == (409, True)
        assert post_form(second, f"/people/{mine}/remove", oneself="on").status_code == 303
        assert second.get("/people").headers["location"].startswith("/sign-in")


def test_removing_a_person_asks_for_confirmation(service: Service, admin: httpx.Client) -> None:
    with signed_in_client(service, "editor", "leaving@example.org") as leaving:
        someone = get_or_add_person(service, "editor", "leaving@example.org")
        for name in ("CI", "Export"):
            service.desk.keys.create(service.project.id, name=name, actor=someone.email)
        assert "2 active keys" in find_row(admin.get("/people").text, someone.email)
        shown = admin.get(f"/people/{someone.id}/remove").text
        assert "2 active API keys" in shown
        assert "1 active session ends at once." in shown
        assert leaving.get("/account").status_code == 200, "looking changes nothing"
        assert post_form(admin, f"/people/{someone.id}/remove").headers["location"] == "/people"
        assert leaving.get("/account").status_code == 303
    assert admin.get(f"/people/{someone.id}/remove").status_code == 404
    assert someone.email not in service.desk.people.count_keys_by_creator()


@pytest.mark.deep
def test_administrator_creates_a_password_reset_link(service: Service, admin: httpx.Client) -> None:
    someone = get_or_add_person(service, "viewer", "forgetful@example.org")
    link = re.search(r'value="(http://[^"]+/join/\w{32})"', post_form(admin, f"/people/{someone.id}/reset").text)
    assert link
    assert "password link" in find_row(admin.get("/people").text.partition("Pending links")[2], someone.email)
    with httpx.Client(headers={"Accept": "text/html"}, timeout=60) as browser:
        assert "Set a new password" in browser.get(link[1]).text
        assert browser.post(link[1], data={"password": "a new password"}).status_code == 303
    assert service.desk.people.sign_in(someone.email, "a new password", None) == someone


def test_an_account_shows_its_sessions_and_ends_them(service: Service) -> None:
    with signed_in_client(service, "viewer", "own@example.org") as mine:
        me = get_or_add_person(service, "viewer", "own@example.org")
        agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
        service.desk.people.sessions.create(me, "192.0.2.7", agent)
        shown = mine.get("/account").text
        assert shown.count("this session") == 1
        assert "Firefox on Linux" in shown
        assert "192.0.2.7" in shown
        other = re.search(r'name="session" value="(sess_\w+)"', shown)
        assert other
        with signed_in_client(service, "viewer", "stranger@example.org") as stranger:
            post_form(stranger, "/account/sessions/end", session=other[1])
        assert "192.0.2.7" in mine.get("/account").text, "another's session is as good as not there"
        assert post_form(mine, "/account/sessions/end", session=other[1]).status_code == 303
        assert "192.0.2.7" not in mine.get("/account").text


@pytest.mark.deep
def test_changing_the_password_needs_the_current_one(service: Service) -> None:
    with (
        signed_in_client(service, "viewer", "changing@example.org") as mine,
        signed_in_client(service, "viewer", "changing@example.org") as other,
    ):
        new = {"new": "a new password", "again": "a new password"}
        for form, says in (
            ({**new, "old": "wrong"}, "current password is wrong"),
            ({**new, "old": PASSWORD, "again": "another one"}, "The new passwords do not match."),
            ({"old": PASSWORD, "new": "short", "again": "short"}, "at least 10 characters"),
        ):
            answer = post_form(mine, "/account/password", **form)
            assert says in answer.text
            assert answer.status_code == 400
            assert PASSWORD not in answer.text
        assert post_form(mine, "/account/password", old=PASSWORD, **new).headers["location"] == "/account?done=password"
        assert "All other sessions were ended." in mine.get("/account?done=password").text
        assert other.get("/account").status_code == 303


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) Version/18.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("python-httpx/1", "python-httpx/1"),
        ("", "Unknown browser"),
    ],
)
def test_browser_and_system_are_named_from_the_user_agent(agent: str, words: str) -> None:
    assert describe_browser(agent) == words


@pytest.mark.deep
def test_every_audit_action_has_a_description() -> None:
    logged = set()
    for file in Path(copydesk.__file__).parent.rglob("*.py"):
        if "audit_log.record(" in (code := file.read_text("utf-8")):
            texts = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
            logged |= {text for text in texts if isinstance(text, str) and ACTION_PATTERN.fullmatch(text)}
    assert len(logged) > 10
    assert logged - ACTION_SENTENCES.keys() == set()


def test_audit_entry_with_unknown_action_is_shown() -> None:
    entry = {"action": "thing.done", "subject": "{subject.__class__}", "details": {"why": ["{0}", 1]}}
    assert describe_action(entry, {}) == ("thing.done {subject.__class__}", {"why": "{0}, 1"})


def test_person_with_access_to_single_projects_joins_without_a_role() -> None:
    entry = {"action": "person.joined", "subject": "pers_1", "details": {"role": "none"}}
    assert describe_action(entry, {}) == ("joined", {})
    assert describe_action({**entry, "details": {"role": "viewer"}}, {}) == ("joined as viewer", {})


def test_project_audit_log_is_in_plain_words(service: Service) -> None:
    ada = get_or_add_person(service, "admin", "ada@example.org")
    key, _ = service.desk.keys.create(service.project.id, name="<i>CI</i>", actor=ada.email)
    service.desk.keys.revoke(key.id, actor=ada.email)
    with signed_in_client(service, "viewer") as viewer:
        shown = viewer.get(f"/projects/{service.project.id}/audit").text
        assert re.search(r"Admin</strong> revoked the key &lt;i&gt;CI&lt;/i&gt;\n", shown)
        assert "scopes: read, write" in shown
        assert viewer.get("/projects/proj_nothing/audit").status_code == 404
        assert viewer.get("/system/audit").status_code == 403
        assert viewer.get("/system/audit.csv").status_code == 403
        chosen = viewer.get(f"/projects/{service.project.id}/audit?action=key.revoked&actor=ada@example.org").text
        assert "revoked the key" in chosen
        assert "created the key" not in chosen


def test_audit_log_is_paginated_and_downloaded_completely(service: Service, admin: httpx.Client) -> None:
    other = service.another_project("Paged")
    with service.desk.database.write() as tx:
        tx.execute(delete(log).where(log.c.project_id == other.project.id))
        for number in range(120):
            audit_log.record(tx, other.project.id, "=cmd()", "secret.set", f"name_{number}")
    path, seen = f"/projects/{other.project.id}/audit", list[int]()
    while path:
        shown = admin.get(path).text
        seen += map(int, re.findall(r"set the secret name_(\d+)", shown))
        following = re.search(r'rel="next" href="([^"]+)"', shown)
        path = following[1].replace("&amp;", "&") if following else ""
    assert seen == list(range(119, -1, -1))
    answer = admin.get(f"/projects/{other.project.id}/audit.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    heading, *rows = csv.reader(io.StringIO(answer.text))
    assert heading == ["time", "actor", "action", "subject", "what", "details"]
    assert [each[3] for each in rows] == [f"name_{number}" for number in range(119, -1, -1)]
    assert rows[0][1] == "'=cmd()", "no spreadsheet runs it"
    assert admin.get(f"/projects/{other.project.id}/audit?before=nonsense").status_code == 400


def test_service_audit_log_is_for_administrators_only(service: Service, admin: httpx.Client) -> None:
    service.desk.people.invite("logged@example.org", "viewer", actor="cli:root")
    shown = admin.get("/system/audit").text
    assert re.search(r"root, from the command line</strong> invited logged@example.org as viewer", shown)
    assert "invited logged@example.org" in admin.get("/system/audit.csv?action=person.invited").text


@pytest.mark.embedded
def test_system_page_shows_the_state_of_the_service(service: Service, admin: httpx.Client) -> None:
    waiting = service.client.create_job("Tidy up")
    shown = admin.get("/system").text
    assert re.search(r'id="queue-depth">1<', shown)
    for words in ("SQLite", "DuckDB", "Python", copydesk.__version__, "copydesk.db", "No jobs are running"):
        assert words in shown
    service.client.cancel_job(waiting["id"])


def test_the_system_page_shows_workers_while_they_have_jobs(service: Service, admin: httpx.Client) -> None:
    job = service.client.create_job("Tidy up")
    with service.desk.database.write() as tx:
        tx.execute(
            runs.update()
            .where(runs.c.job_id == job["id"])
            .values(state="running", worker="host:1:<b>", started_at=clock.now(), lease_until=clock.now() - 1)
        )
    shown = admin.get("/system").text
    assert "host:1:&lt;b&gt;" in shown
    assert "another worker takes over its jobs" in shown
    service.client.cancel_job(job["id"])


@pytest.mark.deep
@pytest.mark.embedded
def test_the_system_page_says_when_every_view_is_counted(service: Service, admin: httpx.Client) -> None:
    assert "No page views yet" in admin.get("/system").text
    service.client.send_events([{"path": "/a", "visitorId": "1", "userAgent": "Mozilla/5.0 Firefox/140.0"}])
    service.client.visitors()  # counts the views that arrived
    shown = admin.get("/system").text
    assert re.search(r'id="backlog">0<', shown)
    assert shown.count('"state good">reachable') == 2
    assert "analytics.duckdb" in shown


def test_system_page_counts_only_waiting_runs(service: Service, admin: httpx.Client) -> None:
    job = service.client.create_job("Tidy up")
    with service.desk.database.write() as tx:
        first = dict(tx.execute(runs.select().where(runs.c.job_id == job["id"])).one()._mapping)
        many = [{**first, "id": f"run_{number}", "number": number + 2, "state": "done"} for number in range(100)]
        tx.execute(insert(runs), many)
    shown = admin.get("/system").text
    assert re.search(r'id="queue-depth">1<', shown)
    with service.desk.database.write() as tx:
        tx.execute(delete(runs).where(runs.c.id.like("run_%"), runs.c.number > 1))
    service.client.cancel_job(job["id"])


@pytest.mark.deep
def test_the_system_page_names_postgresql_and_not_its_address(tmp_path: Path, service: Service) -> None:
    hidden: dict[str, Any] = {"database_url": new_database(), "oidc_client_secret": "hush-hush"}
    with serve(tmp_path / "data", repository=service.repository, **hidden) as other, signed_in_client(other) as admin:
        shown = admin.get("/system").text
    assert "PostgreSQL" in shown
    assert [secret for secret in (*hidden.values(), "postgresql://", str(tmp_path)) if secret in shown] == []


@pytest.mark.usefixtures("admin")  # an admin remains when this one is removed, in any order of tests
def test_names_of_people_are_escaped_everywhere(service: Service) -> None:
    with signed_in_client(service, "admin", "script@example.org") as browser:
        someone = get_or_add_person(service, "admin", "script@example.org")
        with service.desk.database.write() as tx:
            tx.execute(people.update().where(people.c.id == someone.id).values(name="<script>alert(1)</script>"))
        for path in ("/people", "/account", "/system", "/system/audit", f"/people/{someone.id}/remove"):
            answer = browser.get(path)
            assert answer.status_code == 200
            assert "<script>alert" not in answer.text
    service.desk.people.remove(someone.id, actor="test")
