"""The mechanic with the same tools as any model, on a real repository."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.jobs.agent.conversation import Conversation, Model, Prompt, Reply, ToolResults
from copydesk.jobs.agent.mechanic import Mechanic
from copydesk.jobs.agent.tools import Finished, Toolbox
from copydesk.jobs.workspace.workspace import Workspace

Make = Callable[[dict[str, bytes]], Workspace]


def run_mechanic(
    space: Workspace, prompt: str, conversation: Conversation | None = None, *, data: str = ""
) -> Finished:
    """Runs the agent's loop without its limits."""
    model: Model = Mechanic()
    conversation = [] if conversation is None else conversation
    conversation.append(Prompt(text=prompt, data=data))
    for _ in range(20):
        tools = Toolbox(space)
        reply = asyncio.run(model.reply(conversation, space))
        conversation.append(reply)
        conversation.append(ToolResults(results=tuple(tools.call(call) for call in reply.calls)))
        if tools.finished is not None:
            return tools.finished
    raise AssertionError("it did not finish")


def edit_page(make: Make, prompt: str, data: bytes, path: str = "docs/a.md") -> bytes:
    space = make({path: data})
    run_mechanic(space, prompt)
    return space.read(path)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("Colour, COLOUR and colour.", "Color, COLOR and color."),
        ("colourful discolour colour-blind _colour_", "colourful discolour color-blind _colour_"),
        ("`colour` colour ``a ` colour``", "`colour` color ``a ` colour``"),
        ("```\ncolour\n```\ncolour", "```\ncolour\n```\ncolor"),
        (
            '[colour](colour.md "colour") ![colour](/img/colour.png)',
            '[color](colour.md "color") ![color](/img/colour.png)',
        ),
        ("https://colour.example/colour docs/colour.md", "https://colour.example/colour docs/colour.md"),
        (
            '<Card title="Colour" icon="colour" href="/colour">colour</Card>',
            '<Card title="Color" icon="colour" href="/colour">color</Card>',
        ),
        ("<!-- colour -->", "<!-- colour -->"),
        ("---\ncolour: colour\nslug: colour\n---\ncolour\n", "---\ncolour: color\nslug: colour\n---\ncolor\n"),
        ("[a][colour]\n\n[colour]: x.md", "[a][color]\n\n[color]: x.md"),
    ],
)
def test_whole_word_is_replaced_with_its_case_and_only_in_prose(workspace: Make, before: str, expected: str) -> None:
    assert edit_page(workspace, "replace colour with color", before.encode()).decode() == expected


def test_code_is_replaced_on_request(workspace: Make) -> None:
    data = b"`colour`\n```\ncolour\n```\n"
    assert edit_page(workspace, "replace colour with color, including code", data) == b"`color`\n```\ncolor\n```\n"


def test_a_name_with_capitals_is_replaced_exactly(workspace: Make) -> None:
    assert edit_page(workspace, "replace Github with GitHub", b"Github github GITHUB") == b"GitHub github GITHUB"
    assert (
        edit_page(workspace, "replace “API key” with “access token”", b"API key, api key")
        == b"access token, access token"
    )


def test_single_capital_letter_is_replaced_with_a_capitalized_word(workspace: Make) -> None:
    assert edit_page(workspace, "replace “a” with “one”", b"A page, a page.") == b"One page, one page."


def test_a_phrase_may_be_broken_across_lines(workspace: Make) -> None:
    assert edit_page(workspace, "replace log in with sign in", b"To log\r\nin, Log in.") == b"To sign\r\nin, Sign in."


def test_links_follow_a_heading_whose_anchor_changes(workspace: Make) -> None:
    space = workspace({"a.md": b"# Colour guide\n[up](#colour-guide)\n", "b.md": b"[x](a.md#colour-guide)\n"})
    done = run_mechanic(space, "replace colour with color")
    assert space.read("a.md") == b"# Color guide\n[up](#color-guide)\n"
    assert space.read("b.md") == b"[x](a.md#color-guide)\n"
    assert "2 files" in done.summary


