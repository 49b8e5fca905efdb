"""HTTP client for a forge's API: one fixed host, no redirects, bounded and validated responses, redacted errors."""

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import inf
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2 as httpx
from pydantic import TypeAdapter, ValidationError

from copydesk import __version__
from copydesk.core.text.redaction import redact_tokens
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.git.public_addresses import pin_public_host

T = TypeVar("T")
QueryParams = Mapping[str, str | int]

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_ERROR_CHARS = 400
MAX_PAGES = 40
READ_TIMEOUT_SECONDS, CONNECT_TIMEOUT_SECONDS = 30.0, 10.0
MAX_CALL_SECONDS = 90.0
MIN_CALL_SECONDS = 2.0
TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}
RENAMED_PATTERN = re.compile(r"/api/v1/repos/([A-Za-z0-9._-]+/[A-Za-z0-9._-]+)(?=[/?]|$)")
UNKNOWN_CALLER_MESSAGE = "user does not exist [uid: 0"
"""Gitea says this about a token that it does not know. There is no such user, so it would only mislead."""
MOVED_STATUSES = (301, 307, 308)
UNSTATED_RATE_LIMIT_SECONDS = 60.0
"""How long to wait for a rate limit that names no time, as GitHub documents."""
RATE_LIMIT_PATTERN = re.compile(r"rate limit|abuse detection", re.IGNORECASE)
"""The second wording is the older one, which Enterprise servers still use."""


