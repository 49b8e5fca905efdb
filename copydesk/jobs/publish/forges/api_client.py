"""HTTP to a forge's API: one fixed host, no redirects, bounded answers of a known shape, refusals without secrets."""

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import inf
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2 as httpx
from pydantic import TypeAdapter, ValidationError

from copydesk import __version__
from copydesk.core.text.redaction import blotted
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeAway, ForgeRefused
from copydesk.jobs.publish.git.public_addresses import pinned_host

T = TypeVar("T")
Query = Mapping[str, str | int]

LARGEST_ANSWER = 16 * 1024 * 1024
LONGEST_WORDS = 400
MOST_PAGES = 40
SILENCE, CONNECTING = 30.0, 10.0
LONGEST_CALL = 90.0
FAREWELL = 2.0
PASSING = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}
TOKEN = re.compile(
    r"\b(?:gh[a-z]_|github_pat_|gl(?:pat|dt|rt|ft|cbt|ptt|soat)-|Bearer\s+|whsec_)[A-Za-z0-9_.=/+-]{8,}", re.IGNORECASE
)


class Http:
    """Calls below one base address. The authorization is made anew for each call and goes to that host alone."""

    def __init__(
        self,
        base: str,
        authorization: Callable[[], str],
        *,
        headers: Mapping[str, str],
        allow_private: bool = True,
        deadline: float = inf,
    ) -> None:
        """No call outlives the deadline, in the time of `time.monotonic`, by more than what a farewell takes."""
        self.base, self.authorization, self.deadline = base, authorization, deadline
        parts = urlsplit(base)
        self.host = parts.netloc
        self._headers = {"User-Agent": f"copydesk/{__version__}", "Accept-Encoding": "identity", **headers}
        self._address = base
        self._extensions: dict[str, Any] = {}
        if not allow_private:
            # What was checked is what is used: the address is pinned, the certificate is still the host's.
            address = _address(pinned_host(base))
            self._address = parts._replace(netloc=f"{address}:{parts.port}" if parts.port else address).geturl()
            self._headers["Host"] = self.host
            self._extensions = {"sni_hostname": parts.hostname}
        through_proxy = allow_private  # which would look the host up once more
        self._client = httpx.Client(verify=_trusted(), follow_redirects=False, trust_env=through_proxy)

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        return self._read(kind, method, *self._call(method, path, query, body))[0]

    def find(self, kind: type[T], path: str) -> T | None:
        """None where the forge has no such thing, or hides it."""
        try:
            return self.ask(kind, "GET", path)
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            return None

    def pages(self, kind: type[T], path: str, query: Query) -> Iterator[T]:
        """Every entry of a listing, page by page. The forge's own links are not followed: they may lead elsewhere."""
        for page in range(1, MOST_PAGES + 1):
            response, data = self._call("GET", path, {**query, "page": page}, None)
            found, links = self._read(list[kind], "GET", response, data)  # type: ignore[valid-type]
            yield from found
            if not found or "next" not in links:
                return

    def header(self, path: str, name: str) -> str | None:
        """One header of the answer to a GET."""
        value: str | None = self._call("GET", path, None, None)[0].headers.get(name)
        return value

    def _call(
        self, method: str, path: str, query: Query | None, body: Mapping[str, Any] | None
    ) -> tuple[httpx.Response, bytes]:
        secret = self.authorization()
        headers = {**self._headers, "Authorization": secret}
        left = max(FAREWELL, min(LONGEST_CALL, self.deadline - time.monotonic()))
        until = time.monotonic() + left
        request = self._client.build_request(
            method,
            self._address + path,
            params=query,
            json=body,
            headers=headers,
            timeout=_timeout(left),
            extensions=self._extensions,
        )
        data = bytearray()
        try:
            response = self._client.send(request, stream=True)
            try:
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > LARGEST_ANSWER:
                        raise ForgeRefused(f"{self.host} answered with more than {LARGEST_ANSWER >> 20} MiB.")
                    if time.monotonic() > until:
                        raise ForgeAway(f"{self.host} took longer than {left:.0f} s to answer.")
            finally:
                response.close()
        except httpx.TimeoutException:
            raise ForgeAway(f"{self.host} did not answer in time.") from None
        except httpx.RequestError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                message = f"The certificate of {self.host} is not trusted; no token was sent."
                raise ForgeRefused(message, Reason.REPOSITORY_ERROR) from None
            raise ForgeAway(f"{self.host} cannot be reached: {hidden(str(error), secret)}.") from None
        if not response.is_success:
            self._refuse(response, bytes(data), secret)
        return response, bytes(data)

    def _read(
        self, kind: type[T], method: str, response: httpx.Response, data: bytes
    ) -> tuple[T, Mapping[str | None, Any]]:
        try:
            value = TypeAdapter(kind).validate_python(json.loads(data) if data.strip() else None)
        except (ValueError, ValidationError, RecursionError):
            message = (
                f"{self.host} answered in a way that its API does not: is its address right, and no proxy before it?"
            )
            # After a change it is unclear whether that was made: whoever asked must look.
            raise (ForgeRefused(message, Reason.REPOSITORY_ERROR) if method == "GET" else ForgeAway(message)) from None
        return value, response.links

    def _refuse(self, response: httpx.Response, data: bytes, secret: str) -> None:
        status, words = response.status_code, hidden(_words(data), secret)
        said = f": {words}" if words else ""
        if status in PASSING or (status == 403 and _is_limited(response, words)):
            raise ForgeAway(f"{self.host} answered {status}{said}.", _retry_after(response))
        if status in range(300, 400):
            message = f"{self.host} says that the repository has moved; change the project's address."
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=status)
        if status == 401:
            message = f"{self.host} does not take the token; it may have expired or been revoked{said}."
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=status)
        needed = response.headers.get("x-accepted-github-permissions", "")
        needs = f" (it takes {hidden(needs_of(needed), secret)})" if status == 403 and needed else ""
        reason = Reason.REPOSITORY_ERROR if status in (403, 404) else Reason.PUBLISH_REFUSED
        raise ForgeRefused(f"{self.host} answered {status}{said}{needs}.", reason, status=status)


