"""Passwords that people reset by mail, and invitations by mail, over real HTTP and SMTP."""

import re
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import delete, select, text, update

from copydesk.core import clock
from copydesk.core.accounts.password_resets import RESET_LIFETIME_MS, RESET_LIMIT_PER_PERSON
from copydesk.core.db.tables import invitations, limits, people
from copydesk.mail.tables import mails
from tests.support.people import PASSWORD, csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.postgres import new_database
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.smtp_server import SmtpServerForTests, serve_smtp

FORGOT = "/sign-in/forgot"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/join/\w{32}")
NEW_PASSWORD = "another long password"


@pytest.fixture(scope="module")
def smtp() -> Iterator[SmtpServerForTests]:
    with serve_smtp() as server:
        yield server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, smtp: SmtpServerForTests) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("resets")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, **smtp_settings(smtp)) as service:
        yield service


@pytest.fixture
def service(running: Service, smtp: SmtpServerForTests) -> Service:
    """Starts each test without mails and without counted requests."""
    smtp.messages.clear()
    with running.desk.database.write() as tx:
        for table in (limits, mails, invitations):
            tx.execute(delete(table))
    return running


def smtp_settings(smtp: SmtpServerForTests) -> dict[str, Any]:
    return {"smtp_host": "127.0.0.1", "smtp_port": smtp.port, "smtp_tls": "none", "smtp_from": "desk@example.org"}


def browse(service: Service) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=60)


def request_link(service: Service, email: str) -> httpx.Response:
    """Requests a link and waits until the service has done everything that follows."""
    with browse(service) as client:
        response = client.post(FORGOT, data={"email": email})
    wait_for_background_work(service, email)
    return response


def wait_for_background_work(service: Service, email: str) -> None:
    """Waits for the mail if the address has an account with a password; otherwise there is nothing to wait for."""
    query = select(people.c.id).where(people.c.email == email.strip().lower(), people.c.password.is_not(None))
    deadline = clock.now() + 30_000
    with service.desk.database.read() as tx:
        is_expected = tx.execute(query).first() is not None
    while is_expected and not count_mails(service) and clock.now() < deadline:
        time.sleep(0.02)


def count_mails(service: Service) -> int:
    with service.desk.database.read() as tx:
        return len(tx.execute(select(mails.c.id)).all())


def deliver(service: Service, smtp: SmtpServerForTests) -> list[EmailMessage]:
    service.desk.sharing.mail_sender.tick()
    return smtp.messages


def find_links(message: EmailMessage) -> tuple[str, str]:
    """Returns the link of the plain part and of the HTML part."""
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert html is not None
    found = [LINK.search(part.get_content()) for part in (plain, html)]
    assert found[0]
    assert found[1]
    return found[0][0], found[1][0]


def test_person_sets_a_new_password_with_a_link_from_a_mail(service: Service, smtp: SmtpServerForTests) -> None:
    person = get_or_add_person(service, "editor", "ada@example.org")
    old_session = signed_in_client(service, "editor", "ada@example.org")
    assert request_link(service, " Ada@Example.org ").status_code == 200
    [message] = deliver(service, smtp)
    assert (message["To"], message["Subject"]) == ("ada@example.org", "Set a new password for Copydesk")
    link, html_link = find_links(message)
    assert link == html_link
    with browse(service) as client:
        assert client.get(link).status_code == 200
        done = client.post(link, data={"password": NEW_PASSWORD})
        assert done.status_code == 303
        assert client.get(link).status_code == 404, "the link works once"
        assert client.post(link, data={"password": "third long password"}).status_code == 404
    assert old_session.get("/account").status_code == 303, "other sessions end"
    assert service.desk.people.sign_in(person.email, NEW_PASSWORD, "127.0.0.1") == person


