"""Git's own program, for fetch and push only, in a fixed, closed environment."""

import base64
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from copydesk.core.errors import DiskFull
from copydesk.core.runtime.private_umask import UNCHANGED, user_umask
from copydesk.core.text.redaction import redact
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.errors import RepositoryUnavailable
from copydesk.jobs.publish.git.local_repository import LocalRepository
from copydesk.jobs.publish.git.program_output import read_output
from copydesk.jobs.workspace.repository_limits import DEFAULT_LIMITS, RepositoryLimits, git_out_of_memory

# Neither side may run anything of a repository's own: no hook, no command from its configuration. The far side of a
# local repository does not even read that configuration (local_repository.py); these settings are a second defense.
SAFE_CONFIG = (
    "core.hooksPath=/dev/null",
    "receive.denyCurrentBranch=refuse",
    "core.alternateRefsCommand=true",
    "core.fsmonitor=false",
    "gc.auto=0",
    "receive.autogc=false",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
)
REMOTE_GIT_OPTIONS = " ".join(f"-c {option}" for option in SAFE_CONFIG)
MEMORY_LIMITED_GIT = 'ulimit -S -d "$0" 2>/dev/null; exec git "$@"'
"""Memory, since a small pack can hold deltas that grow without bound."""
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
INHERITED_VARIABLES = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", *PROXY_VARIABLES)

# The other side did not answer, or not as a repository: it may do so in a while.
UNAVAILABLE_PATTERN = re.compile(
    r"Could not resolve host|Failed to connect|Couldn't connect|Connection (?:refused|reset|timed out)|timed out"
    r"|Empty reply from server|requested URL returned error: (?:5\d\d|429)|unexpected disconnect|early EOF|RPC failed"
    r"|remote end hung up|Operation too slow|SSL_ERROR_SYSCALL|Recv failure|Send failure|bad gateway"
    r"|No space left on device",
    re.IGNORECASE,
)
LOCAL_OUT_OF_MEMORY_PATTERN = re.compile(
    rb"^(?!remote:).*(?:Out of memory|out of memory|Cannot allocate memory)", re.MULTILINE
)
LOCAL_DISK_FULL_PATTERN = re.compile(rb"^(?!remote:).*No space left on device", re.MULTILINE)
ACCESS_DENIED_PATTERN = re.compile(
    r"Authentication failed|could not read (?:Username|Password)|requested URL returned error: 40[13]|HTTP Basic: "
    r"|Write access to repository not granted|Permission to .{1,300} denied|Invalid username or (?:password|token)",
    re.IGNORECASE,
)
BRANCH_MOVED_PATTERN = re.compile(r"\(stale info\)|incorrect old value provided")
IGNORED_LINE_PREFIXES = (
    "hint:",
    "To ",
    "warning: setting remote service path not supported",
    "fatal: Could not read from remote repository",
    "Please make sure you have the correct access rights",
    "and the repository exists",
)


Watch = Callable[[], None]
"""Called while git runs; what it raises ends git."""


