"""Encodes the files of a case and the changes of its reference."""

from benchmarks.agent.cases import Case, CaseRefused, Content, Edited
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Changes


def files_of(case: Case) -> Changes:
    return {path: _encoded(content) for path, content in (case.files or {}).items()}


def reference_of(case: Case, tree: Tree) -> Changes:
    """Returns the changes that the reference makes to the base, if the reference is given as files."""
    assert not isinstance(case.reference, str)
    changes: Changes = {}
    for path, wanted in case.reference.items():
        if wanted is False:
            changes[path] = None
        elif isinstance(wanted, Edited):
            before = wanted.moved_from or path
            changes[path] = _edited(case, before, _original(case, tree, before), wanted)
            if wanted.moved_from is not None:
                changes[before] = None
        else:
            changes[path] = _encoded(wanted)
    return changes


def _edited(case: Case, path: str, data: bytes, wanted: Edited) -> bytes:
    """Applies the replacements in the file's own encoding and line endings."""
    text = DecodedText.decode(data)
    body = text.body
    for old, new in wanted.replace:
        if "\r\n" in body:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        if old not in body:
            raise CaseRefused(f"Case {case.name}: {path} does not contain {old!r}, which its reference replaces.")
        body = body.replace(old, new)
    try:
        return text.encode(body)
    except NotEditable as error:
        raise CaseRefused(f"Case {case.name}, {path}: {error}") from None


def _original(case: Case, tree: Tree, path: str) -> bytes:
    entry = tree.find_entry(path)
    if entry is None or not entry.is_file:
        raise CaseRefused(f"Case {case.name}: its reference edits {path}, which the base does not have.")
    return tree.read(entry)


def _encoded(content: str | Content) -> bytes:
    return content.encode() if isinstance(content, str) else content.encoded()
