"""Text from outside costs CPU time in proportion to its length, or is limited: no page, prompt or header stalls us.

A new parser is a line in tests/support/parsers.py; a new attack is a line in ATTACKS.
"""

import re
from difflib import SequenceMatcher

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.jobs.agent.mechanic.instructions import FixLinks
from copydesk.jobs.agent.mechanic.link_plan import plan_link_fixes as plan_links
from copydesk.jobs.agent.mechanic.parsing.prompt_parser import MAX_MECHANIC_PROMPT_CHARS, parse_prompt
from copydesk.jobs.agent.tools.tool import ToolRefused
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.pages.parsing.page_parser import parse_page
from copydesk.jobs.publish.forges.rest.gitea import _matches_rule
from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher
from copydesk.jobs.workspace.edit_scope import explain_overreach
from copydesk.jobs.workspace.text_edits import MAX_SEARCHED_CHARS, NotEditable, Replacement, apply_replacements
from tests.support.cpu_budget import limit_cpu
from tests.support.cpu_growth import Pump, TooSlow, assert_cheap, assert_linear
from tests.support.parsers import PARSERS, workspace_of

LAUGHS = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))

ATTACKS = [
    ("prose .rst", Pump(":")),
    ("links .md", Pump(" ", prefix="[a](", suffix="<")),
    ("links .md", Pump(" ", prefix="[a](b", suffix="x")),
    ("links .adoc", Pump("link:a")),
    ("headings", Pump("#a\n")),
    ("headings", Pump("---\n\n")),
    ("text of a heading", Pump("[")),
    ("text of a heading", Pump("[a](")),
    ("text of a heading", Pump(" _a")),
    ("anchors", Pump("\u0301\u0316")),
    ("facts .rst", Pump(" ", prefix=".. image:: a", suffix="b")),
    ("checked front matter", Pump(" ", prefix="a: b", suffix=":")),
    ("TOML front matter", Pump("a.", suffix="a=1")),
    ("listing sidebars.js", Pump('\\"', prefix='"')),
    ("listing sidebars.js", Pump("/*\n")),
    ("listing sidebars.js", Pump("{a:")),
    ("listing docs.json", Pump('\\"', prefix='"')),
    ("listing docs.json", Pump("/*\n")),
    ("site mkdocs.yml", Pump("\n")),
    ("check", Pump("\u0301\u0316", prefix="# a\n[x](#", suffix=")")),
    ("replace a word", Pump("a", prefix="foo bar ")),
    ("replace a word", Pump("-", prefix="foo bar ")),
    ("replace a word", Pump("a-b/", prefix="foo bar ")),
    ("replace a word", Pump(" ", prefix="foo", suffix="bar")),
    ("fix links", Pump("# a\n[x](#b)\n")),
    ("add a description", Pump("[")),
    ("path", Pump("\u0301\u0316")),
    ("secret in a change", Pump("sk-aT3BlbkFJ")),
    ("secret in a change", Pump("xoxb-1-", prefix="AWS key ")),
    ("address of a view", Pump(".md", prefix="/a")),
    ("address of a view", Pump("\u0301\u0316", prefix="/")),
]


@pytest.mark.parametrize(("name", "pump"), ATTACKS, ids=lambda value: repr(value)[:60])
def test_known_attacks_take_linear_time(name: str, pump: Pump) -> None:
    assert_linear(PARSERS[name].run, pump, PARSERS[name].size)


def pumps(pieces: list[str]) -> st.SearchStrategy[Pump]:
    few = st.lists(st.sampled_from(pieces), max_size=3).map("".join)
    return st.builds(Pump, st.lists(st.sampled_from(pieces), min_size=1, max_size=4).map("".join), few, few)


@pytest.mark.parametrize("name", PARSERS)
def test_repeated_text_takes_linear_time(name: str) -> None:
    _run_search(name, examples=6, size=PARSERS[name].size // 4)


@pytest.mark.drill
@pytest.mark.parametrize("name", PARSERS)
def test_random_repeated_texts_take_linear_time(name: str) -> None:
    _run_search(name, examples=200, size=PARSERS[name].size, derandomize=False)


def _run_search(name: str, *, examples: int, size: int, derandomize: bool = True) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=derandomize, suppress_health_check=list(HealthCheck))
    @given(pumps(PARSERS[name].pieces))
    def search(pump: Pump) -> None:
        assert_linear(PARSERS[name].run, pump, size)

    search()


@pytest.mark.deep
def test_measurement_detects_quadratic_and_accepts_linear_time() -> None:
    square, proportional = re.compile(r"a*b"), re.compile(r"(?<!a)a*+b")
    assert_linear(proportional.findall, Pump("a"), 1500)
    with pytest.raises(TooSlow):
        assert_linear(square.findall, Pump("a"), 1500)
    with pytest.raises(TooSlow):
        assert_cheap(square.findall, Pump("a"), 4000, plain=Pump("c"), times=50)


def test_heading_with_many_spaces_is_cheap() -> None:
    """Longer lines are not headings, so that the cost of one line is limited; it must not be high either."""
    spaces, plain = Pump("# a" + " " * 900 + "b\n"), Pump("# " + "ab " * 300 + "\n")
    assert_cheap(PARSERS["headings"].run, spaces, 20_000, plain, times=10)


@pytest.mark.parametrize("kind", [".md", ".rst"])
def test_nested_tables_of_contents_are_parsed_once(kind: str) -> None:
    nested = Pump("".join(f"{' ' * n}.. toctree::\n" for n in range(150)))
    flat = Pump(f"{' ' * 75}.. toctree::\n")
    body = Pump("{toctree}\n", prefix="x\n") if kind == ".md" else Pump("")
    run = PARSERS[f"facts {kind}"].run
    assert_cheap(lambda text: run(body.text(1) + text), nested, len(nested.piece), plain=flat, times=10)


