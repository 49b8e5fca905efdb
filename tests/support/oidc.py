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

CLIENT_ID, CLIENT_SECRET = "copydesk", "a secret of the client, with ümläuts: and more"


@cache
def signing_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class OidcProvider:
    """Signs everyone in as the person of `claims`; `lies` overrides claims of the next tokens, None omits one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.claims: dict[str, Any] = {}
        self.claim_overrides: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.signs_with = "its own"
        self.algorithm = "ES256"
        self.key_name = "first"
        self.discovery_overrides: dict[str, Any] = {}
        self.key_requests = 0
        self._codes: dict[str, dict[str, str]] = {}

    def discovery_document(self) -> dict[str, Any]:
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {
            "issuer": self.address,
            **{name: self.address + path for name, path in paths.items()},
            **self.discovery_overrides,
        }

    def key_set(self) -> dict[str, Any]:
        self.key_requests += 1
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(signing_key("its own").public_key()))
        return {"keys": [{**public, "kid": self.key_name, "use": "sig", "alg": "ES256"}]}

    def authorize(self, query: dict[str, str]) -> str:
        """Returns the redirect of the browser, with a code."""
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange_code(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Exchanges a code for tokens. Returns None for an unknown client or a code of another client."""
        request = self._codes.pop(form["code"], None)
        credentials = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        client = (
            tuple(map(unquote_plus, credentials.split(":")))
            if credentials
            else (form["client_id"], form["client_secret"])
        )
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if request is None or client != (CLIENT_ID, CLIENT_SECRET) or proof != request["code_challenge"]:
            return None
        if form["redirect_uri"] != request["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {"iss": self.address, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": request["nonce"]}
        claims = {
            name: value
            for name, value in {**claims, **self.claims, **self.claim_overrides}.items()
            if value is not None
        }
        return {"access_token": "unused", "token_type": "Bearer", "id_token": self._sign_claims(claims)}

    def _sign_claims(self, claims: dict[str, Any]) -> str:
        header = {"kid": self.key_name, **self.header}
        if self.algorithm == "none":
            return jwt.encode(claims, "", algorithm="none", headers=header)
        if self.algorithm == "HS256":  # the client could have signed this itself
            return jwt.encode(claims, CLIENT_SECRET, algorithm="HS256", headers=header)
        return jwt.encode(claims, signing_key(self.signs_with), algorithm=self.algorithm, headers=header)


@contextmanager
def serve_oidc_provider() -> Iterator[OidcProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/.well-known/openid-configuration":
                self._answer(provider.discovery_document())
            elif parts.path == "/keys":
                self._answer(provider.key_set())
            elif parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            tokens = provider.exchange_code(form, self.headers.get("authorization", ""))
            self._answer(tokens or {"error": "invalid_grant"}, 200 if tokens else 400)

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
