"""Runs a project's check command, such as a site build, on a copy of the workspace in a sandbox."""

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
from copydesk.jobs.sandbox.protocol import MIB, SandboxResult
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable, private_folder
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.workspace import Workspace

MAX_COPIED_FILES = 50_000
MAX_COPIED_BYTES = 512 * MIB
MAX_OUTPUT_CHARS = 16_000
ANSI_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.S)


@dataclass(frozen=True)
class CommandResult:
    """The result of a check command. `summary` is one sentence; `output` is the end of its output, safe to display."""

    ok: bool
    summary: str
    output: str = ""
    ran: bool = True
    """False if the command could not be run at all, which no change to the pages can fix."""


class ExportFailed(Exception):
    """The workspace cannot be copied; the message says why."""


def run_command(
    command: str,
    workspace: Workspace,
    sandbox: Sandbox | SandboxUnavailable,
    *,
    root: str,
    seconds: float,
    stoppable: Stoppable = unstoppable,
    tools: Sequence[str] = (),
) -> CommandResult:
    """Runs the command in a copy of the project's root. `tools` are folders outside /usr that it can read.

    Without a sandbox the command is not run and the check fails, so that a configured check is never skipped silently.
    """
    if isinstance(sandbox, SandboxUnavailable):
        return CommandResult(False, f"The check command was not run. {sandbox.reason}", ran=False)
    with private_folder() as folder:
        stop = threading.Event()
        try:
            with stoppable(stop.set):
                export_workspace(workspace, folder / "work", root, stop)
        except ExportFailed as error:
            return CommandResult(False, f"The check command was not run. {error}", ran=False)
        outcome = sandbox.run(command, folder, seconds=seconds, stoppable=stoppable, readable=tools)
        return _build_result(outcome, seconds, str(folder))


def export_workspace(workspace: Workspace, target: Path, root: str = "", stop: threading.Event | None = None) -> None:
    """Writes the regular files below `root` to a folder. Leaves out symbolic links, submodules and git folders."""
    prefix = f"{root}/" if root else ""
    files = 0
    size = 0
    for path in workspace.paths():
        if stop is not None and stop.is_set():
            raise ExportFailed("Copying the files was stopped.")
        if not path.startswith(prefix) or _is_unsafe_path(path):
            continue
        try:
            data = workspace.read(path)
        except FileTooLarge as error:
            raise ExportFailed(str(error)) from None
        files += 1
        size += len(data)
        if files > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
            raise ExportFailed(
                "The documentation is too large for a check command: "
                f"the limit is {MAX_COPIED_FILES:,} files and {MAX_COPIED_BYTES // MIB} MiB."
            )
        entry = workspace.tree.find_entry(path)
        executable = entry is not None and entry.mode == FileMode.BLOB_EXECUTABLE
        file = target / path.removeprefix(prefix)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if executable else 0o644
            )
        except OSError as error:
            raise ExportFailed(f"Could not copy {path}: {error.strerror}.") from None
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)


def clean_output(output: str) -> str:
    """Returns the end of the output as a terminal would finally show it, without colors and control characters."""
    lines = ANSI_ESCAPE_PATTERN.sub("", output).replace("\r\n", "\n").split("\n")
    final_text = "\n".join(line.rpartition("\r")[2] for line in lines)
    printable = "".join(c for c in final_text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return printable if len(printable) <= MAX_OUTPUT_CHARS else f"…\n{printable[-MAX_OUTPUT_CHARS:]}"


def _is_unsafe_path(path: str) -> bool:
    """Returns whether a path could lead outside the copy. A crafted tree can contain names that git never creates."""
    return any(part in ("", ".", "..") or part.casefold() == ".git" or "\x00" in part for part in path.split("/"))


def _build_result(outcome: SandboxResult, seconds: float, folder: str) -> CommandResult:
    output = clean_output(outcome.output.replace(f"{folder}/", "/"))
    match outcome.ending:
        case "ended" if outcome.status == 0:
            return CommandResult(True, "The check command passed.", output)
        case "ended" if outcome.status < 0:
            summary = f"The check command was terminated by {signal.Signals(-outcome.status).name}."
        case "ended":
            summary = f"The check command failed with status {outcome.status}."
        case "time":
            summary = f"The check command did not finish within {seconds:g} s."
        case "disk":
            summary = "The check command was stopped because it wrote too much data to disk."
        case "files":
            summary = "The check command was stopped because it created too many files."
        case "sockets":
            summary = "The check command was stopped because it opened too many sockets."
        case "memory":
            summary = "The check command was stopped because it used too much memory."
        case "stopped":
            summary = "The check command was stopped."
        case "broken":
            message = f"The check command could not be run: {' '.join(output.split())}."
            return CommandResult(False, message, ran=False)
    return CommandResult(False, summary, output)
