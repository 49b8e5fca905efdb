"""A change cannot hide anything from its reviewer, neither by bytes nor by characters."""

import pytest

from copydesk.jobs.agent.tools.write_tools import Edit, Replacement, Write, edit, write
from copydesk.jobs.publish.guard.publish_guard import PublishRefused, check_publishable
from copydesk.jobs.workspace.text_edits import NotEditable
from copydesk.jobs.workspace.workspace import Changes, Workspace, short_hash
from tests.jobs.conftest import Files, MakeWorkspace

PAGE = b"# Page\n\nWords.\n"
ATTACK = "<script src=https://evil.example/x.js></script>"
IMAGE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"
CONTROLS = ["\x00", "\x01", "\x08", "\x0b", "\x0c", "\x1b", "\x7f", "\x85", "\x9f"]


def explain_refusal(workspace: Workspace, changes: Changes) -> str:
    """Returns why the policy refuses the changes, or an empty text."""
    try:
        check_publishable(workspace.tree, changes)
    except PublishRefused as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("control", CONTROLS)
def test_tools_refuse_control_characters(workspace: MakeWorkspace, control: str) -> None:
    files = workspace({"docs/page.md": PAGE})
    with pytest.raises(NotEditable, match=f"U\\+{ord(control):04X}"):
        write(files, Write(path="docs/new.md", content=f"# New\n{control}\n{ATTACK}\n"))
    with pytest.raises(NotEditable, match=f"U\\+{ord(control):04X}"):
        asked = Replacement(old="Words.", new=f"Words.{control}{ATTACK}")
        edit(files, Edit(path="docs/page.md", hash=short_hash(PAGE), replacements=[asked]))
    with pytest.raises(NotEditable, match=f"U\\+{ord(control):04X}"):
        write(files, Write(path="docs/page.md", content=f"{control}{ATTACK}", hash=short_hash(PAGE), whole=True))
    assert files.changes() == {}


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("path", ["docs/page.md", "docs/new.md", "docs/new.html", "docs/new.png"])
def test_control_character_in_a_change_is_refused(workspace: MakeWorkspace, path: str, control: str) -> None:
    why = explain_refusal(workspace({"docs/page.md": PAGE}), {path: PAGE + f"{control}words\n".encode()})
    assert "control character" in why or "not UTF-8 text" in why


def test_lone_carriage_return_is_refused_but_crlf_is_accepted(workspace: MakeWorkspace) -> None:
    files = workspace({"docs/page.md": PAGE})
    assert "U+000D" in explain_refusal(files, {"docs/page.md": PAGE + f"Words.\r{ATTACK}\n".encode()})
    assert explain_refusal(files, {"docs/new.md": b"# New\r\n\r\n\tWords.\r\n"}) == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_page_in_another_encoding_is_refused(workspace: MakeWorkspace, encoding: str) -> None:
    assert "not UTF-8 text" in explain_refusal(
        workspace({"docs/page.md": PAGE}), {"docs/new.md": ATTACK.encode(encoding)}
    )


def test_a_utf_16_page_without_nul_bytes_is_refused(workspace: MakeWorkspace) -> None:
    data = b"\xff\xfe" + "文字ばかり".encode("utf-16-le")
    assert b"\x00" not in data
    assert "not UTF-8 text" in explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/new.md": data})


def test_a_new_page_that_is_not_utf_8_is_refused_and_an_old_one_stays_editable(workspace: MakeWorkspace) -> None:
    old = "# Caf\xe9\n\nWords.\n".encode("latin-1")
    assert "not UTF-8 text" in explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/new.md": old})
    assert explain_refusal(workspace({"docs/old.md": old}), {"docs/old.md": old + b"More.\n"}) == ""


@pytest.mark.parametrize("after", ["docs/b.png", None])
def test_a_binary_file_can_be_moved_and_deleted(workspace: MakeWorkspace, after: str | None) -> None:
    changes: Changes = {"docs/a.png": None}
    if after:
        changes[after] = IMAGE
    assert explain_refusal(workspace({"docs/a.png": IMAGE, "docs/page.md": PAGE}), changes) == ""


def test_binary_file_cannot_become_a_page(workspace: MakeWorkspace) -> None:
    data = IMAGE + ATTACK.encode()
    why = explain_refusal(workspace({"docs/a.png": data}), {"docs/a.png": None, "docs/a.md": data})
    assert "not UTF-8 text" in why


def test_existing_control_character_is_accepted(workspace: MakeWorkspace) -> None:
    old = b"Part one.\n\x0c\nPart two.\n"
    files: Files = {"docs/old.txt": old}
    assert explain_refusal(workspace(files), {"docs/old.txt": old.replace(b"two", b"2")}) == ""
    asked = Replacement(old="one.\n\x0c\n", new="1.\n\x0c\n")
    edit(workspace(files), Edit(path="docs/old.txt", hash=short_hash(old), replacements=[asked]))


