"""Encodes the files of a case and the changes of its reference."""

from benchmarks.agent.cases import EvaluationCase, FileContent, FileEdit, InvalidCase
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Changes


def encode_case_files(case: EvaluationCase) -> Changes:
    return {path: _encode_content(content) for path, content in (case.files or {}).items()}


def build_reference_changes(case: EvaluationCase, tree: Tree) -> Changes:
    """Returns the changes that the reference makes to the base, if the reference is given as files."""
    assert not isinstance(case.reference, str)
    changes: Changes = {}
    for path, change in case.reference.items():
        if change is False:
            changes[path] = None
        elif isinstance(change, FileEdit):
            before = change.moved_from or path
            changes[path] = _apply_edit(case, before, _read_base_file(case, tree, before), change)
            if change.moved_from is not None:
                changes[before] = None
        else:
            changes[path] = _encode_content(change)
    return changes


def _apply_edit(case: EvaluationCase, path: str, data: bytes, edit: FileEdit) -> bytes:
    """Applies the replacements in the file's own encoding and line endings."""
    text = DecodedText.decode(data)
    body = text.body
    for old, new in edit.replace:
        if "\r\n" in body:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        if old not in body:
            raise InvalidCase(f"Case {case.name}: {path} does not contain {old!r}, which its reference replaces.")
        body = body.replace(old, new)
    try:
        return text.encode(body)
    except NotEditable as error:
        raise InvalidCase(f"Case {case.name}, {path}: {error}") from None


def _read_base_file(case: EvaluationCase, tree: Tree, path: str) -> bytes:
    entry = tree.find_entry(path)
    if entry is None or not entry.is_file:
        raise InvalidCase(f"Case {case.name}: its reference edits {path}, which the base does not have.")
    return tree.read(entry)


def _encode_content(content: str | FileContent) -> bytes:
    return content.encode()
