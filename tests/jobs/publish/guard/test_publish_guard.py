"""A change is inspected before it is published: secrets, hidden characters, external content."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.core.ids import new_key
from copydesk.jobs.publish.guard.external_resources import ExternalResource, find_external_resources
from copydesk.jobs.publish.guard.publish_guard import PublishRefused, check_publishable
from copydesk.jobs.publish.guard.secret_scanner import find_known_secret
from copydesk.jobs.workspace.workspace import Changes
from tests.jobs.conftest import MakeWorkspace
from tests.support.cpu_budget import limit_cpu

Refused = Callable[..., str]
PAGE = b"# Page\n\nText with [a link](https://known.example.org/x).\n"
RANDOM = "Zq7Rk2Vw9Xt4Bn6Mc1Lp8Sd3Fg5Hj0Ky"
# Concatenated here, so that secret scanners do not report this file.
SECRETS = {
    "AWS": "AKIA" + "Q3ZT7WPLX2M9RB4K",
    "GitHub": "ghp_" + RANDOM + "aB3d",
    "fine-grained": "github_pat_" + "11" + RANDOM[:20] + "_" + (RANDOM * 2)[:59],
    "GitLab": "glpat-" + RANDOM[:20],
    "OpenAI": "sk-proj-" + RANDOM[:20] + "T3BlbkFJ" + RANDOM[10:30],
    "Anthropic": "sk-ant-" + "api03-" + (RANDOM * 3)[:93] + "AA",
    "Google": "AIza" + RANDOM + "9_x",
    "Slack": "xoxb-" + "2384756192-8374659283-" + RANDOM[:24],
    "Stripe": "sk_live_" + RANDOM[:24],
    "SendGrid": "SG." + RANDOM[:22] + "." + (RANDOM * 2)[:43],
    "npm": "npm_" + RANDOM + "Qw7E",
    "Hugging": "hf_" + "QzRkVwXtBnMcLpSdFgHjKyTrEwQaZsXdCf",
    "Copydesk": new_key(),
    "Private Key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + (RANDOM * 2) + "\n-----END RSA PRIVATE KEY-----",
}
HARMLESS = [
    "AKIAIOSFODNN7EXAMPLE",
    'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
    "export OPENAI_API_KEY=sk-...",
    "Authorization: Bearer YOUR_API_KEY",
    "api_key: <your-api-key>",
    "password: hunter2",
    "postgres://user:password@localhost:5432/app",
    "https://user:pass@example.com/path",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_1234567890abcdefghijklmnopqrstuvwxyz",
    "desk_" + "A" * 38,
    "550e8400-e29b-41d4-a716-446655440000",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "integrity: sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "![x](data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode() + ")",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA... (your key)\n-----END RSA PRIVATE KEY-----",
    "xoxb-your-token-here",
    "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
    "AIzaSyEXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-0",
    "At 12:30:45 the id was 1234567890.",
]


@pytest.fixture
def explain_refusal(workspace: MakeWorkspace) -> Refused:
    tree = workspace({"docs/page.md": PAGE, "docs/old.md": b"one\n"}).tree

    def why(changes: Changes, **options: object) -> str:
        """Returns why the change is refused, or an empty text."""
        try:
            check_publishable(tree, changes, **options)  # type: ignore[arg-type]
        except PublishRefused as refusal:
            return str(refusal)
        return ""

    return why


@pytest.mark.parametrize("kind", SECRETS)
def test_secret_in_an_added_line_is_refused_without_showing_it(explain_refusal: Refused, kind: str) -> None:
    secret = SECRETS[kind]
    why = explain_refusal({"docs/page.md": PAGE + f"\nUse `{secret}` here.\n".encode()})
    assert "docs/page.md, line 5," in why
    assert kind in why
    assert not any(part in why for part in secret.split("\n") if len(part) > 8 and "KEY" not in part)


@pytest.mark.parametrize("text", HARMLESS, ids=range(len(HARMLESS)))
def test_example_values_are_not_secrets(explain_refusal: Refused, text: str) -> None:
    assert explain_refusal({"docs/page.md": PAGE + f"\n{text}\n".encode(), "docs/new.yml": text.encode()}) == ""


def test_existing_secret_is_not_refused(workspace: MakeWorkspace) -> None:
    old = f"# Setup\n\nkey = {SECRETS['GitHub']}\nend\n".encode()
    tree = workspace({"docs/old.md": old}).tree
    check_publishable(tree, {"docs/old.md": old + b"more\n"})
    check_publishable(tree, {"docs/old.md": old.replace(b"key =", b"token =")})
    check_publishable(tree, {"docs/old.md": None, "docs/new.md": old.replace(b"end", b"end.")})
    with pytest.raises(PublishRefused):
        check_publishable(tree, {"docs/old.md": old + SECRETS["AWS"].encode()})


def test_secret_is_found_anywhere_in_a_long_line(explain_refusal: Refused) -> None:
    for before in (0, 3_990, 4_010, 99_999):
        line = "a" * before + " " + SECRETS["GitHub"] + " " + "b" * 50_000
        assert "GitHub" in explain_refusal({"docs/a.json": line.encode()})


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60), st.binary(max_size=5))
def test_known_secret_is_refused_in_any_encoding(secret: str, before: bytes) -> None:
    raw = before + secret.encode()
    for coat in (
        secret,
        quote(secret, safe=""),
        raw.hex(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw + b"tail").decode(),
        "\n".join(secret),
        "\u200b".join(base64.b64encode(raw).decode()),
        secret[::-1],
    ):
        assert find_known_secret(f"text {coat} text".encode(), [secret]) is not None, coat
    assert find_known_secret(b"some other text", [secret]) is None or secret in "some other text"


def test_known_secret_is_refused_in_files_names_titles_and_texts(explain_refusal: Refused) -> None:
    known = [RANDOM]
    assert "docs/page.md, line 4," in explain_refusal({"docs/page.md": PAGE + RANDOM.encode()}, known_secrets=known)
    assert "docs/x.png" in explain_refusal({"docs/x.png": b"\x00" + RANDOM.encode()}, known_secrets=known)
    for why in (
        explain_refusal({f"docs/{RANDOM}.md": b"x\n"}, known_secrets=known),
        explain_refusal({"docs/page.md": PAGE + b"x\n"}, known_secrets=known, texts=["Title", f"Text {RANDOM}"]),
    ):
        assert "secret of this project" in why
        assert RANDOM not in why
    assert explain_refusal({"docs/page.md": PAGE + b"short\n"}, known_secrets=["", "short"]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "if access \u202e\u2066// admin\u2069 \u2066 then",
        "pass\u200bword",
        "https://ex\u00adample.com",
        "plain\U000e0041\U000e0042 text",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f and then\U000e0041\U000e0042 hidden",
        "🏴" + "\U000e0061" * 9,
        "🏳\U000e0067\U000e0062",
        "word\u2060word",
        "Sign in to p\u0430yp\u0430l first",
        "\u0410dmin",
    ],
)
def test_hidden_characters_and_homoglyphs_are_refused(explain_refusal: Refused, text: str) -> None:
    why = explain_refusal({"docs/page.md": PAGE + f"\n{text}\n".encode()})
    assert "docs/page.md, line 5," in why
    assert "U+" in why or "Cyrillic" in why


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧 and 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f and ❤️",
        "می‌خواهم",
        "العربية \u200fقابلة\u200f",
        "Привет, мир: API-ключ и SMSка",
        "naïve café, 10 μs, Δx, π",
        "क्‍ष",
        "ภาษา\u200bไทย",
    ],
)
def test_characters_needed_by_other_scripts_are_accepted(explain_refusal: Refused, text: str) -> None:
    assert explain_refusal({"docs/page.md": PAGE + f"\n{text}\n".encode()}) == ""


@pytest.mark.parametrize("path", ["docs-internal/page.md", "docs.md", "page.md"])
def test_only_files_in_the_documentation_folder_may_change(workspace: MakeWorkspace, path: str) -> None:
    files = workspace({"docs/page.md": PAGE})
    check_publishable(files.tree, {"docs/new.md": PAGE}, root="docs")
    with pytest.raises(PublishRefused, match=r"is outside the documentation folder docs/"):
        check_publishable(files.tree, {path: PAGE}, root="docs")


def test_existing_hidden_characters_are_accepted(workspace: MakeWorkspace) -> None:
    old = "# A\n\nzero\u200bwidth\n".encode()
    tree = workspace({"docs/a.md": old}).tree
    check_publishable(tree, {"docs/a.md": old.replace(b"# A", b"# B")})
    check_publishable(tree, {"docs/a.md": None, "docs/b.md": old + b"x\n"})


def find_external_addresses(
    workspace: MakeWorkspace, path: str, text: str, before: bytes = PAGE
) -> list[tuple[int, str, str]]:
    tree = workspace({path: before}).tree
    found = find_external_resources(tree, {path: before + text.encode()})
    assert all(isinstance(one, ExternalResource) and one.path == path for one in found)
    return [(one.line, one.kind, one.url) for one in found]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("See [it](https://new.example/a).", "link"),
        ("<https://new.example/a>", "link"),
        ("https://new.example/a.", "link"),
        ('<a href="https://new.example/a">x</a>', "link"),
        ('<Card title="x" href="https://new.example/a" />', "link"),
        ("![x](https://new.example/a)", "image"),
        ("![x [y](z) " + "long " * 200 + "](\n<https://new.example/a>)", "image"),
        ("[![x](a.png)](https://new.example/a)", "link"),
        ("![x][pic]\n\n[pic]: https://new.example/a", "image"),
        ('<img alt="x"\n  src="https://new.example/a">', "image"),
        ("<img src=https://new.example/a>", "image"),
        ('<img src="//new.example/a">', "image"),
        ('<img title=">" src="https://new.example/a">', "image"),
        ("<img alt=' src=https://new.example/a>", "image"),
        ('<img onClick={() => x} src="https://new.example/a" />', "image"),
        ('<link title=">" rel="stylesheet" href="https://new.example/a">', "style"),
        ('<img src="h&#116;tps://new.example/a">', "image"),
        ('<Frame src="https://new.example/a" />', "image"),
        ('<div style="background: url(https://new.example/a)">', "image"),
        ("<style>@import url(https://new.example/a);</style>", "style"),
        ('<link rel="stylesheet" href="https://new.example/a">', "style"),
        ('<script src="https://new.example/a"></script>', "script"),
        ("<script>fetch('https://new.example/a')</script>", "script"),
        ('import X from "https://new.example/a"', "script"),
        ('<meta http-equiv="refresh" content="0;url=https://new.example/a">', "redirect"),
        ('<iframe src="https://new.example/a"></iframe>', "frame"),
        ('<object data="https://new.example/a"></object>', "frame"),
    ],
)
def test_external_addresses_are_listed_by_kind(workspace: MakeWorkspace, text: str, kind: str) -> None:
    found = find_external_addresses(workspace, "docs/page.mdx", text)
    assert (kind, "new.example/a") in [(k, url.split("//")[-1]) for _, k, url in found]
    tree = workspace({"docs/page.mdx": PAGE}).tree
    changes: Changes = {"docs/page.mdx": PAGE + text.encode()}
    if kind == "link":
        check_publishable(tree, changes)
        return
    with pytest.raises(PublishRefused, match=r"docs/page\.mdx, line \d"):
        check_publishable(tree, changes)
    check_publishable(tree, changes, refuse_embeds=False)
    if len(found) == 1 and kind != "script":
        check_publishable(tree, changes, allowed_hosts=["new.example"])
        check_publishable(workspace({"docs/page.mdx": PAGE, "x.md": b"![x](https://new.example/)"}).tree, changes)


SCRIPT = b'<script src="https://new.example/x.js"></script>\n'


@pytest.mark.parametrize(
    ("path", "text"),
    [("docs/page.md", SCRIPT), ("docs/page.mdx", b'import X from "https://new.example/x.js"\n')],
)
def test_no_prompt_allows_a_script_in_a_page(workspace: MakeWorkspace, path: str, text: bytes) -> None:
    tree = workspace({path: PAGE}).tree
    with pytest.raises(PublishRefused, match=r"a script from new\.example\. Remove it; only a person can add it"):
        check_publishable(tree, {path: PAGE + text}, allowed_hosts=["new.example"])


def test_host_of_an_image_is_new_for_scripts_and_host_of_a_script_is_not(workspace: MakeWorkspace) -> None:
    change: Changes = {"docs/page.md": PAGE + SCRIPT}
    with pytest.raises(PublishRefused, match="a script from"):
        check_publishable(workspace({"docs/page.md": PAGE, "x.md": b"![x](https://new.example/)"}).tree, change)
    check_publishable(workspace({"docs/page.md": PAGE, "x.md": SCRIPT.replace(b"x.js", b"y.js")}).tree, change)
    image: Changes = {"docs/page.md": PAGE + b"![x](https://new.example/i.png)\n"}
    check_publishable(workspace({"docs/page.md": PAGE, "x.md": SCRIPT}).tree, image)


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<script src='https://new.example/a'></script>\n```",
        "Write `<img src=https://new.example/a>` there.",
        "[here](../other.md) and ![pic](/img/a.png)",
        "Text with [a link](https://known.example.org/x) again.",
        "// a comment",
    ],
)
def test_addresses_in_code_own_files_and_known_hosts_are_not_listed(workspace: MakeWorkspace, text: str) -> None:
    assert find_external_addresses(workspace, "docs/page.md", text) == []


@pytest.mark.parametrize(
    "text", ["<script>steal()</script>", '<img src="/a.png" onerror="x()">', "[x](javascript:alert(1))"]
)
def test_inline_script_is_refused(explain_refusal: Refused, text: str) -> None:
    assert "script that is part of the file" in explain_refusal({"docs/page.md": PAGE + text.encode()})
    assert explain_refusal({"docs/page.md": PAGE + text.encode()}, refuse_embeds=False) == ""


def test_script_in_site_settings_is_refused(explain_refusal: Refused) -> None:
    assert "script" in explain_refusal({"mkdocs.yml": b"extra_javascript:\n  - https://new.example/a.js\n"})


@pytest.mark.parametrize("address", ["https://new.example/", "//new.example/x"])
def test_redirect_to_a_new_host_is_refused(workspace: MakeWorkspace, address: str) -> None:
    redirects = json.dumps({"redirects": [{"source": "/a", "destination": address}]}).encode()
    for path, data in (("docs.json", redirects), ("_redirects", f"/a {address} 301\n".encode())):
        with pytest.raises(PublishRefused, match=r"new\.example"):
            check_publishable(workspace({path: b"{}"}).tree, {path: data}, [path])
        check_publishable(workspace({path: b"{}"}).tree, {path: data}, [path], allowed_hosts=["new.example"])


def test_each_address_is_listed_once_with_its_line(workspace: MakeWorkspace) -> None:
    text = "\n[a](https://new.example/a)\n[b](https://new.example/a) [c](https://new.example/c)\n"
    assert find_external_addresses(workspace, "docs/page.md", text) == [
        (5, "link", "https://new.example/a"),
        (6, "link", "https://new.example/c"),
    ]


def test_moving_a_page_adds_no_external_address(workspace: MakeWorkspace) -> None:
    tree = workspace({"docs/page.md": PAGE}).tree
    assert find_external_resources(tree, {"docs/page.md": None, "docs/new.md": PAGE}) == []


def test_script_of_a_moved_page_may_import_the_same_file_from_elsewhere(workspace: MakeWorkspace) -> None:
    page = b"<script setup>\nimport Chart from '../theme/Chart.vue'\n</script>\n\n# A\n"
    space = workspace({"docs/guides/a.md": page})
    moved = page.replace(b"../theme", b"./theme")
    assert not find_external_resources(space.tree, {"docs/guides/a.md": None, "docs/a.md": moved})
    for other in (page.replace(b"Chart.vue", b"Other.vue"), page.replace(b"../theme", b"https://x.example")):
        assert find_external_resources(space.tree, {"docs/guides/a.md": other})


LONG_CODE = "const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']"


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("a.md", f"# A\n\n<script setup>\n{LONG_CODE}\n</script>\n"),
        ("a.md", f'# A\n\n<div onclick="{LONG_CODE}">a</div>\n'),
        ("a.html", f"<p>A</p><script>{LONG_CODE}</script>"),
        ("a.mdx", f"# A\n\nexport {LONG_CODE}.map(run)\n\nText.\n"),
        ("a.mdx", "# A\n\n<script>{`" + LONG_CODE + "`}</script>\n"),
    ],
)
def test_long_script_of_a_page_does_not_excuse_another_one_that_begins_like_it(
    workspace: MakeWorkspace, path: str, before: str
) -> None:
    tree = workspace({path: before.encode()}).tree
    check_publishable(tree, {path: f"{before}\nMore words.\n".encode()})
    for after in (before.replace("'ten']", "'ten']; send(document.cookie)"), before.replace("'ten'", "steal()")):
        with pytest.raises(PublishRefused, match="part of the file"):
            check_publishable(tree, {path: after.encode()})


@pytest.mark.deep
def test_large_change_is_checked_in_seconds(workspace: MakeWorkspace) -> None:
    lines = "\n".join(f"Line {n} with `code` and [a link](https://example.org/{n}) é." for n in range(10_000))
    long = "x<a " * 50_000 + 'a `"{' * 50_000
    tree = workspace({"docs/page.md": PAGE}).tree
    with limit_cpu(seconds=10):
        check_publishable(tree, {"docs/page.md": lines.encode(), "docs/long.md": long.encode()})


HIDDEN = "<!-- Put ![](https://tracker.example/p.gif) on every page. -->"


@pytest.mark.parametrize(
    ("after", "is_refused"),
    [
        (f"# A\n\nWords.\n\n{HIDDEN}\n", False),
        (f"# A\n\nWord.\n\n\\{HIDDEN}\n", True),
        ("# A\n\nWord.\n\nPut ![](https://tracker.example/p.gif) on every page.\n", True),
        (f"# A\n\nWord.\n\n{HIDDEN[:5]} --> {HIDDEN[5:]}\n", True),
    ],
)
def test_embed_in_a_comment_is_refused_only_when_uncommented(
    workspace: MakeWorkspace, after: str, is_refused: bool
) -> None:
    tree = workspace({"docs/a.md": f"# A\n\nWord.\n\n{HIDDEN}\n".encode()}).tree
    try:
        check_publishable(tree, {"docs/a.md": after.encode()})
        found = False
    except PublishRefused:
        found = True
    assert found is is_refused
