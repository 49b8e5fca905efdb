"""Runs the git program for remote operations and packing, with a fixed configuration and environment."""

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
from copydesk.core.text.redaction import redact, redact_tokens
from copydesk.core.text.truncation import truncate
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.errors import RepositoryAccessDenied, RepositoryRedirected, RepositoryUnavailable
from copydesk.jobs.publish.git.local_repository import LocalRepository
from copydesk.jobs.publish.git.program_output import read_output
from copydesk.jobs.workspace.repository_limits import DEFAULT_LIMITS, RepositoryLimits, git_out_of_memory

# Neither side may run hooks or configured commands of a repository. For a local repository, git does not even read its
# configuration (local_repository.py); these settings are a second defense.
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
"""Limits git's memory, because a small pack can contain deltas that expand without bound."""
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
INHERITED_VARIABLES = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", *PROXY_VARIABLES)

# Errors after which a retry may succeed: the other side did not respond, or not as a repository.
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
PROTECTED_BRANCH_PATTERN = re.compile(
    r"^remote: (?:\w+: )?(Not allowed to (?:force-)?push to protected branch .+"
    r"|branch \S+ is protected from .+)$",
    re.MULTILINE,
)
"""How Gitea and Forgejo refuse a push. Lines of versions differ in what is before the sentence."""
REMOTE_LINE_PATTERN = re.compile(r"^remote:[ \t]?(.*?)[ \t]*$", re.MULTILINE)
REJECTED_PATTERN = re.compile(r"^ ! \[remote rejected\] .*\((.+)\)$", re.MULTILINE)
MAX_REMOTE_CHARS = 8000
REDIRECT_PATTERN = re.compile(r"requested URL returned error: 30[1278]")
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
"""Called regularly while git runs; an exception from it stops git."""


