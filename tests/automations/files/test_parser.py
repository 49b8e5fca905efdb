"""The format of automation files: fields, messages with their lines, and bounds for input of any kind."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.files.parser import (
    FILE_FIELDS,
    MAX_FILE_BYTES,
    MAX_MESSAGE_CHARS,
    MAX_PROBLEMS_PER_FILE,
    FileInvalid,
    FileProblem,
    parse_automation_file,
)
from copydesk.automations.kinds import Kind
from copydesk.web.api.automations.schemas import AutomationRequest
from tests.support.cpu_budget import limit_cpu
from tests.support.cpu_growth import Pump, assert_linear

COMPLETE = """\
---
name: Follow the code
kind: custom
enabled: true
trigger:
  type: schedule
  cron: 0 6 * * 1
  timezone: Europe/Berlin
mode: merge
grouping: append
context: [code]
model: mechanic
draft: true
reviewers: [ada, authors]
dailyLimit: 3
monthlyCostUsd: 10
paths:
  - docs/**
maxLines: 20
---

Replace colour with color.

Leave quotes alone.
"""


def parse(text: str | bytes) -> AutomationDefinition:
    return parse_automation_file(text if isinstance(text, bytes) else text.encode())


def find_problems(text: str | bytes) -> list[FileProblem]:
    with pytest.raises(FileInvalid) as refusal:
        parse(text)
    return list(refusal.value.problems)


def test_file_has_the_fields_of_the_api() -> None:
    definition = parse(COMPLETE)
    assert definition.model_dump(mode="json", by_alias=True) == {
        "name": "Follow the code",
        "kind": "custom",
        "prompt": "Replace colour with color.\n\nLeave quotes alone.",
        "trigger": {"type": "schedule", "cron": "0 6 * * 1", "timezone": "Europe/Berlin"},
        "mode": "merge",
        "grouping": "append",
        "context": ["code"],
        "model": "mechanic",
        "draft": True,
        "reviewers": ["ada", "authors"],
        "dailyLimit": 3,
        "monthlyCostUsd": 10.0,
        "paths": ["docs/**"],
        "maxLines": 20,
        "enabled": True,
    }
    of_the_api = {field.alias for field in AutomationRequest.model_fields.values()}
    assert set(FILE_FIELDS) == of_the_api - {"prompt"}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CUSTOM])
def test_predefined_kind_needs_nothing_else_and_is_off(kind: Kind) -> None:
    definition = parse(f"---\nkind: {kind}\n---\n")
    assert (definition.kind, definition.enabled, definition.name) == (kind, False, definition.defaults.title)


@pytest.mark.parametrize("text", [COMPLETE.replace("\n", "\r\n"), "\ufeff" + COMPLETE, COMPLETE.rstrip("\n")])
def test_line_ends_and_byte_order_mark_do_not_matter(text: str) -> None:
    assert parse(text) == parse(COMPLETE)


def test_rule_in_the_prompt_does_not_end_it() -> None:
    assert parse("---\nkind: typos\n---\nA\n\n---\n\nB\n").prompt == "A\n\n---\n\nB"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "The file has no front matter."),
        ("# Title\n", 1, "The file has no front matter."),
        ("---- \nkind: typos\n---\n", 1, "The file has no front matter."),
        ("---\nkind: typos\n", 1, "The front matter has no end."),
        ("---\n- kind\n---\n", 2, "is not a list of fields"),
        ("---\nkind\n---\n", 2, "is not a list of fields"),
        ("---\nname: a: b\n---\n", 2, "is not valid YAML: mapping values are not allowed"),
        ("---\nname: A\n\ttrigger: x\n---\n", 3, "is not valid YAML"),
        ("---\nkind: typos\ntrigger: {type: schedule, cron: * * * * *}\n---\n", 3, "in quotes"),
        ("---\nkind: typos\ntrigger: {type: schedule, cron: */5 * * * *}\n---\n", 3, "in quotes"),
        ("---\nkind: typos\nkind: translate\n---\n", 3, "The field kind occurs twice."),
        ("---\nkind: typos\ntrigger: {type: api, type: release}\n---\n", 3, "The field trigger.type occurs twice."),
        ("---\nkind: typos\ntrigger: &t {type: api}\n---\n", 3, "Anchors and aliases"),
        ("---\nkind: typos\nname: *t\n---\n", 3, "Anchors and aliases"),
        ("---\nkind: typos\n<<: {mode: merge}\n---\n", 3, "Merge keys (<<)"),
        ("---\nkind: !!python/name:os.system typos\n---\n", 2, "Tags (!)"),
        ("---\nkind: ! typos\n---\n", 2, "Tags (!)"),
        ("---\nkind: typos\n--- x\n---\n", 3, "a second document"),
        ("---\nkind: typos\npaths: [[[[[[[[a]]]]]]]]\n---\n", 3, "nested too deeply"),
        ("---\nkind: typos\nyes: true\n---\n", 3, "must be a word"),
        ("---\nkind: typos\n? [a]\n: b\n---\n", 3, "must be a word"),
        (f"---\nkind: typos\nname: {'x' * 1001}\n---\n", 3, "more than 1,000 characters"),
        ('---\nkind: typos\nmodel: "a\\0b"\n---\n', 3, "a control character"),
        ("---\nkind: typos\nname: |\n  a\n  b\n---\n", 3, "a line break"),
        ("---\nkind: typos\nid: auto_1\n---\n", 3, "id is not a field. Fields are name, kind,"),
        ("---\nkind: typos\nsource: {file: a}\n---\n", 3, "source is not a field."),
        ("---\nkind: typos\nprojectId: proj_x\n---\n", 3, "projectId is not a field."),
        ("---\nkind: typos\ndaily_limit: 3\n---\n", 3, "daily_limit is not a field. Did you mean dailyLimit?"),
        ("---\nkind: typos\nprompt: Hi\n---\n", 3, "write the prompt below the front matter"),
        ("---\nkind: tipos\nname: A\ntrigger: {type: api}\n---\nHi\n", 2, "kind: Input should be 'custom'"),
        ("---\nkind: typos\nenabled: 'true'\n---\n", 3, "enabled: Input should be a valid boolean."),
        ("---\nkind: typos\npaths:\n- a\n- /b\n---\n", 3, "paths: '/b' is not a path pattern"),
        ("---\nkind: typos\nreviewers:\n- a\n- 'b c'\n---\n", 5, "reviewers.1: String should match"),
        ("---\nkind: typos\ntrigger:\n  type: schedule\n  cron: 0 25 * * *\n---\n", 3, "the hour is invalid"),
        ("---\nkind: typos\ntrigger:\n  type: api\n  every: day\n---\n", 5, "trigger.every: is not a field."),
        ("---\nname: A\ntrigger: {type: api}\n---\n", 5, "needs a prompt. Write it below the front matter."),
        ("---\n---\nHi\n", None, "name: is required."),
        ("---\nkind: typos\n---\n" + "x" * 24_001, 4, "prompt: String should have at most 24000 characters"),
        (b"---\nkind: typos\n---\n\xff\n", 4, "The file is not UTF-8 text."),
        ("---\nkind: typos\n---\n".encode("utf-16"), 1, "The file is not UTF-8 text."),
        (b"---\nkind: typos\n---\n\x00\n", 4, "must not contain a NUL character"),
        (b"x" * (MAX_FILE_BYTES + 1), None, "The file has 65,537 bytes. At most 65,536 are allowed"),
    ],
)  # fmt: skip
def test_wrong_file_is_refused_with_its_line(text: str | bytes, line: int | None, words: str) -> None:
    first = find_problems(text)[0]
    assert words in first.message
    assert first.line == line


