"""Addresses of repositories and of their API: redirects, sub-paths, and http:// where there is https://."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.policy import Policy
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.project_setup import NewProject, create_project
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Credentials
from copydesk.jobs.publish.forges.registry import create_forge, split_repository_url
from copydesk.jobs.publish.git.mirror import create_git
from copydesk.jobs.publish.git.plain_http import refuse_plain_http
from tests.jobs.publish.forges.conftest import TOKEN, make_project
from tests.jobs.publish.forges.stage import fake_forge

# GitLab's redirect to the URL with `.git`.


@pytest.mark.deep
@pytest.mark.parametrize("forge", ["gitlab", "local"])
def test_gitlab_url_without_git_is_normalized_at_creation(forge: str, tmp_path: Path) -> None:
    with fake_forge("gitlab", tmp_path / "forge") as fake:
        desk = open_desk(Settings(data=tmp_path / "data"))
        address = fake.repository_url("acme/docs").removesuffix(".git")
        new = NewProject("Docs", address, forge=forge, token=TOKEN)
        project = create_project(desk.projects, desk.secrets, new, actor="test")
        assert project.repository == f"{address}.git"
        assert desk.projects.get(project.id).repository == f"{address}.git"
        desk.close()


def test_gitlab_project_stored_without_git_is_fetched_all_the_same(tmp_path: Path) -> None:
    with fake_forge("gitlab", tmp_path / "forge") as fake:
        project = make_project("gitlab", fake.repository_url("acme/docs").removesuffix(".git"))
        assert "main" in create_git(project, TOKEN).list_heads()


@pytest.mark.deep
def test_redirect_to_another_name_is_not_followed_at_creation(tmp_path: Path) -> None:
    with fake_forge("github", tmp_path / "forge") as fake:
        fake.rename("acme/docs", "acme/handbook")
        desk = open_desk(Settings(data=tmp_path / "data"))
        new = NewProject("Docs", fake.repository_url("acme/docs"), forge="local", token=TOKEN)
        with pytest.raises(RepositoryFailed, match="redirects git to another address"):
            create_project(desk.projects, desk.secrets, new, actor="test")
        assert desk.projects.all() == []
        desk.close()


# The address of the API.


@pytest.mark.parametrize(
    ("forge", "address", "api_url", "expected"),
    [
        ("github", "https://acme.ghe.com/team/docs", None, ("https://api.acme.ghe.com", "team/docs")),
        (
            "github",
            "https://git.acme.org/team/docs",
            "https://api.git.acme.org",
            ("https://api.git.acme.org", "team/docs"),
        ),
        (
            "gitlab",
            "https://acme.org/gitlab/group/sub/docs.git",
            "https://acme.org/gitlab/api/v4",
            ("https://acme.org/gitlab/api/v4", "group/sub/docs"),
        ),
        (
            "gitlab",
            "https://acme.org/gitlab/docs.git",
            "https://acme.org/gitlab-next/api/v4",
            ("https://acme.org/gitlab-next/api/v4", "gitlab/docs"),
        ),
        (
            "gitea",
            "https://acme.org/git/team/docs",
            "https://acme.org/git/api/v1",
            ("https://acme.org/git/api/v1", "team/docs"),
        ),
        ("gitlab", "https://acme.org/group/docs", None, ("https://acme.org/api/v4", "group/docs")),
    ],
)
def test_address_of_the_api_and_name_of_the_repository(
    forge: str, address: str, api_url: str | None, expected: tuple[str, str]
) -> None:
    assert split_repository_url(forge, address, api_url) == expected


@pytest.mark.parametrize("host", ["mallory.org", "acme.org.mallory.org", "notacme.org", "127.0.0.1"])
def test_api_on_another_host_is_refused_because_it_would_get_the_token(host: str) -> None:
    project = make_project("gitlab", "https://acme.org/team/docs", policy=Policy(api_url=f"https://{host}/api/v4"))
    with pytest.raises(ForgeRefused, match=r"must be on the same host or a subdomain"):
        create_forge(project, Credentials(token=TOKEN))


def test_private_address_of_the_api_is_refused_if_the_project_forbids_it() -> None:
    policy = Policy(api_url="http://127.0.0.1:9/api/v4")
    project = make_project("gitlab", "http://127.0.0.1:9/team/docs", allow_private=False, policy=policy)
    with pytest.raises(RepositoryFailed, match="private address"):
        create_forge(project, Credentials(token=TOKEN))


@pytest.mark.parametrize(
    "url", ["ftp://acme.org", "https://user:pass@acme.org/api", "https://acme.org/api?x=1", "acme.org/api", "https://"]
)
def test_invalid_address_of_the_api_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="api_url: must be a URL"):
        Policy().with_values({"api_url": url})


def test_address_of_the_api_can_be_set_and_removed() -> None:
    policy = Policy().with_values({"api_url": "https://acme.org/git/api/v4/"})
    assert policy.api_url == "https://acme.org/git/api/v4"
    assert policy.with_values({"api_url": ""}).api_url is None


# A token over http://.


@pytest.fixture
def https_server(tmp_path: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Serves TLS for localhost.test; yields the port, and a context that trusts its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost.test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost.test")]), critical=False)
        .sign(key, SHA256())
    )
    pem = tmp_path / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pem)
    trusting = ssl.create_default_context(cadata=certificate.public_bytes(Encoding.PEM).decode())
    trusting.check_hostname = False
    listener = socket.create_server(("", 0))  # the machine's name may lead to any of its addresses

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()[0]
                with connection, server_context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(1)
            except ssl.SSLError:
                continue
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1], trusting
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_http_is_refused_for_a_host_that_offers_https(https_server: tuple[int, ssl.SSLContext]) -> None:
    port, trusting = https_server
    host = socket.gethostname()
    if not _resolves_to_this_machine(host, port):
        pytest.skip("This machine's name does not lead to its loopback interface.")
    with pytest.raises(RepositoryFailed, match="available over https://, so no token was sent"):
        refuse_plain_http(f"http://{host}/acme/docs", https_port=port, context=trusting)
    refuse_plain_http(f"http://{host}/acme/docs", https_port=port)  # a certificate that nothing trusts is no https


def _resolves_to_this_machine(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("url", ["http://127.0.0.1/acme/docs", "http://localhost/a/b", "http://git.acme.test:3000/a/b"])
def test_http_is_allowed_on_this_machine_and_with_a_port(url: str) -> None:
    refuse_plain_http(url)


@pytest.mark.parametrize("forge", ["github", "gitlab", "local"])
def test_token_is_never_sent_over_http_to_a_well_known_host(forge: str) -> None:
    host: Any = {"github": "github.com", "gitlab": "gitlab.com", "local": "codeberg.org"}[forge]
    project = make_project(forge, f"http://{host}/acme/docs")
    with pytest.raises(RepositoryFailed, match=rf"{host} is available over https://"):
        create_git(project, TOKEN)
    if forge != "local":
        with pytest.raises(RepositoryFailed, match="is available over https://"):
            create_forge(project, Credentials(token=TOKEN))
