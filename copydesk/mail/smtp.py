"""Sends a message to the SMTP server of the settings. Tells failures that may pass from those that will not."""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import parseaddr
from socket import SHUT_RDWR
from threading import Timer
from typing import Literal

from copydesk.core.errors import UserFacingError
from copydesk.core.settings import Settings
from copydesk.core.text.redaction import redact
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.mail.message import UNICODE_POLICY, find_domain

SOCKET_TIMEOUT_SECONDS = 30.0
DELIVERY_TIMEOUT_SECONDS = 240.0
"""After this time, the connection is closed, also if the server keeps sending a byte now and then."""
DEFAULT_PORTS = {"starttls": 587, "tls": 465, "none": 25}
AUTHENTICATION_CODES = frozenset({530, 534, 535, 538})
"""Replies about our account or connection. A corrected setting helps, so the mail is tried again."""
MAX_REPLY_CHARS = 300

TlsMode = Literal["starttls", "tls", "none"]


class MailFailed(UserFacingError):
    """The mail was not accepted. The message has the server's reply, without the password."""

    is_permanent = False


class MailServerUnusable(MailFailed):
    """No mail can be sent now: the server is unreachable, offers no TLS, or rejects our account."""


class MailDelayed(MailFailed):
    """The server asks to try this mail again later."""


class MailRefused(MailFailed):
    """The server will not take this mail, also not later."""

    is_permanent = True


@dataclass(frozen=True)
class SmtpServer:
    host: str
    port: int
    tls: TlsMode
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)
    socket_seconds: float = SOCKET_TIMEOUT_SECONDS
    delivery_seconds: float = DELIVERY_TIMEOUT_SECONDS

    @classmethod
    def from_settings(cls, settings: Settings) -> "SmtpServer | None":
        """Returns the server of the settings; None if there is none, so that nothing is sent."""
        if not settings.smtp_host:
            return None
        return cls(
            host=settings.smtp_host,
            port=settings.smtp_port or DEFAULT_PORTS[settings.smtp_tls],
            tls=settings.smtp_tls,
            sender=settings.smtp_from,
            user=settings.smtp_user,
            password=settings.smtp_password,
        )

    def check(self) -> str:
        """Connects and signs in without sending anything. Returns a description. Raises MailServerUnusable."""
        with self._connect() as connection:
            connection.noop()
        protection = {"starttls": "STARTTLS", "tls": "TLS", "none": "no encryption"}[self.tls]
        account = f", signed in as {self.user}" if self.user else ""
        return f"{self.host}:{self.port} answers, with {protection}{account}"

    def send(self, message: EmailMessage, recipient: str) -> None:
        """Sends the message. Raises a MailFailed unless the server has accepted it."""
        with self._connect() as connection:
            try:
                self._transmit(connection, message, recipient)
            except smtplib.SMTPRecipientsRefused as error:
                raise self._judge(*next(iter(error.recipients.values()))) from None
            except smtplib.SMTPResponseException as error:
                raise self._judge(error.smtp_code, error.smtp_error) from None

    def _transmit(self, connection: smtplib.SMTP, message: EmailMessage, recipient: str) -> None:
        """Sends the message as it is. `SMTP.send_message` would change lines that begin with `From`."""
        sender = parseaddr(self.sender)[1]
        connection.ehlo_or_helo_if_needed()
        if sender.isascii() and recipient.isascii():
            connection.sendmail(sender, [recipient], message.as_bytes())
        elif connection.has_extn("smtputf8"):
            data = message.as_bytes(policy=UNICODE_POLICY)
            connection.sendmail(sender, [recipient], data, mail_options=["SMTPUTF8", "BODY=8BITMIME"])
        else:
            raise MailRefused("The mail server does not support this address (SMTPUTF8).")

    @contextmanager
    def _connect(self) -> Iterator[smtplib.SMTP]:
        """Opens a connection with TLS and login. Errors of the connection become MailServerUnusable."""
        where = f"The mail server {self.host}:{self.port}"
        connection: smtplib.SMTP | None = None
        watchdog: Timer | None = None
        try:
            connection = self._open()
            watchdog = Timer(self.delivery_seconds, _abort, (connection,))
            watchdog.daemon = True
            watchdog.start()
            if self.tls == "starttls":
                connection.starttls(context=ssl.create_default_context())
            if self.user:
                connection.login(self.user, self.password)
            yield connection
        except smtplib.SMTPAuthenticationError as error:
            reason = self._format_reply(error.smtp_code, error.smtp_error)
            raise MailServerUnusable(f"{where} rejected the login: {reason}. Check COPYDESK_SMTP_USER.") from None
        except smtplib.SMTPNotSupportedError as error:
            hint = "Set COPYDESK_SMTP_TLS to what the server offers." if self.tls == "starttls" else ""
            raise MailServerUnusable(f"{where} cannot be used: {self._redact(str(error))} {hint}".strip()) from None
        except smtplib.SMTPResponseException as error:
            reason = self._format_reply(error.smtp_code, error.smtp_error)
            raise MailServerUnusable(f"{where} refused the connection: {reason}.") from None
        except (smtplib.SMTPException, OSError, EOFError) as error:
            reason = self._redact(str(error) or type(error).__name__)
            raise MailServerUnusable(f"{where} is unavailable: {reason}.") from None
        finally:
            if watchdog is not None:
                watchdog.cancel()
            if connection is not None:
                _quit(connection)

    def _open(self) -> smtplib.SMTP:
        name = find_domain(self.sender)
        if self.tls == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, name, timeout=self.socket_seconds, context=context)
        return smtplib.SMTP(self.host, self.port, name, timeout=self.socket_seconds)

    def _judge(self, code: int, reply: bytes | str) -> MailFailed:
        message = f"The mail server answered {self._format_reply(code, reply)}."
        if code in AUTHENTICATION_CODES or code == 421:
            return MailServerUnusable(message)
        return MailRefused(message) if 500 <= code <= 599 else MailDelayed(message)

    def _format_reply(self, code: int, reply: bytes | str) -> str:
        text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
        return f"{code} {self._redact(text)}"

    def _redact(self, text: str) -> str:
        printable = "".join(char if char.isprintable() else " " for char in redact(text, self.password))
        return truncate(to_single_line(printable), MAX_REPLY_CHARS).rstrip(".")


def _abort(connection: smtplib.SMTP) -> None:
    """Closes the connection under a thread that waits for it."""
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(SHUT_RDWR)


def _quit(connection: smtplib.SMTP) -> None:
    """Ends the session. A mail was accepted before, whatever the server answers now."""
    with suppress(smtplib.SMTPException, OSError, EOFError):
        if connection.sock is not None:
            connection.sock.settimeout(5)
            connection.quit()
    connection.close()
