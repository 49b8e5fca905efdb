"""Recognizes prompts that name the documentation folder as a folder, so that a job may create it."""

import re

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
