"""The identity provider: what it says of itself, and whom its tokens are about. OpenID Connect Core 1.0, RFC 7636."""

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

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

PROVIDER_TIMEOUT = httpx.Timeout(10, connect=5)
MAX_RESPONSE_BYTES = 1024 * 1024
MAX_SUBJECT_CHARS = 255
CACHE_SECONDS, MIN_KEY_REFRESH_SECONDS = 3600, 30
SIGNATURE_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those that only the provider can sign with: neither none nor anything with a shared secret."""
CLOCK_LEEWAY_SECONDS = 60
"""Seconds that two clocks may differ."""


class ProviderUnavailable(RequestError):
    status, code = 502, "provider_away"
    message = "The identity provider is unavailable or sent an invalid response; try again shortly."


class IdentityRejected(RequestError):
    status, code = 403, "not_vouched_for"
    message = "The identity provider's response is not valid; sign in again."


@dataclass(frozen=True)
class Identity:
    """Whom the provider vouches for."""

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
    """Whether the client shows its secret in a header, else in the form."""


class OidcProvider:
    """What it says of itself is kept for an hour; its keys are fetched again when a token names one that is new."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Made once, as reading the authorities takes a while; and it keeps no connection that would have to be closed.
        self._client = httpx.AsyncClient(timeout=PROVIDER_TIMEOUT, limits=httpx.Limits(max_keepalive_connections=0))
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, dict[str, jwt.PyJWK]] | None = None

    @property
    def redirect_url(self) -> str:
        return f"{self.settings.base_url}/sign-in/oidc/back"

    async def build_authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where a person goes to say who they are."""
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
        """Trades the code that a browser brought for a token, and reads it."""
        endpoints, credentials = (
            await self._load_endpoints(),
            (self.settings.oidc_client_id, self.settings.oidc_client_secret),
        )
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "client_id": credentials[0],
            "code_verifier": verifier,
        }
        if endpoints.uses_basic_auth:
            basic_auth = quote_plus(credentials[0]), quote_plus(credentials[1])  # encoded twice, as RFC 6749 has it
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
        import jwt  # by those alone who have a provider: it takes 30 ms of every start

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
            log.warning("a token of the identity provider does not hold: %s", error)
            raise IdentityRejected from None
        if not _is_issued_to(self.settings.oidc_client_id, claims) or claims["nonce"] != nonce:
            raise IdentityRejected
        if not 1 <= len(claims["sub"]) <= MAX_SUBJECT_CHARS:
            raise IdentityRejected
        email, name = claims.get("email"), claims.get("name")
        if not isinstance(email, str) or not _is_true(claims.get("email_verified")):
            raise IdentityRejected("The identity provider has not verified your e-mail address.")
        return Identity(endpoints.issuer, claims["sub"], email, _clean_name(name))

    async def _find_key(self, header: dict[str, Any]) -> "jwt.PyJWK":
        """By the name that the token gives it; a provider with a single key need not name it."""
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
            raise ProviderUnavailable(f"The identity provider calls itself {endpoints.issuer}, not {issuer}.")
        return endpoints

    async def _request_json(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, url, headers={"Accept": "application/json"}, **options)
            payload = response.json() if len(response.content) <= MAX_RESPONSE_BYTES else None
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the identity provider cannot be asked at %s: %s", url, error)
            raise ProviderUnavailable from None
        if response.status_code == 400:  # a code that was used before, is too old, or never was
            raise IdentityRejected
        if response.status_code != 200 or not isinstance(payload, dict):
            log.warning("the identity provider answers %s at %s", response.status_code, url)
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
    """As much of it as can be shown."""
    return "".join(filter(str.isprintable, value))[:200].strip() if isinstance(value, str) else ""


def _is_true(value: object) -> bool:
    """Some providers write it as text."""
    return value is True or value == "true"


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
