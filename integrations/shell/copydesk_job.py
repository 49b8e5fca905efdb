#!/usr/bin/env python3
"""Creates a Copydesk job or runs an automation, waits until it ends, and reports its pull request.

For any CI system. Needs Python 3.8 or newer and nothing else. All input comes from environment variables, so that no
shell ever interprets a prompt:

  COPYDESK_URL         the address of the service
  COPYDESK_PROJECT     the project's ID (proj_...)
  COPYDESK_API_KEY     a key of the project with the scope "write"
  COPYDESK_PROMPT      the instruction for a new job, or:
  COPYDESK_AUTOMATION  the ID or the name of an automation to run
  COPYDESK_REF, COPYDESK_TITLE, COPYDESK_DRAFT   options of a new job: branch, title, true for a draft
  COPYDESK_TIMEOUT     how long to wait: 90s, 45m (default), 2h; a number without a unit means minutes
  COPYDESK_FAIL_ON     failed (default), no-pull-request, or never
  COPYDESK_DOTENV      a file that gets COPYDESK_STATUS, COPYDESK_JOB_ID and COPYDESK_PR_LINK
  GITHUB_OUTPUT, GITHUB_STEP_SUMMARY             set by GitHub Actions

Exit codes: 0 ok, 1 failed, 2 wrong settings.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Mapping, NoReturn  # noqa: UP035  Python 3.8
from urllib import error, parse, request

REQUEST_TIMEOUT_SECONDS = 30
MAX_START_ATTEMPTS = 5
MAX_POLL_SECONDS = 10.0
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_LINE_CHARS = 1_000
MAX_SUMMARY_CHARS = 20_000
RETRIED_STATUSES = (502, 503, 504)
TIMED_OUT = "timed_out"
FAIL_ON = ("failed", "no-pull-request", "never")
HARMLESS_REASONS = (None, "no_changes", "question")
UNITS = {"s": 1, "m": 60, "h": 3600, "": 60}


class WrongSetting(Exception):
    """A variable is missing or invalid."""


class CallFailed(Exception):
    """The service cannot be reached, or refused the request."""

    def __init__(self, message: str, is_transient: bool = False, retry_after: float = 0) -> None:
        super().__init__(message)
        self.is_transient, self.retry_after = is_transient, retry_after


@dataclass(frozen=True)
class Config:
    url: str
    project: str
    key: str
    prompt: str
    automation: str
    options: Mapping[str, Any]
    timeout_seconds: float
    fail_on: str


@dataclass(frozen=True)
class Result:
    status: str
    """The job's status; `timed_out` if it did not end in time, `unknown` if the service refused to say."""
    job_id: str
    pr_link: str
    reason: str | None
    message: str
    summary: str

    def is_failure(self, fail_on: str) -> bool:
        if fail_on == "never":
            return False
        has_failed = self.status in ("failed", TIMED_OUT) or self.reason not in HARMLESS_REASONS
        return has_failed or (fail_on == "no-pull-request" and not self.pr_link)


def read_config(environment: Mapping[str, str]) -> Config:
    """Returns the settings. Raises WrongSetting, which names the variable and never contains the key."""

    def read(name: str, default: str = "") -> str:
        return environment.get(f"COPYDESK_{name}", "").strip() or default

    def require(name: str, example: str) -> str:
        value = read(name)
        if not value:
            raise WrongSetting(f"COPYDESK_{name} is empty. Set it to {example}.")
        return value

    url = require("URL", "the address of the service, such as https://copydesk.example.org").rstrip("/")
    project, key = require("PROJECT", "the project's ID (proj_…)"), require("API_KEY", "an API key of the project")
    prompt, automation = read("PROMPT"), read("AUTOMATION")
    address = parse.urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or address.username or address.query:
        raise WrongSetting("COPYDESK_URL must begin with https:// or http://, without a user name or a query.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise WrongSetting("COPYDESK_API_KEY contains a space, a line break or another invalid character.")
    if bool(prompt) == bool(automation):
        raise WrongSetting("Set either COPYDESK_PROMPT or COPYDESK_AUTOMATION.")
    options: dict[str, Any] = {name.lower(): read(name) for name in ("REF", "TITLE") if read(name)}
    draft = read("DRAFT", "false").lower()
    if draft not in ("true", "false"):
        raise WrongSetting("COPYDESK_DRAFT must be true or false.")
    if draft == "true":
        options["draft"] = True
    if automation and options:
        raise WrongSetting("COPYDESK_REF, COPYDESK_TITLE and COPYDESK_DRAFT need COPYDESK_PROMPT.")
    fail_on = read("FAIL_ON", "failed")
    if fail_on not in FAIL_ON:
        raise WrongSetting(f"COPYDESK_FAIL_ON must be one of: {', '.join(FAIL_ON)}.")
    timeout = parse_duration(read("TIMEOUT", "45m"))
    return Config(url, project, key, prompt, automation, options, timeout, fail_on)


def parse_duration(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6})\s*([smh]?)", text)
    if not match or int(match[1]) == 0:
        raise WrongSetting("COPYDESK_TIMEOUT must be a duration such as 90s, 45m or 2h.")
    return int(match[1]) * UNITS[match[2]]


