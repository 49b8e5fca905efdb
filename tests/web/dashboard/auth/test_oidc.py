"""Signing in with an identity provider, against a real one that can send false claims."""

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.core import clock
from copydesk.core.settings import BadSettings, read_settings
from copydesk.web.dashboard.auth import oidc
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, OidcProvider, serve_oidc_provider
from tests.support.people import PASSWORD, get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

numbers = count()


def oidc_settings(issuer: str) -> dict[str, Any]:
    return {"oidc_issuer": issuer, "oidc_client_id": CLIENT_ID, "oidc_client_secret": CLIENT_SECRET}


@pytest.fixture(scope="module")
def service_and_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, OidcProvider]]:
    folder = tmp_path_factory.mktemp("oidc")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve_oidc_provider() as provider:
        settings: dict[str, Any] = {
            **oidc_settings(provider.address),
            "oidc_domains": ("example.org",),
            "oidc_role": "editor",
        }
        with serve(folder / "data", repository=repository, with_worker=False, **settings) as service:
            yield service, provider


@pytest.fixture
def service(service_and_provider: tuple[Service, OidcProvider]) -> Service:
    return service_and_provider[0]


@pytest.fixture
def provider(service_and_provider: tuple[Service, OidcProvider]) -> OidcProvider:
    """A provider without false claims, with a new person."""
    provider = service_and_provider[1]
    fresh = OidcProvider(provider.address)
    vars(provider).update({name: value for name, value in vars(fresh).items() if name not in ("_codes", "key_name")})
    number = next(numbers)
    provider.claims = {"sub": f"id-{number}", "email": f"{number}@example.org", "email_verified": True, "name": "Ada"}
    return provider


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=30) as browser:
        yield browser


def start_sign_in(browser: httpx.Client, following: str = "/account") -> str:
    """Starts a sign-in; returns the address to which the provider redirects the browser."""
    sent = browser.get("/sign-in/oidc", params={"next": following})
    assert sent.status_code == 303, sent.text
    with httpx.Client(timeout=60) as outside:
        return str(outside.get(sent.headers["location"]).headers["location"])


def is_signed_in(browser: httpx.Client) -> bool:
    return browser.get("/account").status_code == 200


def assert_refused(browser: httpx.Client, back: str, status: int = 403) -> str:
    answer = browser.get(back)
    assert answer.status_code == status, answer.text
    assert not is_signed_in(browser)
    return answer.text


@pytest.mark.deep
def test_person_of_an_allowed_domain_gets_the_configured_role(
    service: Service, provider: OidcProvider, browser: httpx.Client
) -> None:
    assert 'href="/sign-in/oidc?next=/account">Sign in with 127.0.0.1<' in browser.get("/sign-in?next=/account").text
    answer = browser.get(start_sign_in(browser))
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    assert is_signed_in(browser)
    known = service.desk.people.get_by_email(provider.claims["email"])
    assert (known.name, known.role) == ("Ada", "editor")
    assert "copydesk-oidc" not in browser.cookies


def test_same_person_gets_the_same_account_again(
    service: Service, provider: OidcProvider, browser: httpx.Client
) -> None:
    browser.get(start_sign_in(browser))
    before = service.desk.people.all()
    provider.claims["email"] = "renamed@example.org"
    browser.cookies.clear()
    browser.get(start_sign_in(browser))
    assert is_signed_in(browser)
    assert service.desk.people.all() == before


def test_verified_email_opens_its_existing_account(
    service: Service, provider: OidcProvider, browser: httpx.Client
) -> None:
    provider.claims["email"] = "Admin@Example.org"
    known = get_or_add_person(service, "admin")
    browser.get(start_sign_in(browser))
    assert known.name in browser.get("/account").text
    assert service.desk.people.get_by_email("admin@example.org").role == "admin"


@pytest.mark.parametrize("verified", [False, None, "false", 1, "yes"])
def test_unverified_email_opens_no_account(
    service: Service, provider: OidcProvider, browser: httpx.Client, verified: Any
) -> None:
    known = get_or_add_person(service, "viewer", f"known-{next(numbers)}@example.org")
    provider.claims |= {"email": known.email, "email_verified": verified}
    assert "has not verified your email address" in assert_refused(browser, start_sign_in(browser))
    provider.claims["email_verified"] = True
    browser.get(start_sign_in(browser))
    assert is_signed_in(browser), "and it was not linked by the first try"


