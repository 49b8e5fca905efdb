"""Refuses to send a token over http:// to a host that also offers https://."""

import socket
import ssl
from urllib.parse import urlsplit

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.public_addresses import is_loopback, pin_public_host

HTTPS_PORT = 443
PROBE_TIMEOUT_SECONDS = 3.0
HTTPS_ONLY_HOSTS = ("github.com", "gitlab.com", "codeberg.org", "gitea.com", "ghe.com")


def refuse_plain_http(
    url: str, *, allow_private: bool = True, https_port: int = HTTPS_PORT, context: ssl.SSLContext | None = None
) -> None:
    """Raises RepositoryFailed if the URL is http:// and its host offers https:// with a trusted certificate.

    Such a host only redirects, after anyone on the way has read the token. A URL with a port of its own, or of this
    machine, is allowed: internal servers often have nothing else.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or not host or parts.port not in (None, 80) or is_loopback(host):
        return
    if not allow_private:
        pin_public_host(url)  # raises if the host is private
    if _is_https_only(host) or _offers_https(host, https_port, context or ssl.create_default_context()):
        raise RepositoryFailed(
            f"{host} is available over https://, so no token was sent over http://, where others could read it. "
            "Use https:// in the repository's URL."
        )


def _is_https_only(host: str) -> bool:
    return any(host == known or host.endswith(f".{known}") for known in HTTPS_ONLY_HOSTS)


def _offers_https(host: str, port: int, context: ssl.SSLContext) -> bool:
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except OSError:  # includes errors of TLS and certificates
        return False
