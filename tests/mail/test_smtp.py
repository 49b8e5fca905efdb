"""Sending over SMTP, to a real server with the oddities of real ones."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.settings import BadSettings, Settings, read_settings
from copydesk.mail.message import MailContent, build_message
from copydesk.mail.smtp import MailDelayed, MailFailed, MailRefused, MailServerUnusable, SmtpServer, TlsMode
from tests.support.smtp_server import PASSWORD, USER, SmtpOddities, create_certificate, serve_smtp

SENDER = "Copydesk <desk@example.org>"
RECIPIENT = "ada@example.net"
LONG_LINK = f"<https://example.org/{'u' * 200}>"
HOSTILE = "Docs\r\nBcc: eve@example.com\r\n\r\nInjected\x00\u2028Bcc: x@example.com\u0085X: y"


def make_content(
    subject: str = "Hello", text: str = "Plain.\n", html: str = "<p>Rich.</p>", **headers: str
) -> MailContent:
    return MailContent(RECIPIENT, subject, text, html, headers, "<mail_1@example.org>", 1_760_000_000_000)


def make_server(port: int, tls: TlsMode = "none", password: str = "", **options: float) -> SmtpServer:
    user = USER if password else ""
    return SmtpServer("127.0.0.1", port, tls, SENDER, user, password, **options)


def send(server: SmtpServer, content: MailContent | None = None) -> None:
    server.send(build_message(content or make_content(), server.sender), RECIPIENT)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_certificate(tmp_path_factory.mktemp("certificate"))


def test_mail_arrives_with_both_parts_and_its_headers() -> None:
    with serve_smtp() as server:
        text = "Zoë read 100 %.\n.\n..dots\nFrom here\n" + "long " * 400
        send(
            make_server(server.port),
            make_content("Grüße 📈", text, "<p>Zoë</p>", **{"List-Unsubscribe": LONG_LINK}),
        )
    [message] = server.messages
    assert server.envelopes == [("desk@example.org", RECIPIENT)]
    assert (message["From"], message["To"], message["Subject"]) == (SENDER, RECIPIENT, "Grüße 📈")
    assert (message["Message-ID"], message["Auto-Submitted"]) == ("<mail_1@example.org>", "auto-generated")
    assert f"\r\nList-Unsubscribe: {LONG_LINK}\r\n".encode() in server.raw[0], "not folded or encoded"
    plain, rich = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert rich is not None
    assert plain.get_content().replace("\r\n", "\n") == text + "\n"
    assert rich.get_content().strip() == "<p>Zoë</p>"
    assert max(len(line) for line in server.raw[0].split(b"\r\n")) <= 998
    assert all(byte < 128 for byte in server.raw[0])


@pytest.mark.parametrize("place", ["subject", "sender", "header", "list header"])
def test_no_text_can_add_a_header(place: str) -> None:
    content = make_content(
        HOSTILE if place == "subject" else "Hello",
        **({"header": {"X-Page": HOSTILE}, "list header": {"List-Id": HOSTILE}}.get(place, {})),
    )
    with serve_smtp() as server:
        sender = f"{HOSTILE} <desk@example.org>" if place == "sender" else SENDER
        message = build_message(content, sender)
        make_server(server.port).send(message, RECIPIENT)
    [received] = server.messages
    assert received["Bcc"] is None
    assert received["X"] is None
    assert received.get_content_type() == "multipart/alternative"
    assert server.envelopes == [("desk@example.org", RECIPIENT)]
    head = server.raw[0].partition(b"\r\n\r\n")[0]
    assert b"\nBcc" not in head
    assert b"\nInjected" not in head


def test_every_kind_of_text_can_be_sent() -> None:
    with serve_smtp() as server:
        for subject in (
            "",
            " ",
            "\ud800",
            "x" * 5000,
            "=?utf-8?q?=0D=0ABcc:_x?=",
            "=?utf-8?b?DQpCY2M6IHg=?= =\n?x",
            "٣" * 300,
            "\u202e reversed",
        ):
            send(make_server(server.port), make_content(subject, subject, subject))
    assert len(server.messages) == 8
    assert all(message["Bcc"] is None for message in server.messages)


def test_address_that_the_server_cannot_take_is_refused() -> None:
    with serve_smtp() as server, pytest.raises(MailRefused, match="SMTPUTF8"):
        make_server(server.port).send(build_message(make_content(), SENDER), "zoë@example.net")


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_tls_is_used_and_its_certificate_is_verified(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, tls: TlsMode
) -> None:
    oddities = SmtpOddities(offers_starttls=tls == "starttls", requires_login=True)
    with serve_smtp(oddities, certificate, is_tls=tls == "tls") as server:
        mail_server = make_server(server.port, tls, PASSWORD)
        with pytest.raises(MailServerUnusable, match=r"(?i)certificate"):
            send(mail_server)
        assert server.logins == [], "no password is sent to a server that is not verified"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        send(mail_server)
        assert "answers" in mail_server.check()
    assert len(server.messages) == 1
    assert set(server.logins) == {(USER, PASSWORD)}
    assert [command for command in server.plaintext_commands if not command.startswith(("ehlo", "STARTTLS"))] == []


def test_server_without_starttls_gets_no_mail_and_no_password() -> None:
    with serve_smtp(SmtpOddities(requires_login=True)) as server, pytest.raises(MailServerUnusable, match="STARTTLS"):
        send(make_server(server.port, "starttls", PASSWORD))
    assert (server.messages, server.logins) == ([], [])


def test_wrong_password_is_an_error_that_does_not_contain_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_smtp(SmtpOddities(requires_login=True)) as server, pytest.raises(MailServerUnusable) as failure:
        send(make_server(server.port, password="a wrong password"))
    assert server.logins
    assert "a wrong password" not in str(failure.value) + caplog.text
    assert "535" in str(failure.value)
    assert "a wrong password" not in repr(make_server(server.port, password="a wrong password"))


CASES: list[tuple[Callable[[], SmtpOddities], type[MailFailed]]] = [
    (lambda: SmtpOddities(recipient_replies=["451 4.7.1 greylisted"]), MailDelayed),
    (lambda: SmtpOddities(recipient_replies=["550 5.1.1 no such user"]), MailRefused),
    (lambda: SmtpOddities(mail_replies=["452 4.3.1 disk full"]), MailDelayed),
    (lambda: SmtpOddities(mail_replies=["553 5.7.1 not your address"]), MailRefused),
    (lambda: SmtpOddities(requires_login=True), MailServerUnusable),
    (lambda: SmtpOddities(data_replies=["554 5.7.1 spam"]), MailRefused),
    (lambda: SmtpOddities(data_replies=["451 4.3.0 later"]), MailDelayed),
    (lambda: SmtpOddities(data_replies=["421 4.3.2 shutting down"]), MailServerUnusable),
    (lambda: SmtpOddities(drops_in_data=1), MailServerUnusable),
    (lambda: SmtpOddities(drops_after_data=1), MailServerUnusable),
    (lambda: SmtpOddities(greeting="554 no service"), MailServerUnusable),
    (lambda: SmtpOddities(greeting="SSH-2.0-OpenSSH"), MailServerUnusable),
]


@pytest.mark.parametrize(("make_oddities", "expected"), CASES)
def test_failures_are_told_apart(make_oddities: Callable[[], SmtpOddities], expected: type[MailFailed]) -> None:
    with serve_smtp(make_oddities()) as server, pytest.raises(expected) as failure:
        send(make_server(server.port))
    assert failure.value.is_permanent == (expected is MailRefused)


def test_unreachable_server_is_unusable() -> None:
    with serve_smtp() as server:
        port = server.port
    with pytest.raises(MailServerUnusable, match="unavailable"):
        send(make_server(port))


def test_slow_server_is_given_up_in_time() -> None:
    with serve_smtp(SmtpOddities(delay_seconds=0.2)) as server, pytest.raises(MailServerUnusable):
        send(make_server(server.port, socket_seconds=5, delivery_seconds=3))
    with serve_smtp(SmtpOddities(delay_seconds=20)) as server, pytest.raises(MailServerUnusable, match="timed out"):
        send(make_server(server.port, socket_seconds=1))


def test_settings_of_mail_are_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SmtpServer.from_settings(Settings()) is None
    server = SmtpServer.from_settings(Settings(smtp_host="mail.example.org", smtp_from=SENDER))
    assert server is not None
    assert (server.port, server.tls) == (587, "starttls")
    monkeypatch.setenv("COPYDESK_SMTP_HOST", "mail.example.org")
    for name, value in (("FROM", "nobody"), ("PORT", "99999"), ("TLS", "maybe")):
        monkeypatch.setenv("COPYDESK_SMTP_FROM", SENDER)
        monkeypatch.setenv(f"COPYDESK_SMTP_{name}", value)
        with pytest.raises(BadSettings, match=f"COPYDESK_SMTP_{name}"):
            read_settings()
        monkeypatch.delenv(f"COPYDESK_SMTP_{name}")
    monkeypatch.setenv("COPYDESK_SMTP_FROM", SENDER)
    monkeypatch.setenv("COPYDESK_SMTP_PASSWORD", "secret password")
    assert "secret password" not in repr(read_settings())
    monkeypatch.setenv("COPYDESK_SMTP_TLS", "none")
    with pytest.raises(BadSettings, match="COPYDESK_SMTP_TLS") as failure:
        read_settings()
    assert "secret password" not in str(failure.value)


@pytest.mark.deep
def test_command_sends_a_test_mail_and_doctor_checks_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = CliRunner()
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path))
    assert "not configured" in run.invoke(app, ["doctor"]).stdout
    assert run.invoke(app, ["mail", "test", RECIPIENT]).exit_code == 1
    monkeypatch.setenv("COPYDESK_SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("COPYDESK_SMTP_FROM", SENDER)
    monkeypatch.setenv("COPYDESK_SMTP_TLS", "none")
    with serve_smtp(SmtpOddities(recipient_replies=["550 no such user"])) as server:
        monkeypatch.setenv("COPYDESK_SMTP_PORT", str(server.port))
        refused = run.invoke(app, ["mail", "test", RECIPIENT])
        assert (refused.exit_code, "550 no such user" in refused.stderr) == (1, True)
        sent = run.invoke(app, ["mail", "test", RECIPIENT])
        assert (sent.exit_code, "accepted the mail to ada@example.net" in sent.stdout) == (0, True)
        assert "✓ mail: 127.0.0.1" in run.invoke(app, ["doctor"]).stdout
        assert len(server.messages) == 1
    checked = run.invoke(app, ["doctor"])
    assert (checked.exit_code, "✗ mail" in checked.stdout) == (1, True)