@pytest.mark.parametrize(
    "lies",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": CLIENT_ID, "azp": "another"},
        {"aud": []},
        {"iat": 4_000_000_000},
        {"iat": None},
        {"sub": ""},
        {"exp": 1},
        {"exp": None},
        {"iss": "https://login.example.org"},
        {"iss": None},
        {"sub": None},
        {"sub": "x" * 256},
        {"sub": 7},
        {"email": None},
        {"email": ["ada@example.org"]},
    ],
    ids=str,
)
def test_id_token_with_invalid_claims_is_refused(
    provider: OidcProvider, browser: httpx.Client, lies: dict[str, Any]
) -> None:
    back = start_sign_in(browser)
    provider.claim_overrides = lies
    assert_refused(browser, back)


@pytest.mark.parametrize(
    "claims", [{"aud": [CLIENT_ID]}, {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}, {"azp": CLIENT_ID}], ids=str
)
def test_id_token_with_this_client_as_authorized_party_is_accepted(
    provider: OidcProvider, browser: httpx.Client, claims: dict[str, Any]
) -> None:
    provider.claim_overrides = claims
    browser.get(start_sign_in(browser))
    assert is_signed_in(browser)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_id_token_without_valid_signature_is_refused(
    provider: OidcProvider, browser: httpx.Client, algorithm: str
) -> None:
    provider.algorithm = algorithm
    assert_refused(browser, start_sign_in(browser))


def test_id_token_signed_with_another_key_is_refused(provider: OidcProvider, browser: httpx.Client) -> None:
    provider.signs_with = "another's"
    assert_refused(browser, start_sign_in(browser))


def test_id_token_may_not_carry_its_own_key(provider: OidcProvider, browser: httpx.Client) -> None:
    provider.signs_with = "another's"
    provider.header = {"kid": "mine", "jku": "http://127.0.0.1:1/keys", "jwk": provider.key_set()["keys"][0]}
    assert_refused(browser, start_sign_in(browser))


def test_a_state_of_another_browser_is_refused(service: Service, provider: OidcProvider, browser: httpx.Client) -> None:
    """Otherwise an attacker's link could sign others in to the attacker's account."""
    with httpx.Client(base_url=service.url, timeout=60) as attacker:
        link = start_sign_in(attacker)
    assert "was not started in this browser" in assert_refused(browser, link)
    start_sign_in(browser)
    assert "was not started in this browser" in assert_refused(browser, link), "nor while a way of one's own is open"


def test_tampered_state_cookie_is_refused(provider: OidcProvider, browser: httpx.Client) -> None:
    back = start_sign_in(browser)
    [cookie] = [each for each in browser.cookies.jar if each.name == "copydesk-oidc"]
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.value
    body, _, signature = cookie.value.partition(".")
    browser.cookies.clear()
    browser.cookies.set("copydesk-oidc", f"{body[:-4]}AAAA.{signature}", domain="127.0.0.1", path="/")
    assert_refused(browser, back)