PROMPTS = [
    Pump("please  ", suffix="x"),
    Pump(" ", prefix="replace a", suffix="b"),
    Pump(" \t", prefix="in a,", suffix="x"),
    Pump(","),
    Pump("(", prefix="fix links"),
    Pump("of "),
    Pump("“"),
    Pump("find "),
    Pump(" in all pages"),
    Pump("the ", prefix="add "),
    Pump(", a", prefix="fix links in a"),
    Pump(" to a", prefix="change the heading a"),
    Pump(", links", prefix="move a to b and update links", suffix="x"),
]


@pytest.mark.parametrize("pump", PROMPTS, ids=lambda pump: repr(pump.piece))
def test_longest_prompt_is_cheap_for_the_mechanic(pump: Pump) -> None:
    size = MAX_MECHANIC_PROMPT_CHARS - len(pump.prefix) - len(pump.suffix)
    plain = Pump("replace 'foo' with 'bar' in docs/a.md and fix broken links. ")
    assert_cheap(parse_prompt, pump, size, plain, times=60)


def test_exponential_yaml_merge_keys_are_not_expanded() -> None:
    facts = parse_page(".md", f"---\n{LAUGHS}---\n# A\n".encode())
    assert not facts.is_front_matter_readable
    assert dict(facts.fields) == {}
    few = "---\nbase: &base {x: 1}\nmore:\n  <<: *base\ntitle: A\n---\n"
    assert parse_page(".md", few.encode()).fields["title"] == "A"


@pytest.mark.parametrize(
    "value",
    ["!!bool foo", "!!timestamp foo", "!!int ''", ":".join(["1"] * 300) + ".0", "[" * 1500 + "\x01"],
    ids=lambda value: value[:20],
)
def test_unparseable_front_matter_is_not_an_error(value: str) -> None:
    assert parse_page(".md", f"---\na: {value}\n---\n# A\n".encode()).headings == ("A",)


items = st.lists(st.sampled_from("abcd"), max_size=30)


@pytest.mark.deep
@given(items, items)
def test_bounded_comparison_equals_difflib(old: list[str], new: list[str]) -> None:
    usual, bounded = SequenceMatcher(None, old, new, autojunk=False), BoundedMatcher(old, new)
    assert bounded.get_opcodes() == usual.get_opcodes()
    assert bounded.ratio() == usual.ratio()


def test_comparison_ends_when_its_step_budget_is_used_up() -> None:
    """Every second line is the same, and no two of them are adjacent: the worst case of difflib."""
    old, new = ["a", "b"] * 500, ["a", "c"] * 500
    matcher = BoundedMatcher(old, new, max_steps=300_000)
    assert matcher.steps_left == 0
    assert 1 <= len(matcher.get_matching_blocks()) <= 3
    assert matcher.get_opcodes()[-1][2::2] == (1000, 1000)


@pytest.mark.deep
def test_fully_rewritten_page_is_compared_within_bounds() -> None:
    """As in a translation. The limit is tested above; here, that the verdict is the same beyond it."""
    old = "".join(f"one {n}\n\n" for n in range(100))
    new = "".join(f"zwei {n}x\n\n" for n in range(100))
    refusal = explain_overreach(old.encode(), new.encode())
    assert refusal is not None
    assert "replaces most" in refusal


def test_replacements_without_line_in_a_long_file_are_limited() -> None:
    data = b"a\n" * 1_000_000
    many = [Replacement("b", "c")] * (MAX_SEARCHED_CHARS // len(data) + 1)
    with pytest.raises(NotEditable, match="Set 'line' in each"):
        apply_replacements(data, many)


@pytest.mark.parametrize("pattern", ["x{1000000000}", "(?:(?:x{1000}){1000}){1000}", "(" * 490 + ")" * 490])
def test_a_pattern_that_takes_long_to_compile_is_refused(pattern: str) -> None:
    search = TOOLS["search"]
    with pytest.raises(ToolRefused, match="pattern"):
        search.run(workspace_of(a_md="x"), search.arguments.model_validate({"pattern": pattern}))


@pytest.mark.deep
def test_the_deadline_of_a_search_holds_for_all_lines_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line alone takes less than the deadline; the complete text matches immediately by its first line."""
    monkeypatch.setattr("copydesk.jobs.agent.tools.search_tool.SEARCH_TIMEOUT_SECONDS", 0.5)
    search = TOOLS["search"]
    page = workspace_of(a_md="x\n" + ("a" * 24 + "!\n") * 20_000)
    with pytest.raises(ToolRefused, match="too long"):
        search.run(page, search.arguments.model_validate({"pattern": r"x|(?:a|aa)+$"}))


def test_branch_rule_with_many_wildcards_is_matched_quickly() -> None:
    assert not _matches_rule("**a" * 60 + "b", "a" * 200)
    assert _matches_rule("release/**", "release/1/2")
    assert not _matches_rule("release/*", "release/1/2")


@pytest.mark.drill
def test_file_name_comparisons_are_limited() -> None:
    """Links times files, with quadratic cost per pair, would take days."""
    made = workspace_of(a_md="".join(f"[x]({'ab' * 30}{chr(97 + n % 26)}{'c' * (n // 26)}.md)\n" for n in range(200)))
    for n in range(100):
        made.write(f"{'ba' * 30}{chr(97 + n % 26)}{'d' * (n // 26)}.md", b"# A\n")
    with limit_cpu(seconds=30):
        assert "Needs a person" in plan_links(made, FixLinks()).notes[-1]
