"""A client for an identity provider: discovery, code exchange, token checks (OpenID Connect Core 1.0, RFC 7636)."""

import hashlib
import logging
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2 as httpx

from copydesk.core.errors import RequestError
from copydesk.core.settings import Settings
from copydesk.core.text.display_names import MAX_NAME_CHARS

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

PROVIDER_TIMEOUT = httpx.Timeout(10, connect=5)
MAX_RESPONSE_BYTES = 1024 * 1024
MAX_SUBJECT_CHARS = 255
CACHE_SECONDS, MIN_KEY_REFRESH_SECONDS = 3600, 30
SIGNATURE_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric algorithms, with which only the provider can sign. `none` and shared secrets are rejected."""
CLOCK_LEEWAY_SECONDS = 60
"""How far the provider's clock may differ from ours."""


class ProviderUnavailable(RequestError):
    status, code = 502, "provider_away"
    message = "The identity provider is unavailable or sent an invalid response; try again shortly."


class IdentityRejected(RequestError):
    status, code = 403, "not_vouched_for"
    message = "The identity provider's response is not valid; sign in again."


@dataclass(frozen=True)
class Identity:
    """The person that a verified ID token describes."""

    issuer: str
    subject: str
    email: str
    name: str


@dataclass(frozen=True)
class Endpoints:
    issuer: str
    authorization_url: str
    token_url: str
    jwks_url: str
    uses_basic_auth: bool
    """Whether the client sends its secret as HTTP basic authentication; otherwise it is a form field."""


