"""Apps on the fake GitHub, driven by githubkit and PyJWT: a key is exchanged for narrow, short-lived tokens."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy

from tests.support.forges import github
from tests.support_fakes.callers import BRANCH, NEW_PULL, catch_refusal, connect_github

pytestmark = pytest.mark.drill  # tests of the test tools

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[github]:
    with github(tmp_path) as running:
        running.commit(BRANCH, {"guide.md": b"# Guide\n"})
        yield running
        assert running.violations == []


def test_app_gets_tokens_for_one_repository(fake: github) -> None:
    fake.add_repository("acme/other")
    app = fake.install_app(PUBLIC)
    hub = connect_github(fake, AppAuthStrategy(str(app.id), PRIVATE))
    found = hub.rest.apps.get_repo_installation("acme", "docs").parsed_data
    buy = hub.rest.apps.create_installation_access_token
    permissions: Any = {"contents": "write", "pull_requests": "write"}
    bought = buy(found.id, repositories=["docs"], permissions=permissions).parsed_data
    mine = connect_github(fake, bought.token)
    assert mine.rest.pulls.create(**NEW_PULL).parsed_data.user.login == "copydesk[bot]"
    assert catch_refusal(mine.rest.repos.get, "acme", "other")[0] == 404
    assert catch_refusal(mine.rest.users.get_authenticated)[1]["message"] == "Resource not accessible by integration"
    reader = connect_github(fake, buy(found.id, permissions={"pull_requests": "read"}).parsed_data.token)
    status, said, headers = catch_refusal(reader.rest.pulls.create, **NEW_PULL)
    assert (status, said["message"]) == (403, "Resource not accessible by integration")
    assert headers["x-accepted-github-permissions"] == "pull_requests=write"
    fake.tokens[bought.token].expires = 0
    assert catch_refusal(mine.rest.repos.get, "acme", "docs")[0] == 401
    assert catch_refusal(buy, found.id, permissions={"administration": "write"})[0] == 422
    assert catch_refusal(buy, found.id, repositories=["secret"])[0] == 422
    assert catch_refusal(buy, 1)[0] == 404
    through = connect_github(fake, AppInstallationAuthStrategy(str(app.id), PRIVATE, found.id))
    assert through.rest.repos.get("acme", "docs").parsed_data.name == "docs"


def test_an_app_with_another_key_or_id_is_refused(fake: github) -> None:
    app = fake.install_app(PUBLIC, app_id=9)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = other.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    forged, stranger = (
        connect_github(fake, AppAuthStrategy(str(app.id), pem)),
        connect_github(fake, AppAuthStrategy("8", PRIVATE)),
    )
    status, said, _ = catch_refusal(forged.rest.apps.get_repo_installation, "acme", "docs")
    assert (status, said["message"]) == (401, "A JSON web token could not be decoded")
    assert catch_refusal(stranger.rest.apps.get_repo_installation, "acme", "docs")[0] == 401


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": 900}, "'Expiration time' claim ('exp') is too far in the future"),
        ({"exp": -1}, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"iat": 60}, "'Issued at' claim ('iat') must be an Integer"),
        ({"iss": "8"}, "'Issuer' claim ('iss') must be an Integer"),
    ],
)
def test_jwt_must_be_short_lived_and_current(fake: github, claims: dict[str, Any], said: str) -> None:
    fake.install_app(PUBLIC)
    now = int(time.time())
    moved = {name: now + value if isinstance(value, int) else value for name, value in claims.items()}
    token = jwt.encode({"iss": "7", "iat": now - 60, "exp": now + 540, **moved}, PRIVATE, algorithm="RS256")
    status, answer, _ = catch_refusal(connect_github(fake, token).request, "GET", "/repos/acme/docs/installation")
    assert (status, answer["message"].startswith(said)) == (401, True)


def test_installation_token_works_for_git_until_it_expires(fake: github, tmp_path: Path) -> None:
    app = fake.install_app(PUBLIC)
    hub = connect_github(fake, AppAuthStrategy(str(app.id), PRIVATE))
    token = hub.rest.apps.create_installation_access_token(app.installation, repositories=["docs"]).parsed_data.token
    assert fake.git_refusal("acme/docs", token, pushing=True) == (0, "")
    fake.tokens[token].expires = time.time()
    assert fake.git_refusal("acme/docs", token, pushing=True)[0] == 401
