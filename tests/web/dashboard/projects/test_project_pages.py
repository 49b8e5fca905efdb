"""Projects in the dashboard: the list, creating one, its settings and secrets, and the first steps of an empty one."""

import html
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import update

from copydesk.core import audit_log
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.privacy_choices import PRIVACY_CHANGE_NOTE, PRIVACY_CHOICES
from copydesk.core.projects.projects import CHANGEABLE_FIELDS, Project
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import jobs
from copydesk.web.dashboard.projects import project_list as pages
from copydesk.web.dashboard.projects.setting_fields import SETTING_GROUPS
from tests.support.forges import github
from tests.support.git_http import GitHttpServer
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve

XSS = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
TOKEN = "a-forge-token-that-nobody-may-see"
OLD_VALUE_PATTERN = re.compile(r'name="was-(\w+)" value="([^"]*)"')
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
ON_GITHUB = {"repository": "https://github.com/acme/docs", "forge": "github", "ref": "main"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("pages")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def admin(service: Service) -> httpx.Client:
    return signed_in_client(service)


@pytest.fixture
def project(service: Service) -> Project:
    """A new project on GitHub."""
    return service.desk.projects.create("Handbook", actor="test", **ON_GITHUB)


def post_form(client: httpx.Client, path: str, seen_at: str = "/projects/new", **fields: str) -> httpx.Response:
    return client.post(path, data={"token": csrf_token_from_html(client.get(seen_at).text), **fields})


def get_created_project(service: Service, response: httpx.Response) -> Project:
    """Returns the project that a form created."""
    assert response.status_code == 303, response.text
    found = re.fullmatch(r"/projects/(proj_\w+)/start", response.headers["location"])
    assert found
    return service.desk.projects.get(found[1])


def read_database_files(service: Service) -> bytes:
    """Returns all bytes of the database on disk."""
    folder = service.desk.settings.data
    return b"".join(file.read_bytes() for file in folder.glob("copydesk.db*"))


@contextmanager
def silent_host() -> Iterator[str]:
    """Accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []
        threading.Thread(target=lambda: kept.append(listener.accept()[0]), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/docs.git"


def test_new_installation_redirects_to_creating_a_project(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as fresh:
        with fresh.desk.database.write() as tx:
            for table in ("audit", "keys", "projects"):
                tx.exec_driver_sql(f"delete from {table}")
        shown = signed_in_client(fresh).get("/projects").text
        assert "No projects yet" in shown
        assert 'href="/projects/new"' in shown
        assert 'href="/projects/new"' not in signed_in_client(fresh, "viewer").get("/projects").text


@pytest.mark.deep
def test_a_project_is_listed_with_its_jobs_visitors_and_pull_requests(service: Service, admin: httpx.Client) -> None:
    other = service.another_project("Counted")
    seen = [{"path": "/a", "ip": f"192.0.2.{n}", "userAgent": FIREFOX} for n in range(7)]
    seen += [{"path": "/b", "ip": "198.51.100.1", "userAgent": "ChatGPT-User/1.0"}]
    assert other.http.post(f"/v1/analytics/{other.project.id}/events", json=seen).json()["accepted"] == 8
    service.desk.fold_scheduler.wait_until_folded()
    for number in range(3):
        job = service.desk.jobs.create(other.project, NewJob("Replace a with b.")).job
        with service.desk.database.write() as tx:
            link = {"pr_link": "https://forge.example.org/1", "status": "completed" if number else "archived"}
            tx.execute(update(jobs).where(jobs.c.id == job.id).values(link))
    service.desk.jobs.create(other.project, NewJob("Replace a with b."))
    shown = admin.get("/projects").text.partition("Counted")[2].partition("</li>")[0]
    assert re.findall(r"<dd>([\d,]+)</dd>", shown) == ["8", "1", "2"]
    assert "7 human, 1 AI" in shown


@pytest.mark.deep
def test_search_finds_projects_by_words_of_name_and_repository(service: Service, admin: httpx.Client) -> None:
    for name in ("Käse handbook", "Handbook of tea", "Other"):
        service.another_project(name)

    def list_names(search: str) -> list[str]:
        shown = admin.get("/projects", params={"search": search}).text
        return [html.unescape(name) for name in re.findall(r'<h2 dir="auto"><a [^>]*>(.*?)</a>', shown)]

    assert sorted(list_names("HANDBOOK")) == ["Handbook of tea", "Käse handbook"]
    assert list_names("tea hand") == ["Handbook of tea"]
    assert set(list_names("Other docs.git")) == {"Other"}
    shown = admin.get("/projects", params={"search": "<b>nowhere"}).text
    assert "No project has “&lt;b&gt;nowhere”" in shown
    assert admin.get("/projects", params={"page": "x"}).status_code == 400


def test_long_list_of_projects_has_pages_that_keep_the_search(
    service: Service, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copydesk.web.dashboard.projects.project_list.PROJECTS_PER_PAGE", 2)
    for number in range(3):
        service.another_project(f"Paged & {number}")
    first = admin.get("/projects", params={"search": "paged &"}).text
    link = re.search(r'href="([^"]*)" rel="next"', first)
    assert link
    second = admin.get(html.unescape(link[1])).text
    names = re.findall(r"Paged &amp; (\d)</a>", first + second)
    assert names == ["0", "1", "2"]
    assert 'rel="next"' not in second
    assert "There are no more projects" in admin.get("/projects", params={"page": 99}).text


@pytest.mark.deep
def test_list_counts_with_the_ai_classes_of_each_project(service: Service, admin: httpx.Client) -> None:
    other = service.another_project("Classes")
    events = f"/v1/analytics/{other.project.id}/events"
    assert other.http.post(events, json={"path": "/", "ip": "192.0.2.1", "userAgent": "GPTBot/1.0"}).status_code == 202
    assert other.http.post(events, json={"path": "/", "ip": "192.0.2.2", "userAgent": FIREFOX}).status_code == 202
    other.http.get(f"/v1/analytics/{other.project.id}/visitors")
    service.desk.projects.change(other.project.id, {"ai_classes": "assistant,training"}, actor="test")
    shown = admin.get("/projects").text.partition("Classes")[2].partition("</li>")[0]
    assert "1 human, 1 AI" in shown


def test_project_is_created_with_the_default_branch_and_shows_its_setup(service: Service, admin: httpx.Client) -> None:
    response = post_form(admin, "/projects/new", name="New", repository=str(service.repository), root="docs")
    project = get_created_project(service, response)
    assert (project.name, project.ref, project.root, project.forge) == ("New", "main", "docs", "local")


def test_privacy_is_chosen_with_its_consequences_when_a_project_is_created(
    service: Service, admin: httpx.Client
) -> None:
    shown = html.unescape(admin.get("/projects/new").text)
    for choice in PRIVACY_CHOICES:
        assert choice.title in shown
        assert choice.consequence in shown
    assert PRIVACY_CHANGE_NOTE in shown
    assert 'name="privacy" value="lasting" required checked' in shown
    fields = {"name": "Private", "repository": str(service.repository)}
    assert get_created_project(service, post_form(admin, "/projects/new", **fields)).collecting.privacy == "lasting"
    chosen = get_created_project(
        service, post_form(admin, "/projects/new", **{**fields, "name": "Daily"}, privacy="daily")
    )
    assert chosen.collecting.privacy == "daily"
    settings_page = html.unescape(admin.get(f"/projects/{chosen.id}/settings").text)
    assert 'name="privacy" value="daily" required checked' in settings_page
    assert all(choice.consequence in settings_page for choice in PRIVACY_CHOICES)
    refused = post_form(admin, "/projects/new", **fields, privacy="hourly")
    assert refused.status_code == 400
    assert 'id="privacy-fault"' in refused.text
    kept = post_form(admin, "/projects/new", name="", repository="/nowhere", privacy="monthly")
    assert 'name="privacy" value="monthly" required checked' in kept.text


def test_second_project_of_the_same_name_needs_a_confirmation(service: Service, admin: httpx.Client) -> None:
    fields = {"name": "Twice", "repository": str(service.repository), "ref": "main"}
    assert "allow_same_name" not in admin.get("/projects/new").text
    first = get_created_project(service, post_form(admin, "/projects/new", **fields))
    refused = post_form(admin, "/projects/new", **{**fields, "name": "twice"})
    assert refused.status_code == 400
    shown = html.unescape(refused.text)
    assert f"There is already a project named 'Twice': {first.id}." in shown
    assert 'value="twice"' in shown
    assert 'name="allow_same_name"' in shown
    second = get_created_project(service, post_form(admin, "/projects/new", **fields, allow_same_name="true"))
    assert second.name == first.name


def test_form_errors_are_shown_by_field_and_values_are_kept(admin: httpx.Client) -> None:
    wrong = {"name": "a\r\nX-Header: b", "repository": "git@host:a/b", "ref": "a..b", "root": "../x"}
    response = post_form(admin, "/projects/new", **wrong)
    assert response.status_code == 400
    for field in wrong:
        assert f'id="{field}-fault"' in response.text
    assert 'value="a..b"' in response.text
    response = post_form(admin, "/projects/new", name="A", repository="/nowhere", model="gpt")
    assert 'id="model-fault"' in response.text
    assert "There is no model" in response.text


def test_missing_branch_is_refused_with_a_list_of_branches(
    service: Service, admin: httpx.Client, tmp_path: Path
) -> None:
    repository = pygit2.Repository(str(make_repository(tmp_path / "two.git", {"index.md": b"# One\n"})))
    commit(repository, {"index.md": b"# Two\n"}, branch="dev")
    before = len(service.desk.projects.all())
    response = post_form(admin, "/projects/new", name="A", repository=str(tmp_path / "two.git"), ref="trunk")
    assert response.status_code == 422
    assert "The repository has no branch trunk; it has dev and main." in response.text
    response = post_form(admin, "/projects/new", name="A", repository=str(tmp_path / "two.git"), ref="HEAD")
    assert "The repository has no branch HEAD" in response.text
    assert len(service.desk.projects.all()) == before


def test_missing_repository_is_refused(admin: httpx.Client, tmp_path: Path) -> None:
    response = post_form(admin, "/projects/new", name="A", repository=str(tmp_path / "none"))
    assert response.status_code == 422
    assert "does not appear to be a git repository" in response.text


def test_silent_host_times_out(admin: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "REPOSITORY_TIMEOUT_SECONDS", 0.3)
    with silent_host() as address:
        begun = time.monotonic()
        response = post_form(admin, "/projects/new", name="A", repository=address)
        assert response.status_code == 422
        assert "took longer than" in response.text
        assert time.monotonic() - begun < 60


def test_private_addresses_can_be_refused(service: Service, admin: httpx.Client) -> None:
    for repository in ("http://127.0.0.1:9/docs.git", str(service.repository)):
        response = post_form(admin, "/projects/new", name="A", repository=repository, forbid_private="true")
        assert response.status_code == 422
        assert re.search("resolves to a private address|at public addresses", response.text)


def test_a_token_that_may_not_push_is_refused_and_a_good_one_is_sealed(
    service: Service, admin: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with github(tmp_path) as fake:
        fake.add_token(TOKEN)
        fields = {"name": "A", "forge": "github", "repository": fake.repository_url("acme/docs"), "secret": TOKEN}
        access, fake.users["copydesk"].access = fake.users["copydesk"].access, "read"
        refused = post_form(admin, "/projects/new", **fields)
        assert refused.status_code == 422
        assert "cannot be pushed to with this token" in refused.text
        fake.users["copydesk"].access = access
        project = get_created_project(service, post_form(admin, "/projects/new", **fields))
    assert service.desk.secrets.get(project.id, "forge_token") == TOKEN
    shown = admin.get(f"/projects/{project.id}/settings").text
    assert "Forge token" in shown
    for place in (refused.text, shown, admin.get("/projects").text, caplog.text):
        assert TOKEN not in place
    assert TOKEN.encode() not in read_database_files(service)


def test_a_wrong_token_is_not_repeated_in_the_refusal(service: Service, admin: httpx.Client, tmp_path: Path) -> None:
    make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with GitHttpServer(tmp_path, token="right") as git:
        response = post_form(admin, "/projects/new", name="Sealed", repository=git.url("docs.git"), secret=TOKEN)
        assert response.status_code == 422
        assert "refused the token" in response.text
        assert TOKEN not in response.text
        project = get_created_project(
            service, post_form(admin, "/projects/new", name="Sealed", repository=git.url("docs.git"), secret="right")
        )
        path = f"/projects/{project.id}"
        assert "Access works." in post_form(admin, f"{path}/check", f"{path}/settings").text
        service.desk.secrets.set(project.id, "forge_token", TOKEN, actor="test")
        checked = post_form(admin, f"{path}/check", f"{path}/settings").text
        assert "refused the token" in checked
        assert TOKEN not in checked


def test_every_setting_has_one_field_with_help(admin: httpx.Client, project: Project) -> None:
    names = [name for group in SETTING_GROUPS for name in group.names]
    assert sorted(names) == sorted([*CHANGEABLE_FIELDS, *Policy.model_fields, *CollectionOptions.model_fields])
    shown = admin.get(f"/projects/{project.id}/settings").text
    for name in set(names) - {"token_env"}:
        assert f'name="{name}"' in shown
        assert f'id="{name}-help"' in shown
    assert "The prefix of the job branches." in shown


def test_only_changed_settings_are_saved(service: Service, admin: httpx.Client, project: Project) -> None:
    path = f"/projects/{project.id}/settings"
    response = post_form(admin, path, path, group="project", name="Guide", ref="main", root="", model="mechanic")
    assert response.headers["location"] == f"{path}?saved=project#project"
    post_form(admin, path, path, group="pulls", branch_prefix="docs/", draft="true", labels="docs, agent",
           on_check_failure="fail", mention="@copydesk", max_open_pull_requests="5")  # fmt: skip
    response = admin.post(path, data={"token": csrf_token_from_html(admin.get(path).text), "group": "collecting",
                                      "base_path": "/docs", "ai_classes": ["search", "assistant"]})  # fmt: skip
    assert response.status_code == 303
    changed = service.desk.projects.get(project.id)
    assert (changed.name, changed.ref, changed.root, changed.model) == ("Guide", "main", "", "mechanic")
    assert (changed.policy.draft, changed.policy.labels) == (True, ("docs", "agent"))
    assert changed.policy.branch_prefix == "docs/"
    assert changed.collecting.ai_classes == ("assistant", "search")
    assert "Saved." in admin.get(f"{path}?saved=pulls").text
    for _ in range(2):
        post_form(admin, path, path, group="pulls", branch_prefix="docs/", labels="docs, agent",
                  on_check_failure="fail", mention="@copydesk", max_open_pull_requests="5")  # fmt: skip
    newest, before = audit_log.list_entries(service.desk.database, project.id, 2)
    assert (newest["actor"], newest["details"]) == ("admin@example.org", {"fields": ["draft"]})
    assert before["details"] == {"fields": ["ai_classes", "base_path"]}


@pytest.mark.deep
def test_missing_folder_is_reported_once_after_the_project_was_created(service: Service, admin: httpx.Client) -> None:
    response = post_form(admin, "/projects/new", name="No folder", repository=str(service.repository), root="handbook")
    project = get_created_project(service, response)
    assert project.root == "handbook"
    start = f"/projects/{project.id}/start"
    assert "There is no folder handbook on the branch main" in admin.get(start).text
    assert "There is no folder handbook" not in admin.get(start).text
    good = post_form(admin, "/projects/new", name="Folder", repository=str(service.repository), root="docs")
    assert "There is no folder" not in admin.get(good.headers["location"]).text


@pytest.mark.deep
def test_missing_branch_or_folder_is_saved_with_a_warning(service: Service, admin: httpx.Client) -> None:
    project = service.desk.projects.create("Docs", repository=str(service.repository), ref="main", actor="test")
    path = f"/projects/{project.id}/settings"
    fields = {"group": "project", "name": "Docs", "ref": "main", "root": "", "model": ""}
    for change, words in (
        ({"ref": "nowhere"}, "The repository has no branch nowhere; it has main."),
        ({"root": "site/docs"}, "There is no folder site/docs on the branch main"),
    ):
        response = post_form(admin, path, path, **{**fields, **change})
        assert response.headers["location"] == f"{path}?saved=project#project"
        shown = admin.get(response.headers["location"]).text
        assert f"Saved, but: {words}" in shown
        assert words not in admin.get(path).text, "it is shown once"
        assert words in post_form(admin, f"/projects/{project.id}/check", path).text
    assert service.desk.projects.get(project.id).root == "site/docs"
    post_form(admin, path, path, **{**fields, "root": "docs"})
    assert "Saved, but" not in admin.get(path).text


def test_stale_form_does_not_undo_changes_by_others(service: Service, admin: httpx.Client, project: Project) -> None:
    path = f"/projects/{project.id}/settings"
    shown = {"group": "project", "name": "Handbook", "ref": "main", "root": "", "model": ""}
    was = {
        f"was-{name}": html.unescape(value)
        for name, value in OLD_VALUE_PATTERN.findall(admin.get(path).text)
        if name in shown
    }
    service.desk.projects.change(project.id, {"ref": "next"}, actor="somebody else")
    post_form(admin, path, path, **{**shown, **was, "name": "Guide", "ref": was["was-ref"]})
    changed = service.desk.projects.get(project.id)
    assert (changed.name, changed.ref) == ("Guide", "next")


def test_invalid_value_is_shown_at_its_field_and_changes_nothing(
    service: Service, admin: httpx.Client, project: Project
) -> None:
    path = f"/projects/{project.id}/settings"
    response = post_form(
        admin, path, path, group="pulls", branch_prefix="no end", on_check_failure="draft", mention="ok"
    )
    assert response.status_code == 400
    assert 'id="branch_prefix-fault"' in response.text
    assert 'id="mention-fault"' in response.text
    assert 'value="no end"' in response.text
    response = post_form(admin, path, path, group="project", name="", ref="..")
    assert 'id="name-fault"' in response.text
    assert 'id="ref-fault"' in response.text
    response = post_form(admin, path, path, group="checks", ignored_checks="nonsense", check_minutes="5")
    assert 'id="ignored_checks-fault"' in response.text
    assert post_form(admin, path, path, group="nonsense").status_code == 400
    assert service.desk.projects.get(project.id) == project


def test_dashboard_cannot_set_the_token_environment_variable(
    service: Service, admin: httpx.Client, project: Project
) -> None:
    path, fields = f"/projects/{project.id}/settings", {"group": "project", "name": "Handbook", "ref": "main"}
    post_form(admin, path, path, **fields, token_env="HOME")
    assert service.desk.projects.get(project.id).token_env is None
    service.desk.projects.change(project.id, {"token_env": "DOCS_TOKEN"}, actor="test")
    refused = post_form(admin, path, path, **fields, token_env="HOME")
    assert refused.status_code == 400
    assert 'id="token_env-fault"' in refused.text
    post_form(admin, path, path, **fields, token_env="")
    assert service.desk.projects.get(project.id).token_env is None


@pytest.mark.deep
def test_secret_is_replaced_and_removed_and_never_shown(
    service: Service, admin: httpx.Client, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = f"/projects/{project.id}"
    for value in (TOKEN, f"{TOKEN}-anew"):
        response = post_form(admin, f"{path}/secrets", f"{path}/settings", name="model_key_openai", value=value)
        assert response.headers["location"] == f"{path}/settings?saved=secrets#secrets"
    assert service.desk.secrets.get(project.id, "model_key_openai") == f"{TOKEN}-anew"
    shown = admin.get(f"{path}/settings").text
    assert shown.count('<span class="state good">set</span>') == 1
    assert TOKEN not in shown + caplog.text
    assert TOKEN.encode() not in read_database_files(service)
    for name in ("nonsense", "visitor_key"):
        assert post_form(admin, f"{path}/secrets", f"{path}/settings", name=name, value="x").status_code == 400
    assert post_form(admin, f"{path}/secrets", f"{path}/settings", name="app_key", value=" ").status_code == 400
    post_form(admin, f"{path}/secrets/remove", f"{path}/settings", name="model_key_openai")
    assert service.desk.secrets.read_update_times(project.id) == {}
    assert post_form(admin, f"{path}/secrets/remove", f"{path}/settings", name="model_key_openai").status_code == 404


def test_a_webhook_is_explained_and_its_secret_shown_once(
    service: Service, admin: httpx.Client, project: Project
) -> None:
    path = f"/projects/{project.id}"
    shown = admin.get(f"{path}/settings").text
    assert f"{service.url}/webhooks/{project.id}" in shown
    assert "Pull request review comments" in shown
    answer = post_form(admin, f"{path}/webhook-secret", f"{path}/settings")
    secret = service.desk.secrets.get(project.id, "webhook_secret")
    assert secret
    assert answer.text.count(secret) == 1
    assert "no-store" in answer.headers["cache-control"]
    assert secret not in admin.get(f"{path}/settings").text
    local = f"/projects/{service.project.id}"
    assert "/webhooks/" not in admin.get(f"{local}/settings").text
    assert post_form(admin, f"{local}/webhook-secret", f"{local}/settings").status_code == 404


@pytest.mark.deep
def test_empty_project_shows_setup_until_the_first_view(
    service: Service, admin: httpx.Client, project: Project
) -> None:
    path = f"/projects/{project.id}"
    assert admin.get(path).headers["location"] == f"{path}/start"
    shown = admin.get(f"{path}/start").text
    assert project.site_id in shown
    assert f"/v2/agent/{project.id}/job" in shown
    assert service.url in shown
    todo = {"people": False, "ai": False, "job": False, "key": False}
    assert admin.get(f"{path}/start.json").json() == {"steps": todo, "next": None, "uncounted": 0}
    service.desk.keys.create(project.id, actor="test")
    assert admin.get(f"{path}/start.json").json()["steps"]["key"]
    view = {"u": "https://docs.example.com/guide"}
    sent = httpx.post(
        f"{service.url}/v1/collect/{project.site_id}", json=view, headers={"User-Agent": FIREFOX}, timeout=60
    )
    assert sent.is_success
    state = admin.get(f"{path}/start.json").json()
    assert state == {"steps": {**todo, "key": True, "people": True}, "next": f"{path}/readership", "uncounted": 0}
    for away in (path, f"{path}/start"):
        assert admin.get(away).headers["location"] == f"{path}/readership"
    assert admin.get(f"{path}/start?stay=true").status_code == 200


def test_project_with_a_job_opens_its_readership(service: Service, admin: httpx.Client, project: Project) -> None:
    service.desk.jobs.create(project, NewJob("Replace a with b."))
    assert admin.get(f"/projects/{project.id}").headers["location"] == f"/projects/{project.id}/readership"


def test_user_text_is_escaped_on_every_page(service: Service, admin: httpx.Client) -> None:
    project = service.desk.projects.create(XSS, actor=XSS, repository=f"/nowhere/{XSS}", ref="main", root="docs")
    changed = {"check_command": XSS, "labels": XSS, "model": XSS, "root": XSS.replace("/", "")}
    service.desk.projects.change(project.id, changed, actor="test")
    base = f"/projects/{project.id}"
    pages = [admin.get(path) for path in ("/projects", f"{base}/settings", f"{base}/start", f"{base}/keys")]
    pages.append(post_form(admin, "/projects/new", name=XSS, repository=f"/nowhere{XSS}", ref=XSS, root=XSS, model=XSS))
    pages.append(post_form(admin, f"{base}/settings", f"{base}/settings", group="project", name=XSS * 9, ref=XSS))
    for shown in pages:
        assert "&lt;img src=x" in shown.text
        assert "<img" not in shown.text
        assert "<script>" not in shown.text
        assert "'unsafe" not in shown.headers["content-security-policy"]


def test_unknown_project_returns_404(admin: httpx.Client) -> None:
    for rest in ("", "/start", "/start.json", "/settings"):
        assert admin.get(f"/projects/proj_00000000000000000000000000{rest}").status_code == 404


POSTS = ("/projects/new", "{}/settings", "{}/check", "{}/secrets", "{}/secrets/remove", "{}/webhook-secret")


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_only_an_administrator_changes_a_project(service: Service, project: Project, post: str, role: str) -> None:
    client, path = signed_in_client(service, role), f"/projects/{project.id}"
    token = csrf_token_from_html(client.get(f"{path}/settings").text)
    fields = {"name": "webhook_secret", "group": "project", "value": "x", "ref": "other", "repository": "/nowhere"}
    assert client.post(post.format(path), data={"token": token, **fields}).status_code == 403
    assert service.desk.projects.get(project.id) == project
    assert service.desk.secrets.read_update_times(project.id) == {}


@pytest.mark.parametrize("post", POSTS)
def test_cross_site_form_changes_nothing(service: Service, admin: httpx.Client, project: Project, post: str) -> None:
    path = f"/projects/{project.id}"
    token = csrf_token_from_html(admin.get(f"{path}/settings").text)
    fields = {"name": "webhook_secret", "group": "project", "value": "x", "ref": "other", "repository": "/nowhere"}
    where = post.format(path)
    for headers, sent in (
        ({"Sec-Fetch-Site": "cross-site"}, {"token": token}),
        ({"Sec-Fetch-Site": "same-site"}, {"token": token}),
        ({"Origin": "https://evil.example.org"}, {"token": token}),
        ({"Sec-Fetch-Site": "same-origin"}, {"token": "0" * 64}),
        ({"Sec-Fetch-Site": "same-origin"}, {}),
    ):
        assert admin.post(where, data={**sent, **fields}, headers=headers).status_code == 403
    assert service.desk.projects.get(project.id) == project
    assert service.desk.secrets.read_update_times(project.id) == {}
