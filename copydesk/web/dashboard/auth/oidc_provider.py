"""The identity provider: what it says of itself, and whom its tokens are about. OpenID Connect Core 1.0, RFC 7636."""

import hashlib
import logging
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2 as httpx

from copydesk.core.errors import Refusal
from copydesk.core.settings import Settings

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

TIMEOUT = httpx.Timeout(10, connect=5)
LARGEST = 1024 * 1024
LONGEST_SUBJECT = 255
KEPT_SECONDS, AGAIN_SECONDS = 3600, 30
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those that only the provider can sign with: neither none nor anything with a shared secret."""
LEEWAY = 60
"""Seconds that two clocks may differ."""


class ProviderAway(Refusal):
    status, code = 502, "provider_away"
    message = "The identity provider is unavailable or sent an invalid response; try again shortly."


class NotVouchedFor(Refusal):
    status, code = 403, "not_vouched_for"
    message = "The identity provider's response is not valid; sign in again."


@dataclass(frozen=True)
class Known:
    """Whom the provider vouches for."""

    issuer: str
    subject: str
    email: str
    name: str


@dataclass(frozen=True)
class Endpoints:
    issuer: str
    authorization: str
    token: str
    keys: str
    takes_basic: bool
    """Whether the client shows its secret in a header, else in the form."""


class Provider:
    """What it says of itself is kept for an hour; its keys are fetched again when a token names one that is new."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Made once, as reading the authorities takes a while; and it keeps no connection that would have to be closed.
        self._client = httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_keepalive_connections=0))
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, dict[str, jwt.PyJWK]] | None = None

    @property
    def redirect(self) -> str:
        return f"{self.settings.base_url}/sign-in/oidc/back"

    async def address(self, state: str, nonce: str, verifier: str) -> str:
        """Where a person goes to say who they are."""
        asked = {
            "response_type": "code",
            "client_id": self.settings.oidc_client_id,
            "redirect_uri": self.redirect,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": _b64(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        authorization = (await self._known()).authorization
        return f"{authorization}{'&' if urlsplit(authorization).query else '?'}{urlencode(asked)}"

    async def vouched(self, code: str, nonce: str, verifier: str) -> Known:
        """Trades the code that a browser brought for a token, and reads it."""
        endpoints, client = await self._known(), (self.settings.oidc_client_id, self.settings.oidc_client_secret)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "client_id": client[0],
            "code_verifier": verifier,
        }
        if endpoints.takes_basic:
            basic = quote_plus(client[0]), quote_plus(client[1])  # encoded twice, as RFC 6749 has it
            answer = await self._asked("POST", endpoints.token, data=form, auth=basic)
        else:
            answer = await self._asked("POST", endpoints.token, data={**form, "client_secret": client[1]})
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotVouchedFor
        return await self._read(token, nonce)

    async def _read(self, token: str, nonce: str) -> Known:
        import jwt  # by those alone who have a provider: it takes 30 ms of every start

        endpoints = await self._known()
        try:
            claims = jwt.decode(
                token,
                await self._key(jwt.get_unverified_header(token)),
                algorithms=ALGORITHMS,
                audience=self.settings.oidc_client_id,
                issuer=endpoints.issuer,
                leeway=LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
            )
        except jwt.PyJWTError as error:
            log.warning("a token of the identity provider does not hold: %s", error)
            raise NotVouchedFor from None
        if not _is_issued_to(self.settings.oidc_client_id, claims) or claims["nonce"] != nonce:
            raise NotVouchedFor
        if not 1 <= len(claims["sub"]) <= LONGEST_SUBJECT:
            raise NotVouchedFor
        email, name = claims.get("email"), claims.get("name")
        if not isinstance(email, str) or not _is_true(claims.get("email_verified")):
            raise NotVouchedFor("The identity provider has not verified your e-mail address.")
        return Known(endpoints.issuer, claims["sub"], email, _name(name))

    async def _key(self, header: dict[str, Any]) -> "jwt.PyJWK":
        """By the name that the token gives it; a provider with a single key need not name it."""
        name = header.get("kid", "")
        for newer_than in (KEPT_SECONDS, AGAIN_SECONDS):
            keys = await self._key_set(newer_than)
            if name in keys:
                return keys[name]
            if not name and len(keys) == 1:
                return next(iter(keys.values()))
        raise NotVouchedFor

    async def _key_set(self, newer_than: float) -> "dict[str, jwt.PyJWK]":
        import jwt

        if self._keys is None or self._keys[0] + newer_than < time.monotonic():
            answer = await self._asked("GET", (await self._known()).keys)
            try:
                found = jwt.PyJWKSet.from_dict(answer).keys
            except jwt.PyJWTError:
                raise ProviderAway from None
            signing = {key.key_id or "": key for key in found if key.public_key_use in (None, "sig")}
            self._keys = time.monotonic(), signing
        return self._keys[1]

    async def _known(self) -> Endpoints:
        if self._endpoints is None or self._endpoints[0] + KEPT_SECONDS < time.monotonic():
            self._endpoints = time.monotonic(), await self._discovered()
        return self._endpoints[1]

    async def _discovered(self) -> Endpoints:
        issuer = self.settings.oidc_issuer
        said = await self._asked("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        wanted = [said.get(name) for name in ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")]
        addresses = [value for value in wanted if isinstance(value, str)]
        schemes = ("https", urlsplit(issuer).scheme)
        if len(addresses) < len(wanted) or any(urlsplit(address).scheme not in schemes for address in addresses):
            raise ProviderAway
        methods = said.get("token_endpoint_auth_methods_supported")
        name, authorization, token, keys = addresses
        found = Endpoints(name, authorization, token, keys, takes_basic=not methods or "client_secret_basic" in methods)
        if found.issuer.rstrip("/") != issuer.rstrip("/"):
            raise ProviderAway(f"The identity provider calls itself {found.issuer}, not {issuer}.")
        return found

    async def _asked(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        try:
            answer = await self._client.request(method, address, headers={"Accept": "application/json"}, **options)
            said = answer.json() if len(answer.content) <= LARGEST else None
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the identity provider cannot be asked at %s: %s", address, error)
            raise ProviderAway from None
        if answer.status_code == 400:  # a code that was used before, is too old, or never was
            raise NotVouchedFor
        if answer.status_code != 200 or not isinstance(said, dict):
            log.warning("the identity provider answers %s at %s", answer.status_code, address)
            raise ProviderAway
        return said


def _is_issued_to(client_id: str, claims: dict[str, Any]) -> bool:
    """Returns whether a token that names this client among its audiences was issued to it: section 3.1.3.7, 4 and 5.

    A token for several clients must say in `azp` which of them asked for it; an `azp` must always be this client."""
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if "azp" in claims:
        return bool(claims["azp"] == client_id)
    return set(audiences) == {client_id}


def _name(given: object) -> str:
    """As much of it as can be shown."""
    return "".join(filter(str.isprintable, given))[:200].strip() if isinstance(given, str) else ""


def _is_true(value: object) -> bool:
    """Some providers write it as text."""
    return value is True or value == "true"


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