def test_all_faults_of_a_file_are_told_up_to_a_limit() -> None:
    problems = find_problems("---\nmaxLines: 0\nmode: x\ndailyLimit: 0\nkind: x\n---\n")
    assert [problem.line for problem in problems] == [2, 3, 4, 5, None, None]
    many = "".join(f"field{number}: 1\n" for number in range(100))
    assert len(find_problems(f"---\n{many}---\n")) == MAX_PROBLEMS_PER_FILE


BOMBS = {
    "laughs": "a: &a [x, x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n"
                                        for n in range(20)),
    "merges": "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)),
    "brackets": "a: " + "[" * 30_000,
    "dashes": "- " * 30_000,
    "sexagesimal number": "dailyLimit: 1" + ":59" * 20_000,
    "long number": "dailyLimit: " + "9" * 60_000,
    "long name": "a" * 60_000 + ": 1",
    "many values": "paths: [" + "a," * 30_000 + "a]",
    "many fields": "".join(f"f{number}: 1\n" for number in range(7000)),
    "recursion": "a: &a {b: *a}",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_at_little_cost(name: str) -> None:
    text = f"---\n{BOMBS[name]}\n---\nHi\n"
    assert len(text) <= MAX_FILE_BYTES
    with limit_cpu(seconds=0.1):
        assert find_problems(text)


