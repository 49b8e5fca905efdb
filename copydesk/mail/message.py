"""Builds the message of a mail: headers that cannot be injected into, plain text and HTML."""

from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import formatdate, parseaddr
from typing import Any, NamedTuple

from copydesk.core.clock import SECOND
from copydesk.core.text.truncation import to_single_line, truncate

MAX_HEADER_CHARS = 200
FALLBACK_DOMAIN = "localhost"


class MailPolicy(EmailPolicy):
    """Writes `List-…` headers on one line: the standard policy would encode a long address, and break it for mail
    programs."""

    def fold(self, name: str, value: Any) -> str:
        return f"{name}: {value}{self.linesep}" if name.startswith("List-") else super().fold(name, value)

    def fold_binary(self, name: str, value: Any) -> bytes:
        return self.fold(name, value).encode() if name.startswith("List-") else super().fold_binary(name, value)


MAIL_POLICY = MailPolicy(linesep="\r\n")
UNICODE_POLICY = MailPolicy(linesep="\r\n", utf8=True)
"""For servers that take addresses in any script."""


class MailContent(NamedTuple):
    recipient: str
    subject: str
    text: str
    html: str
    headers: Mapping[str, str]
    """More headers, such as List-Unsubscribe."""
    message_id: str
    created_at: int


def build_message(content: MailContent, sender: str) -> EmailMessage:
    """Returns the message. It is the same for every attempt, so that a receiver can recognize a repeated one."""
    message = EmailMessage(policy=MAIL_POLICY)
    message["From"] = clean_header(sender)
    message["To"] = clean_header(content.recipient)
    message["Subject"] = clean_header(content.subject)
    message["Date"] = formatdate(content.created_at / SECOND)
    message["Message-ID"] = content.message_id
    message["Auto-Submitted"] = "auto-generated"
    for name, value in content.headers.items():
        message[name] = _disarm("".join(char for char in value if char.isprintable()))
    message.set_content(_clean_body(content.text), cte="quoted-printable")
    message.add_alternative(_clean_body(content.html), subtype="html", cte="quoted-printable")
    return message


def clean_header(text: str) -> str:
    """Returns the text on one line, without control and invisible characters, so that it cannot add a header."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return _disarm(truncate(to_single_line(printable), MAX_HEADER_CHARS))


def format_message_id(mail_id: str, sender: str) -> str:
    """Returns the Message-ID of a mail, in the domain of the sender."""
    return f"<{mail_id}@{find_domain(sender)}>"


def find_domain(sender: str) -> str:
    """Returns the domain of a sender, which may have the form `Name <name@example.org>`."""
    domain = parseaddr(sender)[1].rpartition("@")[2]
    return domain if domain.isascii() and domain else FALLBACK_DOMAIN


def _disarm(value: str) -> str:
    """Breaks encoded words (`=?utf-8?q?=0A?=`), which the email package would decode to the characters in them."""
    return value.replace("=?", "= ?")


def _clean_body(text: str) -> str:
    """Replaces what cannot be encoded, and control characters except line breaks and tabs."""
    kept = "".join(char if char in "\n\t" or ord(char) >= 32 else " " for char in text)
    return kept.encode("utf-8", "replace").decode()
