"""Recognizes prompts that name the documentation folder as a folder, so that a job may create it."""

import re
from collections.abc import Sequence

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.repository_warnings import describe_missing_folder
from copydesk.jobs.workspace.workspace import Workspace

FOLDER_WORD_PATTERN = re.compile(r"\b(?:folder|directory)\b", re.IGNORECASE)


def asks_for_folder(prompt: str, folder: str) -> bool:
    """Returns whether the prompt names the folder: with a slash, or together with the word folder or directory.

    The name alone does not count, because most prompts say "docs" and mean the documentation.
    """
    name = rf"(?<![\w./-]){re.escape(folder)}"
    if re.search(rf"{name}/", prompt):
        return True
    is_named = re.search(rf"{name}(?![\w-])", prompt) is not None
    return is_named and ("/" in folder or FOLDER_WORD_PATTERN.search(prompt) is not None)


def refuse_missing_folder(workspace: Workspace, prompts: Sequence[str], ref: str) -> None:
    """Raises RepositoryFailed if the documentation folder does not exist, unless a prompt asks to create it.

    Otherwise the agent would find no pages, change nothing, and the job would look successful."""
    folder = workspace.root
    if folder and not workspace.tree.has_folder(folder) and not any(asks_for_folder(each, folder) for each in prompts):
        raise RepositoryFailed(describe_missing_folder(folder, ref))