def test_only_the_named_folder_is_changed(workspace: Make) -> None:
    files = {
        "docs/guides/a.md": b"colour",
        "docs/b.md": b"colour",
        "requirements.txt": b"colour",
        ".github/x.md": b"colour",
    }
    space = workspace(files)
    run_mechanic(space, "replace colour with color in the guides folder")
    assert space.changes() == {"docs/guides/a.md": b"color"}
    run_mechanic(space, "replace colour with color in docs/b.md")
    run_mechanic(space, "replace colour with color everywhere")
    assert sorted(space.changes()) == ["docs/b.md", "docs/guides/a.md"]


def test_unknown_folder_or_page_changes_nothing_and_is_reported(workspace: Make) -> None:
    space = workspace({"docs/a.md": b"colour"})
    done = run_mechanic(space, "replace colour with color in docs/missing.md")
    assert (done.title, space.changes()) == ("No change", {})
    assert "There is no page or folder “docs/missing.md”" in done.summary


def test_files_beyond_the_limit_of_a_job_are_left_and_reported(workspace: Make) -> None:
    space = workspace({f"p{n:03}.md": b"colour" for n in range(103)})
    done = run_mechanic(space, "replace colour with color")
    assert len(space.changes()) == 100
    assert "More than 100 files match" in done.summary


@pytest.mark.deep
def test_a_file_with_very_many_lines_is_edited_in_several_calls(workspace: Make) -> None:
    assert edit_page(workspace, "replace colour with color", b"colour\n" * 2500) == b"color\n" * 2500


def test_a_page_is_renamed_with_its_links(workspace: Make) -> None:
    space = workspace(
        {"docs/setup.md": b"# S\n", "docs/a.md": b"[s](setup.md)", "docs/docs.json": b'{"pages":["setup"]}'}
    )
    done = run_mechanic(space, "Please rename the page setup to install and update all links")
    assert space.read("docs/a.md") == b"[s](install.md)"
    assert space.read("docs/docs.json") == b'{"pages":["install"]}'
    assert "docs/setup.md → docs/install.md" in done.summary


@pytest.mark.parametrize(
    ("prompt", "target"),
    [
        ("move the page setup to guides/install", "docs/guides/install.md"),
        ("move docs/setup.md to docs/guides/", "docs/guides/setup.md"),
        ("move docs/setup.md into the guides folder", "docs/guides/setup.md"),
        ("move setup to guides", "docs/guides/setup.md"),
        ("rename docs/setup.md to install.md", "docs/install.md"),
        ("rename setup.md to docs/start.md", "docs/start.md"),
        ("move docs/setup.md to new/place.md", "new/place.md"),
    ],
)
def test_target_of_a_move_is_inferred(workspace: Make, prompt: str, target: str) -> None:
    space = workspace({"docs/setup.md": b"x", "docs/guides/other.md": b""})
    run_mechanic(space, prompt)
    assert space.changes() == {"docs/setup.md": None, target: b"x"}


def test_an_ambiguous_page_is_not_moved(workspace: Make) -> None:
    space = workspace({"a/setup.md": b"", "b/setup.md": b""})
    done = run_mechanic(space, "rename the page setup to install")
    assert space.changes() == {}
    assert "a/setup.md, b/setup.md" in done.summary


def test_a_refused_call_is_reported(workspace: Make) -> None:
    space = workspace({"docs/setup.md": b""})
    done = run_mechanic(space, "move docs/setup.md to .git/setup.md")
    assert done.title == "No change"
    assert (
        "Refused:\n- docs/setup.md → .git/setup.md: The path is in the .git folder, which cannot be changed."
        in done.summary
    )


@pytest.mark.parametrize(
    ("link", "fixed"),
    [
        ("[x](Setup.md)", "[x](setup.md)"),
        ("[x](setup.mdx#Step-One)", "[x](setup.md#step-one)"),
        ("[x](guides/setup.md)", "[x](setup.md)"),
        ("[x](instalation.md)", "[x](guides/installation.md)"),
        ("[x](guides/instalation)", "[x](guides/installation)"),
        ("[x](/guides/instalation)", "[x](/guides/installation)"),
        ("![x](logo.png)", "![x](img/logo.png)"),
        ("[x](setup.md#step_one)", "[x](setup.md#step-one)"),
    ],
)
def test_a_broken_link_with_one_possible_target_is_fixed(workspace: Make, link: str, fixed: str) -> None:
    files = {"docs/setup.md": b"# Setup\n## Step one\n", "docs/guides/installation.md": b"", "docs/img/logo.png": b"\0"}
    space = workspace({**files, "docs/a.md": link.encode()})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {"docs/a.md": fixed.encode()}