def test_mail_leaves_no_link_behind_after_it_was_sent(service: Service, smtp: SmtpServerForTests) -> None:
    get_or_add_person(service, "viewer", "bob@example.org")
    request_link(service, "bob@example.org")
    deliver(service, smtp)
    with service.desk.database.read() as tx:
        row = tx.execute(select(mails)).one()
    assert (row.text, row.html, row.subject, row.project_id) == ("", "", "", None)
    assert row.sent_at is not None


def test_answer_is_the_same_for_known_and_unknown_addresses(service: Service, smtp: SmtpServerForTests) -> None:
    get_or_add_person(service, "viewer", "known@example.org")
    known = request_link(service, "known@example.org")
    unknown = request_link(service, "other@example.org")
    assert known.status_code == unknown.status_code == 200
    assert known.text.replace("known@", "other@") == unknown.text
    ignored = {"x-request-id", "date", "content-length"}
    assert [(k, v) for k, v in known.headers.items() if k not in ignored] == [
        (k, v) for k, v in unknown.headers.items() if k not in ignored
    ]
    assert [message["To"] for message in deliver(service, smtp)] == ["known@example.org"]


@pytest.mark.deep
def test_answer_does_not_wait_for_the_account(tmp_path: Path, smtp: SmtpServerForTests) -> None:
    """While another transaction blocks the work for a known address, its answer still arrives."""
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    settings = {**smtp_settings(smtp), "database_url": new_database()}
    with serve(tmp_path / "data", repository=repository, with_worker=False, **settings) as service:
        get_or_add_person(service, "viewer", "ada@example.org")
        with service.desk.database.write() as tx, browse(service) as client:
            tx.execute(text("lock table invitations in access exclusive mode"))
            for _ in range(2):  # the second request uses the same connection
                assert client.post(FORGOT, data={"email": "ada@example.org"}).status_code == 200
        wait_for_background_work(service, "ada@example.org")
        assert count_mails(service) >= 1


def test_requests_are_limited_for_each_address_whether_it_exists_or_not(service: Service) -> None:
    get_or_add_person(service, "viewer", "often@example.org")
    for email in ("often@example.org", "never@example.org"):
        for _ in range(RESET_LIMIT_PER_PERSON.quota):
            assert request_link(service, email).status_code == 200
        refused = request_link(service, email)
        assert refused.status_code == 429
        assert "retry-after" in refused.headers


@pytest.mark.deep
def test_link_expires_after_an_hour_and_a_new_one_replaces_it(service: Service, smtp: SmtpServerForTests) -> None:
    get_or_add_person(service, "viewer", "slow@example.org")
    request_link(service, "slow@example.org")
    first, _ = find_links(deliver(service, smtp)[-1])
    with service.desk.database.read() as tx:
        expires_at = tx.execute(select(invitations.c.expires_at)).scalar_one()
    assert abs(expires_at - clock.now() - RESET_LIFETIME_MS) < 120_000
    with service.desk.database.write() as tx:
        tx.execute(delete(mails))
    request_link(service, "slow@example.org")
    second, _ = find_links(deliver(service, smtp)[-1])
    with browse(service) as client:
        assert client.get(first).status_code == 404
        assert client.get(second).status_code == 200
        with service.desk.database.write() as tx:
            tx.execute(update(invitations).values(expires_at=clock.now() - 1))
        assert client.post(second, data={"password": NEW_PASSWORD}).status_code == 404


def test_invitation_of_a_person_without_account_is_not_changed(service: Service) -> None:
    secret = service.desk.people.invite("invited@example.org", "viewer", actor="admin@example.org")
    request_link(service, "invited@example.org")
    assert service.desk.people.get_invitation(secret).email == "invited@example.org"


@pytest.mark.parametrize("email", ["", "nothing", "a@b@c", "ada@example.org\r\nBcc: eve@example.org"])
def test_text_that_is_no_address_is_refused(service: Service, email: str) -> None:
    assert request_link(service, email).status_code == 400
    assert count_mails(service) == 0


def test_form_of_another_site_is_refused(service: Service) -> None:
    with browse(service) as client:
        headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert client.post(FORGOT, data={"email": "ada@example.org"}, headers=headers).status_code == 403


