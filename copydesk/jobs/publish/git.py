"""Git's own program, for fetch and push only, in a fixed, closed environment."""

import base64
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from copydesk.jobs.job import RepositoryFailed

# The other side of a local repository must run nothing of its own: no hook, no command from its configuration.
CLOSED = (
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=true",
    "core.fsmonitor=false",
    "gc.auto=0",
    "receive.autogc=false",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
)
FAR_SIDE = " ".join(f"-c {option}" for option in CLOSED)
PASSED_ON = (
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
)

Stoppable = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""While the context lasts, a stop from outside calls the function it was given."""


def unstoppable(_cancel: Callable[[], object]) -> AbstractContextManager[None]:
    return nullcontext()


class Git:
    """Runs git against one repository's address. The token goes by the environment, never by an argument."""

    def __init__(
        self, url: str, *, token: str | None = None, pinned: str | None = None, stoppable: Stoppable = unstoppable
    ) -> None:
        self.url = url
        self.token = token
        self.stoppable = stoppable
        self._config = {"http.followRedirects": "false", "credential.helper": "", "http.lowSpeedLimit": "1000",
                        "http.lowSpeedTime": "60"}  # fmt: skip
        if pinned is not None:
            self._config["http.curloptResolve"] = pinned
        if token is not None:
            basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
            self._config[f"http.{url}.extraHeader"] = f"Authorization: Basic {basic}"

    def run(self, folder: Path | None, *arguments: str, seconds: float = 600, held: Sequence[int] = ()) -> str:
        """What git printed; RepositoryFailed in git's own words, without secrets, when it failed.

        The locks `held` go on to git, so that one that outlives us keeps them until it is done.
        """
        where = ["-C", str(folder)] if folder else []
        options = [part for option in CLOSED for part in ("-c", option)]
        process = subprocess.Popen(
            ["git", *where, *options, *arguments],
            env=_environment(self._config),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(held),
        )
        try:
            with self.stoppable(lambda: _kill(process)):
                out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise RepositoryFailed(f"git {arguments[0]} took longer than {seconds:.0f} s.") from None
        finally:
            _kill(process)
        if process.returncode != 0:
            raise RepositoryFailed(self._explain(arguments[0], err.decode("utf-8", "replace")))
        return out.decode("utf-8", "surrogateescape")

    def fetch(self, folder: Path, refspecs: Sequence[str], held: Sequence[int] = ()) -> None:
        far = f"--upload-pack=git {FAR_SIDE} upload-pack"
        self.run(folder, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", far,
                 "--", self.url, *refspecs, held=held)  # fmt: skip

    def push(self, folder: Path, commit: str, branch: str, expected: str | None) -> None:
        """Replaces the branch's head only when it is the expected one; None means that it must not exist yet."""
        far = f"--receive-pack=git {FAR_SIDE} receive-pack"
        lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
        self.run(folder, "push", "--quiet", "--no-verify", lease, far, "--", self.url, f"{commit}:refs/heads/{branch}")

    def heads(self, *patterns: str) -> dict[str, str]:
        """Branch → commit of the far side, as it is now; the pattern HEAD also tells the default branch as `HEAD`."""
        far = f"--upload-pack=git {FAR_SIDE} upload-pack"
        out = self.run(None, "ls-remote", "--symref", far, "--", self.url, *patterns, seconds=120)
        found = {}
        for line in out.splitlines():
            if symref := re.fullmatch(r"ref: refs/heads/(\S+)\tHEAD", line):
                found["HEAD"] = symref[1]
            elif head := re.fullmatch(r"([0-9a-f]{40,64})\trefs/heads/(\S+)", line):
                found[head[2]] = head[1]
        return found

    def _explain(self, verb: str, said: str) -> str:
        if "branch is currently checked out" in said:
            return "The branch is checked out in the repository, so it cannot be pushed to: merge it there, with git."
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("hint:", "To "))]
        words = re.sub(r"^(fatal|error|remote): ", "", " ".join(lines[-3:])).strip()[:400]
        if self.token:
            words = words.replace(self.token, "•••")
        return f"git {verb} failed: {words or 'no reason given'}."


def _environment(config: Mapping[str, str]) -> dict[str, str]:
    fixed = {
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_ALLOW_PROTOCOL": "file:http:https",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config.items()):
        fixed[f"GIT_CONFIG_KEY_{number}"] = key
        fixed[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, **fixed}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Git and everything it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