def _timeout(left: float) -> httpx.Timeout:
    return httpx.Timeout(min(SILENCE, left), connect=min(CONNECTING, left))


@cache
def _trusted() -> ssl.SSLContext:
    """Who vouches for hosts, by the system's settings; read once, because that takes longer than a call."""
    return httpx.create_ssl_context()


def needs_of(header: str) -> str:
    """`contents=write; pull_requests=write` as words."""
    return header.replace("=", ": ").replace(";", " or")[:100]


def hidden(words: str, secret: str) -> str:
    """The words on one line, without the secret or what looks like one."""
    words = blotted(words, secret.partition(" ")[2])
    words = " ".join(TOKEN.sub("•••", words).split()).rstrip(".")
    return words if len(words) <= LONGEST_WORDS else words[: LONGEST_WORDS - 1] + "…"


def _words(data: bytes) -> str:
    """The sentence in a forge's error, wherever that forge puts it."""
    try:
        return _said(json.loads(data))
    except (ValueError, RecursionError):
        return ""  # a page for people


def _said(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_said(part, depth + 1) for part in value[:5])))
    if isinstance(value, dict):
        parts = [_said(value.get(key), depth + 1) for key in ("message", "error", "error_description", "errors")]
        if not any(parts):  # GitLab lists faults by field; GitHub has some without words
            parts = [
                f"{key}: {_said(part, depth + 1)}" for key, part in list(value.items())[:5] if _said(part, depth + 1)
            ]
        return "; ".join(dict.fromkeys(filter(None, parts)))
    return ""


def _is_limited(response: httpx.Response, words: str) -> bool:
    headers = response.headers
    return "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0" or "rate limit" in words.lower()


def _retry_after(response: httpx.Response) -> float | None:
    after, reset = response.headers.get("retry-after", ""), response.headers.get("x-ratelimit-reset", "")
    if after.isdigit():
        return float(after)
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(1.0, float(reset) - time.time())
    return None


def _address(pinned: str) -> str:
    """The address at the end of `host:port:address`, as a URL writes it."""
    return pinned[pinned.rindex("[") :] if pinned.endswith("]") else pinned.rpartition(":")[2]