class Redirects(request.HTTPRedirectHandler):
    """Refuses redirects: the key must not reach another address."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:
        raise CallFailed(f"COPYDESK_URL redirects to {newurl}. Set it to the address that it redirects to.")


class Api:
    def __init__(self, config: Config) -> None:
        self._base = f"{config.url}/v2/agent/{parse.quote(config.project, safe='')}"
        self._url, self._key = config.url, config.key
        self._opener = request.build_opener(Redirects)

    def call(self, method: str, path: str, body: Any = None, idempotency_key: str = "") -> dict[str, Any]:
        """Returns the JSON of one response. Raises CallFailed."""
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json", "User-Agent": "copydesk-ci"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        call = request.Request(self._base + path, data=data, method=method, headers=headers)  # noqa: S310  http(s) only
        try:
            with self._opener.open(call, timeout=REQUEST_TIMEOUT_SECONDS) as response:
                content = json.loads(response.read(MAX_RESPONSE_BYTES))
        except error.HTTPError as refusal:
            raise describe_refusal(refusal) from None
        except (OSError, HTTPException, ValueError) as problem:
            reason = getattr(problem, "reason", None) or str(problem) or type(problem).__name__
            is_broken = not isinstance(problem, ValueError)
            message = "cannot be reached" if is_broken else "did not answer like Copydesk"
            raise CallFailed(f"Copydesk at {self._url} {message}: {reason}", is_transient=is_broken) from None
        if not isinstance(content, dict):
            raise CallFailed(f"Copydesk at {self._url} did not answer like Copydesk.")
        return content

    def call_until_accepted(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Retries while the service is unavailable. One idempotency key makes sure that only one job is created."""
        idempotency_key, attempt = uuid.uuid4().hex, 0
        while True:
            attempt += 1
            try:
                return self.call(method, path, body, idempotency_key)
            except CallFailed as failure:
                if not failure.is_transient or attempt == MAX_START_ATTEMPTS:
                    raise
                time.sleep(min(MAX_POLL_SECONDS, max(failure.retry_after, 0.5 * 2**attempt)))


def describe_refusal(refusal: error.HTTPError) -> CallFailed:
    hint = {
        401: " Check the API key.",
        403: " The key needs the scope 'write', and its address list must allow this runner.",
        404: " Check the project, and that the key belongs to it.",
    }
    try:
        message = str(json.loads(refusal.read(MAX_RESPONSE_BYTES))["error"])
    except (OSError, ValueError, KeyError, TypeError):
        message = "The response is not Copydesk's. Check COPYDESK_URL."
    after = refusal.headers.get("Retry-After", "")
    return CallFailed(
        f"{refusal.code}: {message}{hint.get(refusal.code, '')}",
        is_transient=refusal.code in RETRIED_STATUSES,
        retry_after=float(after) if after.isdigit() else 0,
    )


def start(api: Api, config: Config) -> str:
    """Creates the job or runs the automation. Returns the job's ID."""
    if config.prompt:
        body = {"prompt": config.prompt, **config.options}
        job_id = api.call_until_accepted("POST", "/job", body).get("id")
    else:
        automation = parse.quote(find_automation(api, config.automation), safe="")
        job_id = api.call_until_accepted("POST", f"/automations/{automation}/run").get("jobId")
    if not isinstance(job_id, str) or not re.fullmatch(r"\w{1,64}", job_id, re.ASCII):
        raise CallFailed("The service did not answer with a job. Check COPYDESK_URL.")
    return job_id


def find_automation(api: Api, id_or_name: str) -> str:
    if re.fullmatch(r"auto_[0-9a-z]+", id_or_name):
        return id_or_name
    automations = api.call_until_accepted("GET", "/automations").get("automations", [])
    matches = [each["id"] for each in automations if each["name"].casefold() == id_or_name.casefold()]
    if len(matches) != 1:
        count = "no automation" if not matches else f"{len(matches)} automations"
        raise CallFailed(f"The project has {count} with the name {id_or_name!r}. Use the ID (auto_…).")
    return str(matches[0])