class Git:
    """Runs git against one repository's address. The token goes by the environment, never by an argument."""

    def __init__(
        self,
        url: str,
        *,
        get_token: Callable[[], str | None] = lambda: None,
        pinned_address: str | None = None,
        stoppable: Stoppable = unstoppable,
        limits: RepositoryLimits = DEFAULT_LIMITS,
    ) -> None:
        """`token` is asked before each command: one that was minted for a job may have to be renewed."""
        self.url = url
        self.get_token = get_token
        self.stoppable = stoppable
        self.limits = limits
        self._config = {"http.followRedirects": "false", "credential.helper": "", "http.lowSpeedLimit": "1000",
                        "http.lowSpeedTime": "60"}  # fmt: skip
        self._inherited_variables: tuple[str, ...] = INHERITED_VARIABLES
        if pinned_address is not None:  # a proxy would look the host up again, so none is used
            self._config |= {"http.curloptResolve": pinned_address, "http.proxy": ""}
            self._inherited_variables = tuple(name for name in INHERITED_VARIABLES if name not in PROXY_VARIABLES)

    @property
    def is_local(self) -> bool:
        return not self.url.startswith(("http://", "https://"))

    def run(
        self,
        folder: Path | None,
        *arguments: str,
        seconds: float = 600,
        lock_fds: Sequence[int] = (),
        watch: Watch = lambda: None,
        umask: int = UNCHANGED,
    ) -> str:
        """What git printed; RepositoryFailed in git's own words, without secrets, when it failed.

        The locks `held` go on to git, so that one that outlives us keeps them until it is done.
        """
        token = self.get_token()
        folder_options = ["-C", str(folder)] if folder else []
        config_options = [part for option in SAFE_CONFIG for part in ("-c", option)]
        process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                MEMORY_LIMITED_GIT,
                str(self.limits.git_bytes // 1024),
                *folder_options,
                *config_options,
                *arguments,
            ],
            env=_build_environment({**self._config, **self._auth_config(token)}, self._inherited_variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(lock_fds),
            umask=umask,
        )
        try:
            with self.stoppable(lambda: _kill(process)):
                out, err = read_output(process, seconds, watch)
        except subprocess.TimeoutExpired:
            raise RepositoryUnavailable(f"git {arguments[0]} took longer than {seconds:.0f} s.") from None
        finally:
            _kill(process)
        if process.returncode != 0:
            if LOCAL_DISK_FULL_PATTERN.search(err):
                raise DiskFull
            if LOCAL_OUT_OF_MEMORY_PATTERN.search(err):
                raise git_out_of_memory(self.limits)
            raise _error_from_stderr(arguments[0], err.decode("utf-8", "replace"), token)
        return out.decode("utf-8", "surrogateescape")

    def fetch(
        self, folder: Path, refspecs: Sequence[str], lock_fds: Sequence[int] = (), watch: Watch = lambda: None
    ) -> None:
        remote_program = f"--upload-pack=git {REMOTE_GIT_OPTIONS} upload-pack"
        with self._open_remote() as address:
            self.run(folder, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
                     remote_program,
                     "--", address, *refspecs, lock_fds=lock_fds, watch=watch)  # fmt: skip

    def push(self, folder: Path, commit: str, branch: str, expected: str | None) -> None:
        """Replaces the branch's head only when it is the expected one; None means that it must not exist yet.

        Files of a repository on this machine are its user's own, and not created privately as the mirror's are."""
        remote_program = f"--receive-pack=git {REMOTE_GIT_OPTIONS} receive-pack"
        lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
        if self.is_local:
            LocalRepository.find(self.url).refuse_checked_out(branch)
        with self._open_remote() as address:
            self.run(folder, "push", "--quiet", "--no-verify", lease, remote_program, "--", address,
                     f"{commit}:refs/heads/{branch}", umask=user_umask())  # fmt: skip

    def list_heads(self, *patterns: str, seconds: float = 120) -> dict[str, str]:
        """Branch → commit of the far side, as it is now; the pattern HEAD also tells the default branch as `HEAD`."""
        remote_program = f"--upload-pack=git {REMOTE_GIT_OPTIONS} upload-pack"
        with self._open_remote() as address:
            out = self.run(None, "ls-remote", "--symref", remote_program, "--", address, *patterns, seconds=seconds)
        heads = {}
        for line in out.splitlines():
            if symref := re.fullmatch(r"ref: refs/heads/(\S+)\tHEAD", line):
                heads["HEAD"] = symref[1]
            elif head := re.fullmatch(r"([0-9a-f]{40,64})\trefs/heads/(\S+)", line):
                heads[head[2]] = head[1]
        return heads

    @contextmanager
    def _open_remote(self) -> Iterator[str]:
        """Yields what git is told: the URL, or for a repository on this machine a view of it without its settings."""
        if self.is_local:
            with LocalRepository.find(self.url).open_view() as folder:
                yield str(folder)
        else:
            yield self.url

    def _auth_config(self, token: str | None) -> dict[str, str]:
        if token is None:
            return {}
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        return {f"http.{self.url}.extraHeader": f"Authorization: Basic {basic}"}


def _error_from_stderr(command: str, stderr: str, token: str | None) -> RepositoryFailed:
    """In git's own words, without secrets."""
    if BRANCH_MOVED_PATTERN.search(stderr):
        return RepositoryFailed(
            "The branch was changed by somebody else meanwhile, so nothing was pushed; send another message to go on "
            "from it as it is now."
        )
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith(IGNORED_LINE_PREFIXES)]
    message = re.sub(r"^(fatal|error|remote): ", "", " ".join(lines[-3:])).strip()
    message = redact(message, token)[:400]
    if ACCESS_DENIED_PATTERN.search(stderr):
        problem = "refused the token: it may have expired or lack a right" if token else "asks for a token"
        return RepositoryFailed(f"git {command} failed: the repository's host {problem} ({message}).")
    error_type = RepositoryUnavailable if UNAVAILABLE_PATTERN.search(stderr) else RepositoryFailed
    return error_type(f"git {command} failed: {message or 'no reason given'}.")


def _build_environment(config: Mapping[str, str], inherited: Sequence[str]) -> dict[str, str]:
    variables = {
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_ALLOW_PROTOCOL": "file:http:https",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**{name: os.environ[name] for name in inherited if name in os.environ}, **variables}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Git and everything it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
