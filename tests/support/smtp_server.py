"""A small SMTP server with TLS, logins and the oddities of real ones. It keeps what it accepted."""

import base64
import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "desk", "correct horse battery"


@dataclass
class SmtpOddities:
    """How the server behaves. A reply replaces the usual one; a list is used up one by one, then the usual follows."""

    offers_starttls: bool = False
    requires_login: bool = False
    greeting: str = "220 mail.example.org ESMTP"
    mail_replies: list[str] = field(default_factory=list)
    recipient_replies: list[str] = field(default_factory=list)
    data_replies: list[str] = field(default_factory=list)
    """The replies after the text of a message."""
    drops_in_data: int = 0
    """How many connections are closed while the text of a message arrives."""
    drops_after_data: int = 0
    """How many connections are closed after a message was accepted, before the reply."""
    delay_seconds: float = 0
    """The time between two bytes of each reply."""
    after_accepting: Callable[[], None] = lambda: None
    """Called after a message was accepted, before the reply."""


@dataclass
class SmtpServerForTests:
    port: int
    oddities: SmtpOddities
    messages: list[EmailMessage] = field(default_factory=list)
    """The accepted messages, in order."""
    raw: list[bytes] = field(default_factory=list)
    envelopes: list[tuple[str, str]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    plaintext_commands: list[str] = field(default_factory=list)
    """The commands that arrived without encryption."""
    connections: int = 0


@contextmanager
def serve_smtp(
    oddities: SmtpOddities | None = None, certificate: Path | None = None, *, is_tls: bool = False
) -> Iterator[SmtpServerForTests]:
    """Serves on a free port. With `is_tls`, connections begin with TLS."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = SmtpServerForTests(listener.getsockname()[1], oddities or SmtpOddities())

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                server.connections += 1
                threading.Thread(target=run, args=(connection,), daemon=True).start()

        def run(connection: socket.socket) -> None:
            with suppress(OSError, ssl.SSLError, ValueError), connection:
                _Session(server, connection, context).run(is_tls)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)


class _Session:
    def __init__(self, server: SmtpServerForTests, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        self.server, self.oddities, self.context = server, server.oddities, context
        self.connection, self.is_encrypted, self.is_signed_in = connection, False, False
        self.sender = self.recipient = ""
        self.file = connection.makefile("rb")

    def run(self, is_tls: bool) -> None:
        if is_tls:
            self.encrypt()
        self.reply(self.oddities.greeting)
        while line := self.file.readline():
            command = line.decode().rstrip("\r\n")
            if not self.is_encrypted:
                self.server.plaintext_commands.append(command)
            if not self.handle(command):
                return

    def handle(self, command: str) -> bool:
        verb = command.split(" ")[0].upper()
        if verb in ("EHLO", "HELO"):
            offers = ["STARTTLS"] if self.oddities.offers_starttls and not self.is_encrypted else []
            offers += ["AUTH PLAIN"] if self.oddities.requires_login else []
            lines = ["mail.example.org", "8BITMIME", *offers]
            self.reply("\r\n".join(f"250{' ' if line == lines[-1] else '-'}{line}" for line in lines))
        elif verb == "STARTTLS":
            self.reply("220 go ahead")
            self.encrypt()
        elif verb == "AUTH":
            _, user, password = base64.b64decode(command.split(" ")[2]).decode().split("\0")
            self.server.logins.append((user, password))
            self.is_signed_in = (user, password) == (USER, PASSWORD)
            self.reply("235 ok" if self.is_signed_in else f"535 5.7.8 the password {password} is wrong")
        elif verb == "MAIL":
            if self.oddities.requires_login and not self.is_signed_in:
                self.reply("530 5.7.0 sign in first")
            else:
                self.sender = command.partition("<")[2].partition(">")[0]
                self.reply(_next(self.oddities.mail_replies, "250 ok"))
        elif verb == "RCPT":
            self.recipient = command.partition("<")[2].partition(">")[0]
            self.reply(_next(self.oddities.recipient_replies, "250 ok"))
        elif verb == "DATA":
            return self.take_data()
        elif verb == "QUIT":
            self.reply("221 bye")
            return False
        else:
            self.reply("250 ok")
        return True

    def take_data(self) -> bool:
        self.reply("354 go ahead")
        lines = []
        while (line := self.file.readline()) not in (b".\r\n", b""):
            if self.oddities.drops_in_data:
                self.oddities.drops_in_data -= 1
                self.connection.shutdown(socket.SHUT_RDWR)
                return False
            lines.append(line[1:] if line.startswith(b".") else line)
        answer = _next(self.oddities.data_replies, "250 queued")
        if answer.startswith("250"):
            raw = b"".join(lines)
            self.server.raw.append(raw)
            self.server.envelopes.append((self.sender, self.recipient))
            self.server.messages.append(message_from_bytes(raw, policy=policy.default))
            self.oddities.after_accepting()
            if self.oddities.drops_after_data:
                self.oddities.drops_after_data -= 1
                self.connection.shutdown(socket.SHUT_RDWR)
                return False
        self.reply(answer)
        return True

    def encrypt(self) -> None:
        assert self.context is not None
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.file = self.connection.makefile("rb")
        self.is_encrypted = True

    def reply(self, text: str) -> None:
        data = text.encode() + b"\r\n"
        if not self.oddities.delay_seconds:
            self.connection.sendall(data)
            return
        for byte in data:
            self.connection.sendall(bytes([byte]))
            time.sleep(self.oddities.delay_seconds)


def _next(replies: list[str], usual: str) -> str:
    return replies.pop(0) if replies else usual


def create_certificate(folder: Path) -> Path:
    """Creates a certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.example.org")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "mail.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file
