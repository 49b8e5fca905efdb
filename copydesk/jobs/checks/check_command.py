"""A project's own check, such as a site build: a command that runs on a copy of the workspace, in a sandbox."""

import os
import re
import signal
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pygit2.enums import FileMode

from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.sandbox.protocol import MIB, Answer
from copydesk.jobs.sandbox.sandbox import Sandbox, Unavailable, private_folder
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.workspace import Workspace

MOST_FILES = 50_000
MOST_BYTES = 512 * MIB
MOST_OUTPUT = 16_000
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.S)


@dataclass(frozen=True)
class CommandResult:
    """`summary` is one sentence; `output` the end of what the command printed, safe to show."""

    ok: bool
    summary: str
    output: str = ""
    ran: bool = True
    """False where it could not even be run, which no change to the pages can mend."""


class NotExported(Exception):
    """The workspace cannot be copied; the message tells why."""


def run_command(
    command: str,
    workspace: Workspace,
    sandbox: Sandbox | Unavailable,
    *,
    root: str,
    seconds: float,
    stoppable: Stoppable = unstoppable,
    tools: Sequence[str] = (),
) -> CommandResult:
    """Runs it where the project's root was copied to. `tools` are folders outside /usr that it may read.

    Without a sandbox it is not run, and that is a failure: a check that was asked for is never passed over in silence.
    """
    if isinstance(sandbox, Unavailable):
        return CommandResult(False, f"The check command was not run. {sandbox.why}", ran=False)
    with private_folder() as folder:
        stop = threading.Event()
        try:
            with stoppable(stop.set):
                export(workspace, folder / "work", root, stop)
        except NotExported as error:
            return CommandResult(False, f"The check command was not run. {error}", ran=False)
        answer = sandbox.run(command, folder, seconds=seconds, stoppable=stoppable, readable=tools)
        return _result(answer, seconds, str(folder))


def export(workspace: Workspace, target: Path, root: str = "", stop: threading.Event | None = None) -> None:
    """Writes the regular files below `root`, and nothing else: no link, no submodule, no git folder."""
    below = f"{root}/" if root else ""
    files, size = 0, 0
    for path in workspace.paths():
        if stop is not None and stop.is_set():
            raise NotExported("It was stopped.")
        if not path.startswith(below) or _leads_out(path):
            continue
        try:
            data = workspace.read(path)
        except FileTooLarge as error:
            raise NotExported(str(error)) from None
        files, size = files + 1, size + len(data)
        if files > MOST_FILES or size > MOST_BYTES:
            raise NotExported(f"A copy can have {MOST_FILES:,} files and {MOST_BYTES // MIB} MiB; this has more.")
        entry = workspace.tree.entry(path)
        executable = entry is not None and entry.mode == FileMode.BLOB_EXECUTABLE
        file = target / path.removeprefix(below)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            new = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if executable else 0o644)
        except OSError as error:
            raise NotExported(f"{path} cannot be copied: {error.strerror}.") from None
        with os.fdopen(new, "wb") as opened:
            opened.write(data)


def cleaned(output: str) -> str:
    """As a terminal would show it in the end, without colours or anything that steers, and the last part only."""
    lines = ESCAPES.sub("", output).replace("\r\n", "\n").split("\n")
    plain = "\n".join(line.rpartition("\r")[2] for line in lines)
    shown = "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return shown if len(shown) <= MOST_OUTPUT else f"…\n{shown[-MOST_OUTPUT:]}"


def _leads_out(path: str) -> bool:
    """A tree can be made to contain such names, though git itself would not."""
    return any(part in ("", ".", "..") or part.casefold() == ".git" or "\x00" in part for part in path.split("/"))


def _result(answer: Answer, seconds: float, folder: str) -> CommandResult:
    output = cleaned(answer.output.replace(f"{folder}/", "/"))
    match answer.ending:
        case "ended" if answer.status == 0:
            return CommandResult(True, "The check command passed.", output)
        case "ended" if answer.status < 0:
            summary = f"The check command was ended by {signal.Signals(-answer.status).name}."
        case "ended":
            summary = f"The check command failed with status {answer.status}."
        case "time":
            summary = f"The check command was not done within {seconds:g} s."
        case "disk":
            summary = "The check command wrote more than it may, and was stopped."
        case "files":
            summary = "The check command made more files than it may, and was stopped."
        case "sockets":
            summary = "The check command opened more sockets than it may, and was stopped."
        case "memory":
            summary = "The check command took more memory than it may, and was stopped."
        case "stopped":
            summary = "The check command was stopped."
        case "broken":
            return CommandResult(False, f"The check command could not be started: {' '.join(output.split())}.")
    return CommandResult(False, summary, output)