def wait(api: Api, config: Config, job_id: str, log: Log) -> Result:
    """Polls the job until it ends. An unavailable service is asked again until the time is over."""
    deadline, delay, phase, problem = time.monotonic() + config.timeout_seconds, 0.5, "", ""
    while True:
        try:
            job = api.call("GET", f"/job/{job_id}")
            problem = ""
        except CallFailed as failure:
            if not failure.is_transient:
                raise
            if not problem:
                log.write(f"{failure} Trying again …")
            job, problem = {}, str(failure)
        if job and job.get("status") != "active":
            return read_result(job, job_id)
        if job.get("phase", phase) != phase:
            phase = str(job["phase"])
            log.write(phase)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            message = problem or "The job is still running, and continues on the service."
            return Result(TIMED_OUT, job_id, "", TIMED_OUT, f"Stopped waiting. {message}", "")
        time.sleep(min(delay, remaining))
        delay = min(MAX_POLL_SECONDS, delay * 1.3)


def read_result(job: Mapping[str, Any], job_id: str) -> Result:
    def read(name: str) -> str:
        return str(job.get(name) or "")

    link = clean_line(read("prLink"))
    is_link = parse.urlsplit(link).scheme in ("http", "https") and " " not in link
    return Result(
        status=clean_line(read("status")),
        job_id=job_id,
        pr_link=link if is_link else "",
        reason=job.get("reason"),
        message=read("message"),
        summary=read("summary"),
    )


def clean_line(text: str) -> str:
    """Returns the text on one line, without control characters and without the commands that CI systems obey."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return re.sub(r"##(?=\[|vso)", "# #", line).strip()[:MAX_LINE_CHARS]


class Log:
    """Writes to the console. Text of the service and the model cannot give commands to the CI system."""

    def __init__(self, secret: str, is_github: bool) -> None:
        self._secret, self._is_github = secret, is_github
        if secret and is_github:
            print(f"::add-mask::{secret}", flush=True)

    def write(self, text: str) -> None:
        print(f"copydesk: {self.redact(clean_line(text))}", flush=True)

    def write_error(self, text: str) -> None:
        """Writes the error; on GitHub as an annotation, in whose text a percent sign must be escaped."""
        line = self.redact(clean_line(text))
        print(f"::error title=Copydesk::{line.replace('%', '%25')}" if self._is_github else f"copydesk: {line}")
        sys.stdout.flush()

    def redact(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text


def write_outputs(environment: Mapping[str, str], result: Result) -> None:
    """Appends the outputs to the files of the CI system. Every value is one line."""
    values = {"status": result.status, "job-id": result.job_id, "pr-link": result.pr_link}
    append(environment.get("GITHUB_OUTPUT"), "".join(f"{name}={value}\n" for name, value in values.items()))
    lines = (f"COPYDESK_{name.upper().replace('-', '_')}={value}\n" for name, value in values.items())
    append(environment.get("COPYDESK_DOTENV"), "".join(lines))


def write_summary(path: str | None, config: Config, result: Result, log: Log) -> None:
    """Appends Markdown. Text of the model is in a code block, which it cannot leave."""
    page = f"{config.url}/projects/{parse.quote(config.project, safe='')}/jobs/{result.job_id}"
    link = parse.quote(result.pr_link, safe=":/?#@!$&'*+,;=%~-._")
    rows = [
        f"### Copydesk: {result.status.replace('_', ' ')}",
        "",
        "| | |",
        "|---|---|",
        f"| Job | [{result.job_id}]({page}) |",
        f"| Pull request | {f'<{link}>' if link else 'none'} |",
        "",
    ]
    for text in (result.message, result.summary):
        text = log.redact("".join(char for char in text if char.isprintable() or char in "\n\t"))[:MAX_SUMMARY_CHARS]
        if text.strip():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            rows += [f"{fence}text", text.strip(), fence, ""]
    append(path, "\n".join(rows))


def append(path: str | None, text: str) -> None:
    if path:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(text)


def main(environment: Mapping[str, str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    key = environment.get("COPYDESK_API_KEY", "").strip()
    log = Log(key if key.isprintable() else "", environment.get("GITHUB_ACTIONS") == "true")
    try:
        config = read_config(environment)
    except WrongSetting as fault:
        log.write_error(str(fault))
        return 2
    api, job_id = Api(config), ""
    try:
        job_id = start(api, config)
        log.write(f"job {job_id}")
        result = wait(api, config, job_id, log)
    except CallFailed as failure:
        if job_id:
            write_outputs(environment, Result("unknown", job_id, "", None, "", ""))
        log.write_error(str(failure))
        return 1
    write_outputs(environment, result)
    write_summary(environment.get("GITHUB_STEP_SUMMARY"), config, result, log)
    log.write(f"{result.status.replace('_', ' ')}: {result.pr_link or result.message or 'no pull request'}")
    if result.is_failure(config.fail_on):
        why = result.message or ("There is no pull request." if not result.pr_link else "")
        log.write_error(f"The job {result.job_id} ended as {result.status.replace('_', ' ')}. {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