def test_page_with_windows_1252_quotes_stays_editable(workspace: MakeWorkspace) -> None:
    old = b"# Page\n\n\x93Caf\xe9\x94 text\n"
    files: Files = {"docs/old.md": old}
    assert explain_refusal(workspace(files), {"docs/old.md": old.replace(b"text", b"new text")}) == ""
    assert "U+0093" in explain_refusal(workspace(files), {"docs/old.md": old.replace(b"text", b"\x93new\x94 text")})


HIDDEN = [
    "word\ufe0f", "a\ufe00b", "1\ufe0f.", "\U0001f600\ufe0f\ufe0e\ufe0f", "user\u3164name", "x\u115fy", "x\u1160y",
    "x\uffa0y", "pass\u2800word", "a\u034fb", "a\u206ab", "a\u206fb", "a\ufff9b\ufffac\ufffb", "a\u2028b", "a\u180bb",
    "x\u2065y", "x\U0001d173y",
]  # fmt: skip
NEEDED = [
    "❤️ and ☀︎ and ©️ and 1️⃣ and #️⃣",
    "🏳️‍🌈 and 👁️‍🗨️",
    "≨︀ and 葛︀",
    "ᄒ\u1160ᆫ and \u115fᅡ",
    "ㄱ\u3164ㅏ",
    "ﾡ\uffa0",
    "ᠠ᠋ᠡ and ᠨ\u180eᠠ",
    "⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙",
    "⠀⠀⠓⠊",
    "ב\u034fָ",
]


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
def test_invisible_character_is_refused(workspace: MakeWorkspace, text: str) -> None:
    assert "U+" in explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/page.md": PAGE + f"{text}\n".encode()})


@pytest.mark.parametrize("text", NEEDED, ids=ascii)
def test_invisible_character_is_accepted_where_a_script_needs_it(workspace: MakeWorkspace, text: str) -> None:
    assert explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/page.md": PAGE + f"{text}\n".encode()}) == ""


IMITATIONS = [
    ("Sign in to p\u03b1yp\u03b1l first", "Greek"),
    ("\u0391dmin", "Greek"),
    ("\u03bfAuth", "Greek"),
    ("g\u03bfogle.com", "Greek"),
    ("\u039d\u03a5C city", "Greek"),
    ("p\u0430yp\u0430l", "Cyrillic"),
    ("\u0440\u03b1\u0443\u0440\u03b1\u0430", "Cyrillic"),
]


@pytest.mark.parametrize(("text", "script"), IMITATIONS, ids=ascii)
def test_letters_that_imitate_latin_ones_are_refused(workspace: MakeWorkspace, text: str, script: str) -> None:
    page = workspace({"docs/page.md": PAGE})
    why = explain_refusal(page, {"docs/page.md": PAGE + f"{text}\n".encode()})
    assert f"mixes Latin letters with similar {script} ones" in why


@pytest.mark.parametrize(
    "text",
    [
        "Καλημέρα κόσμε: το ΑΡΧΕΙΟ είναι στο API, ΟΝΟΜΑ και νόμος",
        "TNFα, IFNγ and PDGFRα; Δx, λ-calculus, Ωmega, 10 μs",
        "Привет, ТЕСТ",
    ],
)
def test_words_of_other_scripts_and_symbols_are_accepted(workspace: MakeWorkspace, text: str) -> None:
    assert explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/page.md": PAGE + f"{text}\n".encode()}) == ""


def spell_tags(code: str) -> str:
    return "".join(chr(0xE0000 + ord(character)) for character in code)


CANCEL = "\U000e007f"
FLAG = "\U0001f3f4"


@pytest.mark.parametrize("code", ["gbeng", "gbsct", "gbwls"])
def test_flag_of_a_subdivision_is_accepted(workspace: MakeWorkspace, code: str) -> None:
    text = f"{FLAG}{spell_tags(code)}{CANCEL} and {FLAG}{spell_tags(code)}{CANCEL}{FLAG}"
    assert explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/page.md": PAGE + f"{text}\n".encode()}) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"{FLAG}{spell_tags('hide')}{CANCEL}",
        f"{FLAG}{spell_tags('gbeng')}",
        f"{FLAG}{spell_tags('gbengx')}{CANCEL}",
        f"{FLAG}{spell_tags('gbeng')}{CANCEL}{spell_tags('x')}{CANCEL}",
        f"{FLAG}x{spell_tags('gbeng')}{CANCEL}",
        f"{spell_tags('gbeng')}{CANCEL}",
        f"{FLAG}{CANCEL}",
    ],
    ids=ascii,
)
def test_tags_outside_of_a_known_flag_are_refused(workspace: MakeWorkspace, text: str) -> None:
    why = explain_refusal(workspace({"docs/page.md": PAGE}), {"docs/page.md": PAGE + f"{text}\n".encode()})
    assert "the invisible character U+E00" in why


def test_hidden_characters_in_a_new_file_name_are_refused(workspace: MakeWorkspace) -> None:
    for name in ("docs/gu\u200bide.md", "docs/p\u0430yp\u0430l.md", "docs/\u202egnp.md"):
        assert "contains" in explain_refusal(workspace({"docs/page.md": PAGE}), {name: b"# New\n"})