def test_path_of_a_broken_link_starts_from_the_folder_of_its_page(workspace: Make) -> None:
    """Only an address, which has no extension, may start from the page as if it were a folder."""
    space = workspace({"docs/guide.md": b"[x](README.md)", "docs/README.mdx": b"", "docs/guide/README.mdx": b""})
    run_mechanic(space, "fix broken links")
    assert space.changes() == {"docs/guide.md": b"[x](README.mdx)"}


def test_ambiguous_links_are_listed_and_left(workspace: Make) -> None:
    body = (
        b"[x](setup.md)\n[y](v2-notes.md)\n[z](b/setup.md#gone)\n`[code](nowhere.md)` [ok](b/) [w](https://x.example)\n"
    )
    space = workspace({"a.md": body, "b/setup.md": b"# B\n", "c/setup.md": b"", "v1-notes.md": b""})
    done = run_mechanic(space, "fix broken links")
    assert (done.title, space.changes()) == ("No change", {})
    assert "a.md:1 setup.md, a.md:2 v2-notes.md, a.md:3 b/setup.md#gone." in done.summary


@pytest.mark.parametrize(
    ("prompt", "before", "expected"),
    [
        ("add missing titles", b"# My `big` *page*\n", b"---\ntitle: My big page\n---\n\n# My `big` *page*\n"),
        ("add missing titles", b"\r\n# T: x\r\n", b'---\r\ntitle: "T: x"\r\n---\r\n\r\n\r\n# T: x\r\n'),
        ("add missing titles", b"---\nicon: x\n---\ntext", b"---\nicon: x\ntitle: Getting started\n---\ntext"),
        ("add missing titles", b"---\ntitle:\nicon: x\n---\n", b"---\ntitle: Getting started\nicon: x\n---\n"),
        ("add missing titles", b"---\ntitle: Here\n---\n# There\n", b"---\ntitle: Here\n---\n# There\n"),
        ("add missing titles", b"---\na: [\n---\n# There\n", b"---\na: [\n---\n# There\n"),
        (
            "add a description to pages that lack one",
            b"---\r\ntitle: T\r\n---\r\n# T\r\n\r\n- a list\r\n\r\nSays: [this](x.md)\r\nand that. More.\r\n",
            b'---\r\ntitle: T\r\ndescription: "Says: this and that."\r\n---\r\n# T\r\n\r\n- a list\r\n\r\n'
            b"Says: [this](x.md)\r\nand that. More.\r\n",
        ),
        ("add `draft: false` to the front matter of all pages", b"x", b"---\ndraft: false\n---\n\nx"),
        ("add `by: A: B` to the front matter of all pages", b"x", b'---\nby: "A: B"\n---\n\nx'),
        ("remove trailing whitespace", b"a \nb  \n   \n```\nc \n```\nd\t", b"a\nb  \n\n```\nc \n```\nd"),
        ("remove trailing whitespace, including code", b"a \r\n```\r\nc \r\n```", b"a\r\n```\r\nc\r\n```"),
        (
            "fix heading levels",
            b"# A\n### B\n#### C\n## D\n```\n# no\n```\n",
            b"# A\n## B\n### C\n## D\n```\n# no\n```\n",
        ),
        ("fix heading levels", b"# A\n## B\n# C\n## D\n", b"# A\n## B\n## C\n### D\n"),
        ("fix heading levels", b"A\n===\n\nB\n===\n\nC\n---\n", b"A\n===\n\nB\n---\n\n### C\n"),
        ("fix heading levels", b"## A\n### B\n", b"## A\n### B\n"),
    ],
)
def test_small_fixes_produce_the_expected_page(workspace: Make, prompt: str, before: bytes, expected: bytes) -> None:
    assert edit_page(workspace, prompt, before, "docs/getting-started.md") == expected


