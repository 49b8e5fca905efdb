"""A small OpenID Connect provider over real HTTP, which can send false claims."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT, SECRET = "copydesk", "a secret of the client, with ümläuts: and more"


@cache
def key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class OidcProvider:
    """Signs everyone in as the person of `claims`; `lies` overrides claims of the next tokens, None omits one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.claims: dict[str, Any] = {}
        self.lies: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.signs_with = "its own"
        self.algorithm = "ES256"
        self.key_name = "first"
        self.says: dict[str, Any] = {}
        self.asked_for_keys = 0
        self._codes: dict[str, dict[str, str]] = {}

    def known(self) -> dict[str, Any]:
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {"issuer": self.address, **{name: self.address + path for name, path in paths.items()}, **self.says}

    def keys(self) -> dict[str, Any]:
        self.asked_for_keys += 1
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key("its own").public_key()))
        return {"keys": [{**public, "kid": self.key_name, "use": "sig", "alg": "ES256"}]}

    def authorized(self, asked: dict[str, str]) -> str:
        """Returns the redirect of the browser, with a code."""
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Exchanges a code for tokens. Returns None for an unknown client or a code of another client."""
        asked = self._codes.pop(form["code"], None)
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        client = tuple(map(unquote_plus, given.split(":"))) if given else (form["client_id"], form["client_secret"])
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or client != (CLIENT, SECRET) or proof != asked["code_challenge"]:
            return None
        if form["redirect_uri"] != asked["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {"iss": self.address, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in {**claims, **self.claims, **self.lies}.items() if value is not None}
        return {"access_token": "unused", "token_type": "Bearer", "id_token": self._signed(claims)}

    def _signed(self, claims: dict[str, Any]) -> str:
        header = {"kid": self.key_name, **self.header}
        if self.algorithm == "none":
            return jwt.encode(claims, "", algorithm="none", headers=header)
        if self.algorithm == "HS256":  # the client could have signed this itself
            return jwt.encode(claims, SECRET, algorithm="HS256", headers=header)
        return jwt.encode(claims, key(self.signs_with), algorithm=self.algorithm, headers=header)


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/.well-known/openid-configuration":
                self._answer(provider.known())
            elif parts.path == "/keys":
                self._answer(provider.keys())
            elif parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorized(dict(parse_qsl(parts.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            found = provider.token(form, self.headers.get("authorization", ""))
            self._answer(found or {"error": "invalid_grant"}, 200 if found else 400)

        def _answer(self, value: dict[str, Any], status: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = OidcProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