class OidcProvider:
    """A client for the configured provider.

    Caches the discovery document and the keys for an hour. Fetches the keys again when a token names an unknown one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Created once, because loading the CA certificates is slow. Keeps no idle connections, so it needs no close.
        self._client = httpx.AsyncClient(timeout=PROVIDER_TIMEOUT, limits=httpx.Limits(max_keepalive_connections=0))
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, dict[str, jwt.PyJWK]] | None = None

    @property
    def redirect_url(self) -> str:
        return f"{self.settings.base_url}/sign-in/oidc/back"

    async def build_authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Returns the provider's URL at which a person signs in."""
        params = {
            "response_type": "code",
            "client_id": self.settings.oidc_client_id,
            "redirect_uri": self.redirect_url,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": _base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        authorization_url = (await self._load_endpoints()).authorization_url
        return f"{authorization_url}{'&' if urlsplit(authorization_url).query else '?'}{urlencode(params)}"

    async def exchange_code(self, code: str, nonce: str, verifier: str) -> Identity:
        """Exchanges the authorization code for an ID token and returns the identity in it."""
        endpoints = await self._load_endpoints()
        credentials = (self.settings.oidc_client_id, self.settings.oidc_client_secret)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "client_id": credentials[0],
            "code_verifier": verifier,
        }
        if endpoints.uses_basic_auth:
            basic_auth = (
                quote_plus(credentials[0]),
                quote_plus(credentials[1]),
            )  # RFC 6749 2.3.1: form-encoded, then base64
            payload = await self._request_json("POST", endpoints.token_url, data=form, auth=basic_auth)
        else:
            payload = await self._request_json(
                "POST", endpoints.token_url, data={**form, "client_secret": credentials[1]}
            )
        token = payload.get("id_token")
        if not isinstance(token, str):
            raise IdentityRejected
        return await self._verify_token(token, nonce)

    async def _verify_token(self, token: str, nonce: str) -> Identity:
        import jwt  # imported only if a provider is used, because the import is slow

        endpoints = await self._load_endpoints()
        try:
            claims = jwt.decode(
                token,
                await self._find_key(jwt.get_unverified_header(token)),
                algorithms=SIGNATURE_ALGORITHMS,
                audience=self.settings.oidc_client_id,
                issuer=endpoints.issuer,
                leeway=CLOCK_LEEWAY_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
            )
        except jwt.PyJWTError as error:
            log.warning("ID token rejected: %s", error)
            raise IdentityRejected from None
        if not _is_issued_to(self.settings.oidc_client_id, claims) or claims["nonce"] != nonce:
            raise IdentityRejected
        if not 1 <= len(claims["sub"]) <= MAX_SUBJECT_CHARS:
            raise IdentityRejected
        email = claims.get("email")
        name = claims.get("name")
        if not isinstance(email, str) or not _is_true(claims.get("email_verified")):
            raise IdentityRejected("The identity provider has not verified your email address.")
        return Identity(endpoints.issuer, claims["sub"], email, _clean_name(name))

    async def _find_key(self, header: dict[str, Any]) -> "jwt.PyJWK":
        """Returns the key that the token names, or the only key if the token names none."""
        key_id = header.get("kid", "")
        for max_age in (CACHE_SECONDS, MIN_KEY_REFRESH_SECONDS):
            keys = await self._load_keys(max_age)
            if key_id in keys:
                return keys[key_id]
            if not key_id and len(keys) == 1:
                return next(iter(keys.values()))
        raise IdentityRejected

    async def _load_keys(self, max_age: float) -> "dict[str, jwt.PyJWK]":
        import jwt

        if self._keys is None or self._keys[0] + max_age < time.monotonic():
            payload = await self._request_json("GET", (await self._load_endpoints()).jwks_url)
            try:
                jwks = jwt.PyJWKSet.from_dict(payload).keys
            except jwt.PyJWTError:
                raise ProviderUnavailable from None
            signing_keys = {key.key_id or "": key for key in jwks if key.public_key_use in (None, "sig")}
            self._keys = time.monotonic(), signing_keys
        return self._keys[1]

    async def _load_endpoints(self) -> Endpoints:
        if self._endpoints is None or self._endpoints[0] + CACHE_SECONDS < time.monotonic():
            self._endpoints = time.monotonic(), await self._discover()
        return self._endpoints[1]

    async def _discover(self) -> Endpoints:
        issuer = self.settings.oidc_issuer
        document = await self._request_json("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        values = [document.get(name) for name in ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")]
        urls = [value for value in values if isinstance(value, str)]
        schemes = ("https", urlsplit(issuer).scheme)
        if len(urls) < len(values) or any(urlsplit(url).scheme not in schemes for url in urls):
            raise ProviderUnavailable
        methods = document.get("token_endpoint_auth_methods_supported")
        name, authorization_url, token_url, jwks_url = urls
        endpoints = Endpoints(
            name,
            authorization_url,
            token_url,
            jwks_url,
            uses_basic_auth=not methods or "client_secret_basic" in methods,
        )
        if endpoints.issuer.rstrip("/") != issuer.rstrip("/"):
            raise ProviderUnavailable(
                f"The provider's issuer is {endpoints.issuer}, not {issuer}. Correct COPYDESK_OIDC_ISSUER."
            )
        return endpoints

    async def _request_json(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, url, headers={"Accept": "application/json"}, **options)
            payload = response.json() if len(response.content) <= MAX_RESPONSE_BYTES else None
        except (httpx.HTTPError, ValueError) as error:
            log.warning("identity provider request to %s failed: %s", url, error)
            raise ProviderUnavailable from None
        if response.status_code == 400:  # the code is unknown, expired or was used before
            raise IdentityRejected
        if response.status_code != 200 or not isinstance(payload, dict):
            log.warning("identity provider returned status %s for %s", response.status_code, url)
            raise ProviderUnavailable
        return payload


def _is_issued_to(client_id: str, claims: dict[str, Any]) -> bool:
    """Returns whether a token that names this client among its audiences was issued to it: section 3.1.3.7, 4 and 5.

    A token for several clients must say in `azp` which of them asked for it; an `azp` must always be this client."""
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if "azp" in claims:
        return bool(claims["azp"] == client_id)
    return set(audiences) == {client_id}


def _clean_name(value: object) -> str:
    """Returns the printable characters of the name, at most MAX_NAME_CHARS of them."""
    return "".join(filter(str.isprintable, value))[:MAX_NAME_CHARS].strip() if isinstance(value, str) else ""


def _is_true(value: object) -> bool:
    """Returns whether a claim is true. Some providers send the text "true"."""
    return value is True or value == "true"


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
