"""Over TLS, a delivery reaches the checked address and only a receiver with the certificate of the host."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from copydesk.webhooks.targets import Target
from copydesk.webhooks.transport import HttpTransport, NoReply, Reply
from tests.support.webhook_receiver import OK

HOST = "hooks.example"
BODY = b"{}"


def write_certificate(folder: Path) -> Path:
    """Writes a self-signed certificate of HOST with its key into one file, and returns it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "certificate.pem"
    file.write_bytes(
        certificate.public_bytes(encoding) + key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    )
    return file


@contextmanager
def receive_over_tls(certificate: Path) -> Iterator[tuple[int, list[str | None]]]:
    """Answers one request. Yields the port, and the names of hosts that clients ask for."""
    names: list[str | None] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda connection, name, _: names.append(name)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection, context.wrap_socket(connection, server_side=True) as encrypted:
                    received = b""
                    while not received.endswith(BODY):
                        received += encrypted.recv(65536)
                    encrypted.sendall(OK)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], names
        thread.join(timeout=60)


def send(host: str, port: int, context: ssl.SSLContext) -> Reply:
    target = Target("https", host, port, "/hook")
    return asyncio.run(HttpTransport(context).post(target, ["127.0.0.1"], {"Webhook-Id": "msg_1"}, BODY))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path)


def test_receiver_is_asked_for_the_host_at_the_checked_address(certificate: Path) -> None:
    with receive_over_tls(certificate) as (port, names):
        assert send(HOST, port, ssl.create_default_context(cafile=str(certificate))).status == 204
    assert names == [HOST]


@pytest.mark.parametrize("host", ["other.example", "127.0.0.1"])
def test_certificate_of_another_host_is_refused(certificate: Path, host: str) -> None:
    with receive_over_tls(certificate) as (port, _), pytest.raises(NoReply, match=r"certificate of .* is not valid"):
        send(host, port, ssl.create_default_context(cafile=str(certificate)))


def test_certificate_that_nobody_trusts_is_refused(certificate: Path) -> None:
    with receive_over_tls(certificate) as (port, _), pytest.raises(NoReply, match=r"certificate of .* is not valid"):
        send(HOST, port, ssl.create_default_context())