@pytest.mark.deep
def test_invitation_goes_out_by_mail_and_is_shown_too(service: Service, smtp: SmtpServerForTests) -> None:
    with signed_in_client(service) as admin:
        token = csrf_token_from_html(admin.get("/account").text)
        page = admin.post("/people/invite", data={"token": token, "email": "new@example.org", "role": "editor"})
        assert "The link is on its way to them by mail." in page.text
        [message] = deliver(service, smtp)
        link, _ = find_links(message)
        assert f'value="{link}"' in page.text
        assert message["To"] == "new@example.org"
        assert "admin@example.org invited you as editor" in str(message.get_body(("plain",)))
    with browse(service) as client:
        assert client.post(link, data={"name": "New", "password": PASSWORD}).status_code == 303


@pytest.mark.parametrize("form", ["/people/invite", "/projects/{project}/people"])
def test_invitation_to_one_project_names_it(service: Service, smtp: SmtpServerForTests, form: str) -> None:
    project = service.project
    with signed_in_client(service) as admin:
        token = csrf_token_from_html(admin.get("/account").text)
        data = {"token": token, "email": "single@example.org", "role": "editor", "project": project.id}
        admin.post(form.format(project=project.id), data=data)
    [message] = deliver(service, smtp)
    expected = "admin@example.org invited you as editor to the project “Docs” in the documentation service at 127.0.0.1"
    assert expected in str(message.get_body(("plain",)).get_content())  # type: ignore[union-attr]
    [link] = {*find_links(message)}
    with browse(service) as client:
        assert "editor in Docs" in client.get(link).text


def test_invitation_without_a_role_names_none(service: Service, smtp: SmtpServerForTests) -> None:
    with signed_in_client(service) as admin:
        token = csrf_token_from_html(admin.get("/account").text)
        admin.post("/people/invite", data={"token": token, "email": "later@example.org", "role": "none"})
    [message] = deliver(service, smtp)
    text = str(message.get_body(("plain",)).get_content())  # type: ignore[union-attr]
    assert "admin@example.org invited you to the documentation service at" in text


def test_withdrawn_invitation_is_not_sent(service: Service, smtp: SmtpServerForTests) -> None:
    with signed_in_client(service) as admin:
        token = csrf_token_from_html(admin.get("/account").text)
        admin.post("/people/invite", data={"token": token, "email": "late@example.org", "role": "viewer"})
        admin.post("/people/withdraw", data={"token": token, "email": "late@example.org"})
    assert deliver(service, smtp) == []


def test_link_of_an_administrator_goes_out_by_mail(service: Service, smtp: SmtpServerForTests) -> None:
    person = get_or_add_person(service, "viewer", "carol@example.org")
    with signed_in_client(service) as admin:
        token = csrf_token_from_html(admin.get("/account").text)
        page = admin.post(f"/people/{person.id}/reset", data={"token": token})
    [message] = deliver(service, smtp)
    assert f'value="{find_links(message)[0]}"' in page.text
    assert message["To"] == "carol@example.org"


def test_without_a_mail_server_pages_say_how_to_pass_on_a_link(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        get_or_add_person(service, "viewer", "ada@example.org")
        with browse(service) as client:
            assert 'href="/sign-in/forgot"' in client.get("/sign-in").text
            for page in (client.get(FORGOT), client.post(FORGOT, data={"email": "ada@example.org"})):
                assert "Ask an administrator for a link" in page.text
        with signed_in_client(service) as admin:
            people_page = admin.get("/people").text
            assert "you get a link to copy and send yourself" in people_page
            token = csrf_token_from_html(people_page)
            made = admin.post("/people/invite", data={"token": token, "email": "new@example.org", "role": "viewer"})
            assert "Copy this link and send it to them." in made.text
        assert count_mails(service) == 0
        with service.desk.database.read() as tx:
            assert [row.email for row in tx.execute(select(invitations.c.email))] == ["new@example.org"]