def test_several_instructions_are_executed_in_order(workspace: Make) -> None:
    space = workspace({"docs/colour.md": b"# Colour \n", "docs/a.md": b"[c](colour.md) colour\n"})
    conversation: Conversation = []
    done = run_mechanic(
        space, "1. replace colour with color\n2. fix broken links\n3. rename colour.md to color.md", conversation
    )
    assert space.read("docs/color.md") == b"# Color \n"
    assert space.read("docs/a.md") == b"[c](color.md) color\n"
    assert "No broken link was found." in done.summary
    assert [type(entry) for entry in conversation] == [
        Prompt,
        Reply,
        ToolResults,
        Reply,
        ToolResults,
        Reply,
        ToolResults,
    ]


def test_later_message_is_handled_separately(workspace: Make) -> None:
    space = workspace({"a.md": b"colour\n"})
    conversation: Conversation = []
    run_mechanic(space, "replace colour with color", conversation)
    run_mechanic(space, "replace color with hue", conversation)
    assert space.read("a.md") == b"hue\n"
    ids = [call.id for entry in conversation if isinstance(entry, Reply) for call in entry.calls]
    assert len(ids) == len(set(ids))


def test_unsupported_instruction_changes_nothing_and_is_reported(workspace: Make) -> None:
    space = workspace({"a.md": b"colour\n"})
    done = run_mechanic(space, "replace colour with color and rewrite the intro")
    assert (done.title, space.changes()) == ("Not understood", {})
    assert "needs a language model, and the model of this job is the built-in mechanic" in done.summary
    assert "COPYDESK_MODEL" in done.summary


def test_the_same_conversation_gets_the_same_reply(workspace: Make) -> None:
    space = workspace({"a.md": b"colour\n", "b.md": b"colour\n"})
    conversation: Conversation = [Prompt(text="replace colour with color")]
    first, second = (asyncio.run(Mechanic().reply(conversation, space)) for _ in range(2))
    assert first == second
    assert space.changes() == {}


PIECES = st.sampled_from(
    ["text ", "été ", "\r\n", "\n", "\x0c", "\r", "  ", "`", "```\n", "<!--", "-->", "---\n", "a: b\n", "# ", "| "]
)


@pytest.mark.deep
@given(
    before=st.lists(PIECES, max_size=12).map("".join),
    after=st.lists(PIECES, max_size=12).map("".join),
    bom=st.booleans(),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
    prompt=st.sampled_from(["replace colour with hue", "replace colour with hue, including code"]),
)
def test_replacing_changes_no_other_byte(
    workspace: Make, before: str, after: str, bom: bool, encoding: str, prompt: str
) -> None:
    body = f"{before} colour {after}".encode(encoding)
    data = b"\xef\xbb\xbf" + body if bom and encoding == "utf-8" else body
    space = workspace({"a.md": data})
    done = run_mechanic(space, prompt)
    assert "Refused" not in done.summary
    assert space.read("a.md").replace(b" hue ", b" colour ") == data


def test_summary_of_a_move_counts_the_files_with_updated_links(workspace: Make) -> None:
    files = {"docs/a.md": b"# A\n", "docs/b.md": b"[a](a.md)\n", "docs/c.md": b"[a](a.md)\n"}
    summary = run_mechanic(workspace(files), "rename docs/a.md to docs/z.md").summary
    assert "In all, 3 files changed: docs/b.md, docs/c.md, docs/z.md." in summary


def test_summary_of_an_edit_names_its_file_once(workspace: Make) -> None:
    summary = run_mechanic(workspace({"docs/a.md": b"The colour.\n"}), "replace colour with color").summary
    assert "In all" not in summary


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("Describe the new login.", "Describe"),
        ("Replace the jargon with plain words.", "jargon"),
        ("Replace colour with color unless it is a name.", "unless"),
    ],
)
def test_refusal_quotes_the_word_that_was_not_understood(workspace: Make, prompt: str, word: str) -> None:
    summary = run_mechanic(workspace({"docs/a.md": b"The colour.\n"}), prompt).summary
    assert f"It does not understand “{word}” here." in summary