@pytest.mark.parametrize(
    "pump",
    [
        Pump("---x\n", prefix="---\n"),
        Pump("--- ", prefix="---\nkind: typos\n"),
        Pump(" ", prefix="---\n---", suffix="x"),
        Pump("\r\n", prefix="---\n"),
        Pump("a: 1\n", prefix="---\n", suffix="---\n"),
        Pump("a: {b: [1, 2]}\n", prefix="---\n", suffix="---\n"),
        Pump("- docs/**\n", prefix="---\nkind: typos\npaths:\n", suffix="---\n"),
        Pump("- a\n", prefix="---\nkind: typos\nreviewers:\n", suffix="---\n"),
        Pump("'", prefix="---\nkind: '", suffix="'\n---\n"),
        Pump("# a\n", prefix="---\n", suffix="---\n"),
        Pump("\\x41", prefix='---\nkind: "', suffix='"\n---\n'),
        Pump("[", prefix="---\na: ", suffix="\n---\n"),
        Pump("? ", prefix="---\n", suffix="\n---\n"),
        Pump("é\n", prefix="---\nkind: typos\n---\n"),
        Pump("".join(f"f{number}: 1\n" for number in range(50)), prefix="---\n", suffix="---\n"),
    ],
    ids=lambda pump: repr(pump.piece[:12]),
)
def test_cost_grows_with_the_length(pump: Pump) -> None:
    def parse_or_refuse(text: str) -> None:
        with suppress(FileInvalid):
            parse(text)

    assert_linear(parse_or_refuse, pump, MAX_FILE_BYTES // 5)


NAMES = st.sampled_from([*FILE_FIELDS, "prompt", "id", "type", "cron", "<<", "", "true", "é", "a b"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates().map(str),
    st.sampled_from(["typos", "api", "schedule", "0 6 * * 1", "docs/**", "&a", "*a", "!!int 3", "{", "'", "|", "\x85"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
FRONT_MATTER = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(
    lambda pairs: "".join(f"{name}: {value}\n" for name, value in pairs)
)
FILES = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: f"---\n{text}\n---\n{text}".encode("utf-8", "replace")),
    FRONT_MATTER.map(lambda text: f"---\n{text}---\nHi\n".encode("utf-8", "replace")),
    FRONT_MATTER.map(lambda text: f"---\nkind: typos\n{text}---\n".encode("utf-8", "replace")),
)


@pytest.mark.deep
@given(FILES)
def test_any_bytes_are_a_definition_or_a_problem(data: bytes) -> None:
    problems: tuple[FileProblem, ...] = ()
    try:
        definition = parse_automation_file(data)
        assert AutomationDefinition.from_stored(definition.to_stored()) == definition
    except FileInvalid as refusal:
        problems = refusal.problems
        assert problems
    assert len(problems) <= MAX_PROBLEMS_PER_FILE
    for line, message in problems:
        assert line is None or 1 <= line <= data.count(b"\n") + data.count(b"\r") + 2
        assert message.isprintable()
        assert len(message) <= MAX_MESSAGE_CHARS