class ApiClient:
    """Sends requests below one base URL. Computes the authorization for each request and sends it to that host only."""

    def __init__(
        self,
        base_url: str,
        authorization: Callable[[], str],
        *,
        headers: Mapping[str, str],
        allow_private: bool = True,
        deadline: float = inf,
        is_token_new: Callable[[], bool] = lambda: False,
    ) -> None:
        """Creates a client whose requests end by the deadline, in the time of `time.monotonic`.

        After the deadline a request still gets MIN_CALL_SECONDS, so that a token can be revoked. While `is_token_new`
        returns True, a rejected token counts as unavailable: not all servers of the forge may know it yet.
        """
        self.is_token_new = is_token_new
        self.base_url = base_url
        self.authorization = authorization
        self.deadline = deadline
        parts = urlsplit(base_url)
        self.host = parts.netloc
        self._headers = {"User-Agent": f"copydesk/{__version__}", "Accept-Encoding": "identity", **headers}
        self._connect_url = base_url
        self._extensions: dict[str, Any] = {}
        if not allow_private:
            # Connect to the checked address to prevent DNS rebinding; the certificate must still match the host.
            address = _address_from_pin(pin_public_host(base_url))
            self._connect_url = parts._replace(netloc=f"{address}:{parts.port}" if parts.port else address).geturl()
            self._headers["Host"] = self.host
            self._extensions = {"sni_hostname": parts.hostname}
        may_use_proxy = allow_private  # a proxy would resolve the host again
        self._client = httpx.Client(verify=_load_ssl_context(), follow_redirects=False, trust_env=may_use_proxy)

    def close(self) -> None:
        self._client.close()

    def request(
        self,
        response_type: type[T],
        method: str,
        path: str,
        *,
        query: QueryParams | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        return self._parse(response_type, method, *self._send(method, path, query, body))[0]

    def get_or_none(self, response_type: type[T], path: str) -> T | None:
        """Returns the parsed response, or None if the resource does not exist or is hidden from the token (404)."""
        try:
            return self.request(response_type, "GET", path)
        except ForgeRefused as refusal:
            if refusal.status != 404:
                raise
            return None

    def paginate(self, item_type: type[T], path: str, query: QueryParams) -> Iterator[T]:
        """Yields the items of a paginated list. Does not follow the forge's links, which may lead to another host."""
        received_count = 0
        for page in range(1, MAX_PAGES + 1):
            response, data = self._send("GET", path, {**query, "page": page}, None)
            items, links = self._parse(list[item_type], "GET", response, data)  # type: ignore[valid-type]
            yield from items
            received_count += len(items)
            # Some lists of Gitea have no links, only the number of all items. GitLab also names the next page.
            has_next = "next" in links or bool(response.headers.get("x-next-page", "").strip())
            if not items or (not has_next and received_count >= _parse_total_count(response)):
                return

    def get_header(self, path: str, name: str) -> str | None:
        """Sends a GET request and returns one header of the response."""
        value: str | None = self._send("GET", path, None, None)[0].headers.get(name)
        return value

    def _send(
        self, method: str, path: str, query: QueryParams | None, body: Mapping[str, Any] | None
    ) -> tuple[httpx.Response, bytes]:
        authorization = self.authorization()
        headers = {**self._headers, "Authorization": authorization}
        timeout_seconds = max(MIN_CALL_SECONDS, min(MAX_CALL_SECONDS, self.deadline - time.monotonic()))
        deadline = time.monotonic() + timeout_seconds
        request = self._client.build_request(
            method,
            self._connect_url + path,
            params=query,
            json=body,
            headers=headers,
            timeout=_build_timeout(timeout_seconds),
            extensions=self._extensions,
        )
        data = bytearray()
        try:
            response = self._client.send(request, stream=True)
            try:
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > MAX_RESPONSE_BYTES:
                        raise ForgeRefused(f"{self.host} sent a response of more than {MAX_RESPONSE_BYTES >> 20} MiB.")
                    if time.monotonic() > deadline:
                        raise ForgeUnavailable(f"{self.host} took longer than {timeout_seconds:.0f} s to respond.")
            finally:
                response.close()
        except httpx.TimeoutException:
            raise ForgeUnavailable(f"{self.host} did not respond in time.") from None
        except httpx.RequestError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                message = f"The certificate of {self.host} is not trusted, so no token was sent."
                raise ForgeRefused(message, Reason.REPOSITORY_ERROR) from None
            raise ForgeUnavailable(
                f"{self.host} cannot be reached: {redact_message(str(error), authorization)}."
            ) from None
        if not response.is_success:
            self._raise_for_status(response, bytes(data), authorization)
        return response, bytes(data)

    def _parse(
        self, response_type: type[T], method: str, response: httpx.Response, data: bytes
    ) -> tuple[T, Mapping[str | None, Any]]:
        try:
            value = TypeAdapter(response_type).validate_python(json.loads(data) if data.strip() else None)
        except (ValueError, ValidationError, RecursionError):
            message = (
                f"{self.host} sent a response that is not from a forge's API. Check the repository's URL and any proxy."
            )
            # A change may have been made despite the invalid response, so the caller must check and retry.
            raise (
                ForgeRefused(message, Reason.REPOSITORY_ERROR) if method == "GET" else ForgeUnavailable(message)
            ) from None
        return value, response.links

    def _raise_for_status(self, response: httpx.Response, data: bytes, authorization: str) -> None:
        status = response.status_code
        error_text = redact_message(_parse_error_message(data), authorization)
        suffix = f": {error_text}" if error_text else ""
        if status in TRANSIENT_STATUSES or (status == 403 and _is_rate_limited(response, error_text)):
            raise ForgeUnavailable(f"{self.host} answered {status}{suffix}.", _parse_retry_after(response, error_text))
        if status in range(300, 400):
            raise ForgeRefused(self._describe_redirect(response), Reason.REPOSITORY_ERROR, status=status)
        if status == 401 and self.is_token_new():
            raise ForgeUnavailable(f"{self.host} does not accept the new token yet{suffix}.")
        if status == 401:
            suffix = "" if error_text.startswith(UNKNOWN_CALLER_MESSAGE) else suffix
            message = f"{self.host} rejected the token; it may have expired or been revoked{suffix}."
            raise ForgeRefused(message, Reason.REPOSITORY_ERROR, status=status)
        accepted_permissions = response.headers.get("x-accepted-github-permissions", "")
        permissions_hint = (
            f" (requires {redact_message(format_permissions(accepted_permissions), authorization)})"
            if status == 403 and accepted_permissions
            else ""
        )
        reason = Reason.REPOSITORY_ERROR if status in (403, 404) else Reason.PUBLISH_REFUSED
        raise ForgeRefused(f"{self.host} answered {status}{suffix}{permissions_hint}.", reason, status=status)

    def _describe_redirect(self, response: httpx.Response) -> str:
        """Explains a redirect. One on the same host says that the repository has moved, if it is permanent.

        Old versions of Gitea answer 302 for a renamed repository.
        """
        target = urlsplit(urljoin(f"{self.base_url}/", response.headers.get("location", "")))
        is_move = response.status_code in MOVED_STATUSES or RENAMED_PATTERN.search(target.path)
        if is_move and target.netloc == self.host:
            if urlsplit(self.base_url).scheme != target.scheme:
                return f"{self.host} redirects to {target.scheme}://. Use that in the project's repository URL."
            return f"{self.host} says that the repository has moved{self._describe_move(target.path)}"
        place = f" to {target.netloc[:100]}" if target.netloc != self.host else ""
        return (
            f"{self.host} answered {response.status_code} with a redirect{place}, which Copydesk does not follow. "
            "Check the repository's URL, and whether a proxy asks to sign in."
        )

    def _describe_move(self, path: str) -> str:
        """Returns where the repository is now, if a redirect of Gitea says so, and the command that follows it."""
        match = RENAMED_PATTERN.search(path)
        name = match[1] if match else ""
        address = f"{self.base_url.removesuffix('/api/v1')}/{name}" if name else "ADDRESS"
        return (
            f"{f' to {name}' if name else ''}. Change the project's repository URL, for example with: "
            f"copydesk project set repository={address}"
        )


def _parse_total_count(response: httpx.Response) -> int:
    """Returns the number of all items of a paginated list, or 0 if the forge does not say it."""
    total = response.headers.get("x-total-count", "")
    return int(total) if total.isascii() and total.isdigit() and len(total) < 10 else 0


def _build_timeout(timeout_seconds: float) -> httpx.Timeout:
    return httpx.Timeout(
        min(READ_TIMEOUT_SECONDS, timeout_seconds), connect=min(CONNECT_TIMEOUT_SECONDS, timeout_seconds)
    )


@cache
def _load_ssl_context() -> ssl.SSLContext:
    """Returns the TLS context with the system's trusted certificates. Cached, because loading them is slow."""
    return httpx.create_ssl_context()


def format_permissions(header: str) -> str:
    """Formats GitHub's permissions header, such as `contents=write; pull_requests=write`, for a message."""
    return header.replace("=", ": ").replace(";", " or")[:100]


def redact_message(message: str, authorization: str) -> str:
    """Returns the message as one line, truncated, without the secret and without text that looks like a token."""
    message = to_single_line(redact_tokens(message, authorization.partition(" ")[2])).rstrip(".")
    return truncate(message, MAX_ERROR_CHARS)


def _parse_error_message(data: bytes) -> str:
    """Returns the message of a forge's error response, or "" if the response is not JSON."""
    try:
        return _extract_message(json.loads(data))
    except (ValueError, RecursionError):
        return ""  # an HTML page


def _extract_message(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_extract_message(part, depth + 1) for part in value[:5])))
    if isinstance(value, dict):
        parts = [
            _extract_message(value.get(key), depth + 1) for key in ("message", "error", "error_description", "errors")
        ]
        if not any(parts):  # GitLab lists errors by field; some of GitHub's have no message
            parts = [
                f"{key}: {_extract_message(part, depth + 1)}"
                for key, part in list(value.items())[:5]
                if _extract_message(part, depth + 1)
            ]
        return "; ".join(dict.fromkeys(filter(None, parts)))
    return ""


def _is_rate_limited(response: httpx.Response, error_text: str) -> bool:
    headers = response.headers
    is_exhausted = headers.get("x-ratelimit-remaining") == "0"
    return "retry-after" in headers or is_exhausted or RATE_LIMIT_PATTERN.search(error_text) is not None


def _parse_retry_after(response: httpx.Response, error_text: str) -> float | None:
    retry_after = response.headers.get("retry-after", "")
    reset = response.headers.get("x-ratelimit-reset", "")
    if retry_after.isdigit():
        return float(retry_after)
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(1.0, float(reset) - time.time())
    return UNSTATED_RATE_LIMIT_SECONDS if RATE_LIMIT_PATTERN.search(error_text) else None


def _address_from_pin(pinned: str) -> str:
    """Returns the address of `host:port:address`; an IPv6 address keeps its brackets."""
    return pinned[pinned.rindex("[") :] if pinned.endswith("]") else pinned.rpartition(":")[2]