def test_sign_in_that_took_too_long_is_refused(
    provider: OidcProvider, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = start_sign_in(browser)
    later = clock.now() + oidc.FLOW_LIFETIME_SECONDS * clock.SECOND
    monkeypatch.setattr(oidc, "clock", SimpleNamespace(now=lambda: later))
    assert "was not started in this browser" in assert_refused(browser, back)


def test_a_code_works_once(service: Service, provider: OidcProvider, browser: httpx.Client) -> None:
    back = start_sign_in(browser)
    kept = httpx.Cookies(browser.cookies)
    browser.get(back)
    assert is_signed_in(browser)
    with httpx.Client(base_url=service.url, cookies=kept, headers={"Accept": "text/html"}, timeout=60) as thief:
        assert_refused(thief, back)


def test_person_of_another_domain_needs_an_invitation(
    service: Service, provider: OidcProvider, browser: httpx.Client
) -> None:
    provider.claims["email"] = "ada@elsewhere.example"
    assert "This address has not been invited" in assert_refused(browser, start_sign_in(browser))
    service.desk.people.invite("ada@elsewhere.example", "viewer", actor="test")
    browser.get(start_sign_in(browser))
    assert service.desk.people.get_by_email("ada@elsewhere.example").role == "viewer"
    assert is_signed_in(browser)


def test_name_from_the_provider_is_cleaned_and_truncated(
    service: Service, provider: OidcProvider, browser: httpx.Client
) -> None:
    provider.claims["name"] = "Ada\r\n\u202e" + "x" * 300
    browser.get(start_sign_in(browser))
    assert service.desk.people.get_by_email(provider.claims["email"]).name == "Ada" + "x" * 197


def test_provider_may_require_client_secret_post(
    service: Service, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    provider.discovery_overrides = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    settings = {**oidc_settings(provider.address), "oidc_domains": ("example.org",)}
    folder = tmp_path_factory.mktemp("form")
    with (
        serve(folder, repository=service.repository, with_worker=False, **settings) as other,
        httpx.Client(base_url=other.url, headers={"Accept": "text/html"}, timeout=60) as browser,
    ):
        browser.get(start_sign_in(browser))
        assert is_signed_in(browser)


@pytest.mark.deep
@pytest.mark.parametrize("address", ["chief@example.org", "early@example.org"], ids=["new", "signed in before"])
def test_viewer_signing_in_first_does_not_invalidate_the_first_link(
    service: Service, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory, address: str
) -> None:
    settings = {**oidc_settings(provider.address), "oidc_domains": ("example.org",)}
    provider.claims["email"] = "early@example.org"
    folder = tmp_path_factory.mktemp("new")
    with (
        serve(folder, repository=service.repository, with_worker=False, **settings) as new,
        httpx.Client(base_url=new.url, headers={"Accept": "text/html"}, timeout=60) as viewer,
        httpx.Client(base_url=new.url, headers={"Accept": "text/html"}, timeout=60) as chief,
    ):
        link = f"/join/{new.desk.people.create_first_admin_link()}"
        viewer.get(start_sign_in(viewer))
        assert is_signed_in(viewer)
        assert viewer.get("/people").status_code == 403
        assert "There is no administrator yet" in chief.get("/sign-in").text
        joined = chief.post(link, data={"email": address, "name": "Chief", "password": PASSWORD})
        assert joined.status_code == 303, joined.text
        assert chief.get("/people").status_code == 200
        assert new.desk.people.get_by_email(address).role == "admin"
        assert viewer.get("/people").status_code in (303, 403), "the session from before has no new rights"
        assert viewer.get(link).status_code == 404, "and the link works once"


def test_removing_a_person_who_can_sign_in_again_shows_a_warning(service: Service, provider: OidcProvider) -> None:
    inside, outside = (
        get_or_add_person(service, "viewer", f"removed@{domain}") for domain in ("example.org", "elsewhere.example")
    )
    with signed_in_client(service) as admin:
        assert "they can sign in with it again as editor" in admin.get(f"/people/{inside.id}/remove").text
        assert "sign in with it again" not in admin.get(f"/people/{outside.id}/remove").text


def test_denied_consent_is_reported(provider: OidcProvider, browser: httpx.Client) -> None:
    back = start_sign_in(browser).replace("code=", "error=access_denied&ignored=")
    assert "rejected the sign-in" in assert_refused(browser, back)


def test_rotated_provider_key_is_fetched(provider: OidcProvider, browser: httpx.Client, monkeypatch: Any) -> None:
    browser.get(start_sign_in(browser))
    browser.cookies.clear()
    provider.key_name = f"renewed-{next(numbers)}"
    monkeypatch.setattr("copydesk.web.dashboard.auth.oidc_provider.MIN_KEY_REFRESH_SECONDS", -1)
    browser.get(start_sign_in(browser))
    assert is_signed_in(browser)


def test_callback_does_not_redirect_to_other_sites(provider: OidcProvider, browser: httpx.Client) -> None:
    answer = browser.get(start_sign_in(browser, "//evil.example/"))
    assert answer.headers["location"] == "/"


def test_unavailable_provider_or_wrong_issuer_is_reported(
    service: Service, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    provider.discovery_overrides = {"issuer": "https://login.example.org"}
    for issuer, says in (
        (provider.address, "issuer is https://login.example.org"),
        ("http://127.0.0.1:1", "is unavailable"),
    ):
        folder = tmp_path_factory.mktemp("away")
        with serve(folder, repository=service.repository, with_worker=False, **oidc_settings(issuer)) as other:
            answer = httpx.get(f"{other.url}/sign-in/oidc", headers={"Accept": "text/html"}, timeout=60)
            assert answer.status_code == 502
            assert says in answer.text


def test_oidc_sign_in_is_absent_without_a_provider(tmp_path_factory: pytest.TempPathFactory, service: Service) -> None:
    with serve(tmp_path_factory.mktemp("none"), repository=service.repository, with_worker=False) as other:
        assert httpx.get(f"{other.url}/sign-in/oidc", timeout=60).status_code == 404
        assert "Sign in with" not in httpx.get(f"{other.url}/sign-in", timeout=60).text


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": "http://login.example.org", "oidc_client_id": "a", "oidc_client_secret": "hush"},
        {"oidc_issuer": "https://login.example.org", "oidc_client_secret": "hush"},
    ],
    ids=["without TLS", "by half"],
)
def test_incomplete_provider_settings_stop_the_startup(settings: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as said:
        read_settings(**settings)
    assert "COPYDESK_OIDC_ISSUER" in str(said.value)
    assert "hush" not in str(said.value)