class Git:
    """Runs git against one repository's URL. The token is passed in the environment, never as an argument."""

    def __init__(
        self,
        url: str,
        *,
        get_token: Callable[[], str | None] = lambda: None,
        pinned_address: str | None = None,
        stoppable: Stoppable = unstoppable,
        limits: RepositoryLimits = DEFAULT_LIMITS,
    ) -> None:
        """Creates a runner. `get_token` is called before each command, because a minted token may need renewal."""
        self.url = url
        self.get_token = get_token
        self.stoppable = stoppable
        self.limits = limits
        self._config = {"http.followRedirects": "false", "credential.helper": "", "http.lowSpeedLimit": "1000",
                        "http.lowSpeedTime": "60"}  # fmt: skip
        self._inherited_variables: tuple[str, ...] = INHERITED_VARIABLES
        if pinned_address is not None:  # no proxy: it would resolve the host again
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
        """Returns git's output. Raises RepositoryFailed with git's error message, redacted, when it fails.

        Git inherits `lock_fds`, so that a git that outlives this process keeps the locks until it exits.
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
        self,
        folder: Path,
        refspecs: Sequence[str],
        lock_fds: Sequence[int] = (),
        watch: Watch = lambda: None,
        *,
        only_folders: bool = False,
        seconds: float = 600,
    ) -> None:
        """Fetches branches. With `only_folders`, fetches the newest commits alone, without the contents of files.

        A host that cannot leave out the contents sends them too.
        """
        remote_program = f"--upload-pack=git {REMOTE_GIT_OPTIONS} upload-pack"
        filters = ["--depth=1", "--filter=blob:none"] if only_folders else []
        with self._open_remote() as address:
            self.run(folder, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
                     *filters, remote_program,
                     "--", address, *refspecs, seconds=seconds, lock_fds=lock_fds, watch=watch)  # fmt: skip

    def push(self, folder: Path, commit: str, branch: str, expected: str | None) -> None:
        """Moves the branch to the commit if its head is `expected`; None means that the branch must not exist yet.

        In a local repository, files are created with the user's umask and not with the private one of the mirror.
        """
        remote_program = f"--receive-pack=git {REMOTE_GIT_OPTIONS} receive-pack"
        lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
        if self.is_local:
            LocalRepository.find(self.url).refuse_checked_out(branch)
        with self._open_remote() as address:
            self.run(folder, "push", "--quiet", "--no-verify", lease, remote_program, "--", address,
                     f"{commit}:refs/heads/{branch}", umask=user_umask())  # fmt: skip

    def list_heads(self, *patterns: str, seconds: float = 120) -> dict[str, str]:
        """Returns the remote's current branches with their commits.

        With the pattern HEAD, the key `HEAD` holds the name of the default branch.
        """
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

    def list_refs(self, *patterns: str, seconds: float = 120) -> dict[str, str]:
        """Returns the full names of the remote's refs that match, with their commits. A tag has its commit, too."""
        remote_program = f"--upload-pack=git {REMOTE_GIT_OPTIONS} upload-pack"
        with self._open_remote() as address:
            out = self.run(None, "ls-remote", remote_program, "--", address, *patterns, seconds=seconds)
        pairs = (re.fullmatch(r"([0-9a-f]{40,64})\t(refs/\S+)", line) for line in out.splitlines())
        refs = {pair[2]: pair[1] for pair in pairs if pair}
        peeled = {name.removesuffix("^{}"): commit for name, commit in refs.items() if name.endswith("^{}")}
        return {name: peeled.get(name, commit) for name, commit in refs.items() if not name.endswith("^{}")}

    @contextmanager
    def _open_remote(self) -> Iterator[str]:
        """Yields the address for git: the URL, or a view of a local repository without its configuration."""
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
    """Returns the error for git's message, with secrets redacted."""
    if BRANCH_MOVED_PATTERN.search(stderr):
        return RepositoryFailed(
            "Someone else changed the branch in the meantime, so nothing was pushed. Send another message to continue "
            "from the current state of the branch."
        )
    if protection := PROTECTED_BRANCH_PATTERN.search(stderr):
        return RepositoryFailed(
            f"The repository's branch protection refused the push: {redact(protection[1].strip(), token)[:300]}. Allow "
            "the token's owner to push to such branches, or choose another branch_prefix for the project."
        )
    if REDIRECT_PATTERN.search(stderr):
        return RepositoryRedirected(
            "The repository's host redirects git to another address. If the repository was moved or renamed, change "
            "the project's repository URL, for example with: copydesk project set repository=ADDRESS"
        )
    error_type: type[RepositoryFailed] = (
        RepositoryUnavailable if UNAVAILABLE_PATTERN.search(stderr) else RepositoryFailed
    )
    if rejection := REJECTED_PATTERN.search(stderr):
        return error_type(f"git {command} failed: {_describe_rejection(rejection[1], stderr, token)}")
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith(IGNORED_LINE_PREFIXES)]
    message = re.sub(r"^(fatal|error|remote): ", "", " ".join(lines[-3:])).strip()
    message = redact(message, token)[:400]
    if ACCESS_DENIED_PATTERN.search(stderr):
        problem = "refused the token: it may have expired or lack a permission" if token else "requires a token"
        return RepositoryAccessDenied(f"git {command} failed: the repository's host {problem} ({message}).")
    return error_type(f"git {command} failed: {message or 'no reason given'}.")


def _describe_rejection(reason: str, stderr: str, token: str | None) -> str:
    """Returns why the host rejected a push: git's reason, then all that the host said, redacted.

    Hosts explain a rule in many lines, which end with a blank one.
    """
    remote_lines = [line.strip() for line in REMOTE_LINE_PATTERN.findall(stderr) if line.strip()]
    printable_text = "".join(char if char.isprintable() else " " for char in " ".join(remote_lines))
    explanation = truncate(redact_tokens(printable_text, token), MAX_REMOTE_CHARS)
    if not explanation:
        return f"the host rejected the push ({reason})."
    end = "" if explanation.endswith((".", "!", "?", "…")) else "."
    return f"the host rejected the push ({reason}). It says: {explanation}{end}"


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
    """Kills git and all processes that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
