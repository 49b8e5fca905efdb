"""The evaluation harness: its figures against examples computed by hand, and complete runs with scripted models."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.agent.case_miner import MinedCase, MiningOptions, mine_cases
from benchmarks.agent.cases import BUILT_IN_CASES, EvaluationCase, InvalidCase, load_cases
from benchmarks.agent.metrics import Files, count_damaged_bytes, score_result
from benchmarks.agent.report import compare_runs, render_run
from benchmarks.agent.request_drafts import draft_prompt
from benchmarks.agent.results import Result, ResultTotals, Run, read_run, save_run
from benchmarks.agent.runner import ModelChoice, run_cases
from benchmarks.agent.sources import CaseSources
from copydesk.jobs.workspace.text_edits import BOM
from tests.support.model_server import ModelServer, call
from tests.support.repositories import commit, list_branches, make_repository

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks/agent/scripts"
PAGES = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c/d.md"]),
    st.one_of(
        st.binary(max_size=40),
        st.lists(st.sampled_from([b"a", b"b ", b" b", b"", b"a\r", b"\xe9", b"\xc3\xa9", b"?"]), max_size=6).map(
            b"\n".join
        ),
    ),
    max_size=3,
)


def test_files_are_counted_as_right_wrong_or_missed() -> None:
    base = {"a": b"1\n", "b": b"1\n", "c": b"1\n", "d": b"1\n"}
    result = {**base, "a": b"2\n", "b": b"2\n", "new": b"1\n"}
    reference = {**base, "a": b"2\n", "c": b"2\n"}
    found = score_result(base, result, reference)
    assert (found.right, found.wrong, found.missed) == (("a",), ("b", "new"), ("c",))
    assert (found.precision, found.recall, found.f1) == (1 / 3, 1 / 2, 2 / 5)
    assert not found.exact


def test_deleting_a_page_instead_of_editing_it_is_wrong() -> None:
    found = score_result({"a": b"1\n"}, {}, {"a": b"2\n"})
    assert (found.right, found.wrong, found.missed, found.f1) == ((), ("a",), ("a",), 0)


def test_lines_are_counted_by_their_diff() -> None:
    base = {"a": b"one\ntwo\nthree\nfour\n"}
    result = {"a": b"one\nTWO\nthree\n"}
    reference = {"a": b"one\nzwei\nthree\nfour\nfive\n"}
    found = score_result(base, result, reference)
    assert found.lines_right == 1, "both removed two"
    assert found.lines_beyond == 2, "TWO was added, four removed"
    assert found.lines_missed == 2, "zwei and five"


def test_a_line_written_twice_counts_twice() -> None:
    found = score_result({"a": b""}, {"a": b"x\nx\nx\n"}, {"a": b"x\n"})
    assert (found.lines_right, found.lines_beyond) == (1, 2)


@pytest.mark.parametrize(
    ("base", "result", "reference", "bytes_damaged"),
    [
        pytest.param(
            b"a\r\nb\r\nc\r\n", b"a\nB\nc\n", b"a\r\nB\r\nc\r\n", 3, id="line endings, also of the edited line"
        ),
        pytest.param(b"a\nb\n", b"a\r\nb\r\n", b"a\nb\n", 2, id="a page that nobody asked to touch"),
        pytest.param(BOM + b"a\nb\n", b"a\nB\n", BOM + b"a\nB\n", 3, id="a lost mark"),
        pytest.param(b"a\nb\n", BOM + b"a\nB\n", b"a\nB\n", 3, id="a mark put in"),
        pytest.param(b"a\nb", b"A\nb\n", b"A\nb", 1, id="a final newline put in"),
        pytest.param(b"a\nb\n", b"A\nb", b"A\nb\n", 1, id="a final newline lost"),
        pytest.param(b"a\nb  \n\tc\n", b"A\nb\n    c\n", b"A\nb  \n\tc\n", 2 + 4, id="spaces and indents"),
        pytest.param(b"a\n\nb\nc\n", b"a\nb\nC\n", b"a\n\nb\nC\n", 1, id="a blank line lost"),
        pytest.param(b"a b\nc d\n\ne\n", b"a b c d\n\nE\n", b"a b\nc d\n\nE\n", 1, id="lines joined"),
        pytest.param(b"\xe9 \xe8\nb\n", "é è\nB\n".encode(), b"\xe9 \xe8\nB\n", 4, id="another encoding"),
        pytest.param(b"\xe9\nb\n", "\ufffd\nB\n".encode(), b"\xe9\nB\n", 3, id="characters that could not be read"),
        pytest.param(None, b"a\nb\n", b"a\r\nb\r\n", 2, id="a moved page"),
        pytest.param(b"\x00\x01\x02", b"\x00\x09\x02", b"\x00\x01\x02", 1, id="a picture"),
        pytest.param(b"a  \nb\n", b"a\nb\n", b"a\nb\n", 0, id="white space that was to go"),
        pytest.param(b"a  \nb\n", b"a \nb\n", b"a\nb\n", 0, id="white space that was to go and did in part"),
        pytest.param(b"a\r\nb\nc\n", b"a\r\nb\nC\n", b"a\nb\nc\n", 0, id="an ending that was to go and did not"),
        pytest.param(b"a\nb\n", b"a\n\nb\n", b"a\n\nnew\nb\n", 0, id="a blank line where the reference wrote"),
        pytest.param(b"a\nb\n", b"a\nother words\n", b"a\nb\n", 0, id="other words are lines, not damage"),
        pytest.param(b"a\nb\n", b"a\n\nnew\n\nb\n", b"a\nb\n", 0, id="a paragraph is lines, not damage"),
        pytest.param(b"a\r\n", None, b"a\r\n", 0, id="a deleted page is lines, not damage"),
    ],
)
def test_changed_bytes_without_changed_words_count_as_damaged(
    base: bytes | None, result: bytes | None, reference: bytes, bytes_damaged: int
) -> None:
    assert count_damaged_bytes(base, result, reference) == bytes_damaged


@given(PAGES, PAGES)
def test_result_equal_to_the_reference_scores_perfectly(base: Files, reference: Files) -> None:
    found = score_result(base, reference, reference)
    assert found.exact
    assert (found.precision, found.recall, found.f1) == (1, 1, 1)
    assert (found.lines_beyond, found.lines_missed, found.bytes_damaged) == (0, 0, 0)


@given(PAGES)
def test_empty_change_scores_perfectly_when_the_reference_is_empty(base: Files) -> None:
    found = score_result(base, base, base)
    assert (found.exact, found.f1, found.lines_right, found.bytes_damaged) == (True, 1, 0, 0)


@given(PAGES, PAGES)
def test_empty_change_has_no_wrong_lines_and_no_recall(base: Files, reference: Files) -> None:
    found = score_result(base, base, reference)
    assert (found.precision, found.lines_right, found.lines_beyond, found.bytes_damaged) == (1, 0, 0, 0)
    assert (found.recall == 1) == found.exact == (base == reference)


@given(PAGES, PAGES, PAGES)
def test_swapping_result_and_reference_swaps_precision_and_recall(base: Files, one: Files, other: Files) -> None:
    found, reverse = score_result(base, one, other), score_result(base, other, one)
    assert (found.wrong, found.lines_beyond) == (reverse.missed, reverse.lines_missed)
    assert (found.precision, found.f1) == (reverse.recall, reverse.f1)


@given(PAGES, PAGES, PAGES)
def test_unchanged_files_do_not_affect_the_score(base: Files, result: Files, reference: Files) -> None:
    same = {"same.md": b"as it was\r\n"}
    assert score_result({**base, **same}, {**result, **same}, {**reference, **same}) == score_result(
        base, result, reference
    )


@given(st.lists(st.text("abc ", min_size=1, max_size=8), min_size=1, max_size=8, unique=True))
def test_each_changed_line_ending_is_one_damaged_byte(lines: list[str]) -> None:
    unix = "".join(f"{line}\n" for line in lines).encode()
    assert count_damaged_bytes(unix.replace(b"\n", b"\r\n"), unix, unix.replace(b"\n", b"\r\n")) == len(lines)


def evaluate_script(script: str, *names: str) -> dict[str, Result]:
    model = ModelChoice.parse(f"script:{SCRIPTS / script}")
    cases = model.select_cases(load_cases(BUILT_IN_CASES, names), all_of_them=bool(names))
    return {result.name: result for result in run_cases(cases, model, at_once=2)}


@pytest.mark.drill
def test_scripted_reference_model_solves_every_built_in_case() -> None:
    results = evaluate_script("careful.yaml")
    assert len(results) == len(load_cases(BUILT_IN_CASES)) >= 40
    assert [name for name, result in results.items() if not result.exact] == []
    total = ResultTotals.from_results(tuple(results.values()))
    assert (total.f1, total.lines_beyond, total.lines_missed, total.bytes_damaged, total.failed) == (1, 0, 0, 0, 0)
    assert total.findings == 0
    usage = results["term-with-tricky-places"]
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 4100, 200)
    assert usage.cost_usd == pytest.approx(0.005)
    assert results["no-change-needed"].reason == "no_changes"


def test_documented_case_and_script_work_together(tmp_path: Path) -> None:
    page = (ROOT / "benchmarks/agent/README.md").read_text("utf-8")
    shown = dict(re.findall(r"^```(toml|yaml)\n(.*?)^```$", page, re.M | re.S))
    cases, script = tmp_path / "cases.toml", tmp_path / "script.yaml"
    cases.write_text(shown["toml"], "utf-8")
    script.write_text(shown["yaml"], "utf-8")
    [result] = run_cases(load_cases(cases), ModelChoice.parse(f"script:{script}"))
    assert (result.exact, result.requests) == (True, 2)


@pytest.mark.drill
def test_model_that_changes_too_much_scores_lower() -> None:
    results = evaluate_script("eager.yaml")
    too_many = results["crlf-page"].score
    assert (too_many.wrong, too_many.precision, too_many.recall) == (("docs/linux.md",), 0.5, 1)
    assert (too_many.lines_beyond, too_many.lines_missed, too_many.bytes_damaged) == (2, 0, 0)
    needless = results["no-change-needed"].score
    assert (needless.f1, needless.lines_beyond) == (0, 2)
    obeyed = results["injected-instruction"].score
    assert obeyed.wrong == obeyed.missed == ("docs/security.md",)
    assert results["wrong-command-on-several-pages"].score.missed == ("docs/rollback.md",)
    faults = results["rename-with-links"].findings
    assert len(faults) == ResultTotals.from_results(tuple(results.values())).findings >= 4
    assert any(fault.startswith("docs/index.md:3:") for fault in faults)


@pytest.mark.drill
def test_hasty_model_solves_none_of_its_cases() -> None:
    results = evaluate_script("hasty.yaml")
    assert len(results) == len(load_cases(BUILT_IN_CASES))
    assert [name for name, result in results.items() if result.exact] == []


@pytest.mark.parametrize("name", ["cards-into-a-group", "move-with-a-redirect", "question-before-a-guess"])
def test_new_abilities_are_measured(name: str) -> None:
    assert evaluate_script("careful.yaml", name)[name].exact
    assert not evaluate_script("hasty.yaml", name)[name].exact


def test_model_that_rewrites_pages_scores_lower() -> None:
    for name, result in evaluate_script("rewriter.yaml").items():
        assert not result.score.exact, name
        assert result.score.lines_beyond + result.score.lines_missed + result.score.bytes_damaged > 0, name


def test_a_language_model_is_asked_over_http_as_in_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    case = EvaluationCase(
        name="a", prompt="Add docs/new.md", files={"docs/a.md": "# A\n"}, reference={"docs/new.md": "# New\n"}
    )
    written = call("write", {"path": "docs/new.md", "content": "# New\n"})
    with ModelServer([written, call("finish", {"title": "A page", "summary": "It is new."})]) as server:
        monkeypatch.setenv("COPYDESK_MODEL_URL", server.url)
        [result] = run_cases([case], ModelChoice.parse("openai-compatible:small"))
    assert (result.outcome, result.score.exact, result.requests) == ("completed", True, 2), result.message
    assert result.input_tokens > 0
    assert result.output_tokens > 0


def make_history(folder: Path) -> tuple[Path, str, str]:
    """Makes a repository; returns a commit and a later one that changes documentation and code below two folders."""
    page = b"# Caf\xe9\r\n\r\nOld words.\r\n"
    path = make_repository(folder / "handbook.git", {"docs/a.md": page, "src/x.py": b"x = 1\n"})
    base = list_branches(path)["main"]
    repository = pygit2.Repository(str(path))
    changed = {"docs/a.md": page.replace(b"Old", b"New"), "src/x.py": b"x = 2\n"}
    return path, base, commit(repository, changed, message="Say New, not Old, in the handbook")


def test_case_from_history_runs_on_a_copy_without_other_commits(tmp_path: Path) -> None:
    path, base, reference = make_history(tmp_path)
    before = list_branches(path)
    case = EvaluationCase(
        name="old", prompt="Replace “Old” with “New” on every page.", repository=str(path), base=base,
        reference=reference[:10], root="docs",
    )  # fmt: skip
    [result] = run_cases([case], ModelChoice.parse("mechanic"))
    assert (result.status, result.score.exact, result.score.right) == ("completed", True, ("docs/a.md",))
    assert list_branches(path) == before
    prepared = CaseSources(tmp_path).prepare(case, tmp_path / "copy.git")
    copy = pygit2.Repository(str(prepared.path))
    assert list(list_branches(prepared.path)) == ["main"]
    assert copy[list_branches(prepared.path)["main"]].peel(pygit2.Commit).parent_ids == []


def test_without_a_root_everything_the_reference_changed_counts(tmp_path: Path) -> None:
    path, base, reference = make_history(tmp_path)
    prompt = "Replace “Old” with “New” on every page."
    case = EvaluationCase(name="old", prompt=prompt, repository=f"file://{path}", base=base, reference=reference)
    [result] = run_cases([case], ModelChoice.parse("mechanic"))
    assert (result.score.right, result.score.missed) == (("docs/a.md",), ("src/x.py",))


def test_mining_proposes_only_documentation_changes(tmp_path: Path) -> None:
    path, _, _ = make_history(tmp_path)
    repository = pygit2.Repository(str(path))
    parent = list_branches(path)["main"]
    good = commit(
        repository, {"docs/a.md": b"# A\n"}, message='docs(a): say "less" (#12)\n\nIt was long.\n\nMore: \\o/\n'
    )
    commit(repository, {"docs/b.md": b"b\n" * 500}, message="Add a very long page")
    commit(repository, {"docs/.hidden/c.md": b"c\n"}, message="Add a hidden page")
    commit(repository, {"docs/d.md": b"d\n"}, message="wip")
    [found] = mine_cases(repository, MiningOptions())
    assert (found.base, found.reference, found.files) == (parent, good, 1)
    proposed = tmp_path / "cases.toml"
    proposed.write_text(found.to_toml(str(path)), "utf-8")
    [case] = load_cases(proposed)
    assert case.prompt == 'Say "less"\n\nIt was long.\n\nMore: \\o/'
    assert (case.name, case.base, case.reference) == (f"say-less-{good[:7]}", parent, good)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_prompt_survives_the_toml_round_trip(prompt: str) -> None:
    proposed = MinedCase("1" * 40, "2" * 40, prompt, files=1, lines=2).to_toml("C:\\new\\docs")
    [case] = tomllib.loads(proposed)["case"]
    assert (case["prompt"], case["repository"]) == (prompt, "C:\\new\\docs")


@pytest.mark.parametrize(
    ("message", "prompt"),
    [
        ("docs: fix the link to Ada (#7)\n\nSigned-off-by: Ada <ada@example.org>\n", "Fix the link to Ada"),
        ("Merge pull request #9 from ada/links\n\nFix all links to Ada\n", "Fix all links to Ada"),
        ("Merge branch 'main' into topic\n", ""),
        ("Revert the change to links\n", ""),
        ("typo\n", ""),
        ("📝 Update release notes\n\n[skip ci]\n", ""),
        ("🌐 Update translations for ko (update-outdated)", ""),
        ("Changelog generator: May recap\n", ""),
        ("Broken link in the sidebar", ""),
        ("docs (#12): fixed the port in the guide", "Fix the port in the guide"),
        ("✏️ Fixes the name of the flag (#3)", "Fix the name of the flag"),
        ("Update from code changes: document invites\n\n* docs: document invites\n\n* edits\n", "Document invites"),
        ("Use `nocopy`\n\nThis change corrects what I noticed.\n", "Use `nocopy`"),
        ("Use `nocopy`\n\nThe flag has one name.\n", "Use `nocopy`\n\nThe flag has one name."),
        ("Fix typo", ""),
    ],
)
def test_prompt_is_the_commit_message_without_prefixes_and_trailers(message: str, prompt: str) -> None:
    assert draft_prompt(message) == prompt


def test_prompt_without_a_subject_names_the_page() -> None:
    assert draft_prompt("Fix typos (#4)\n", ("docs/a.md",)) == "Fix typos in docs/a.md"
    assert draft_prompt("Fix typos", ("a.md", "b.md", "c.md")) == ""
    assert draft_prompt("Fix the name of the flag", ("docs/a.md",)) == "Fix the name of the flag"


MADE = '[[case]]\nname = "a"\nprompt = "Do"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\n", "is no TOML"),
        ("", "has no cases"),
        ('[[case]]\nname = "a"\nreference = {}\nfiles = {}\n', "case a: prompt: Field required"),
        (MADE + "reference = {}\n", "either a repository or files"),
        (MADE + 'repository = "r"\nreference = "x"\n', "a base is given with a repository"),
        (MADE + 'files = {}\nreference = "x"\n', "has its reference as files too"),
        (MADE + "files = {}\nreference = {}\nrefrence = {}\n", "refrence: Extra inputs"),
        (MADE + 'files = {"../p" = ""}\nreference = {}\n', "../p"),
        (2 * (MADE + "files = {}\nreference = {}\n"), "Two cases are called a"),
        (MADE + 'files = {"p" = {text = "„", encoding = "latin-1"}}\nreference = {}\n', "latin-1 has no '„'"),
    ],
)
def test_invalid_case_file_is_refused_with_the_error(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidCase, match=re.escape(told)):
        load_cases(path)


def test_a_reference_that_does_not_fit_its_base_is_refused() -> None:
    values = {"name": "a", "prompt": "Do", "files": {"a.md": "one\n"}}
    case = EvaluationCase.model_validate({**values, "reference": {"a.md": {"replace": [["two", "three"]]}}})
    with pytest.raises(InvalidCase, match=r"a\.md does not contain 'two'"):
        run_cases([case], ModelChoice.parse("mechanic"))


def test_a_job_that_failed_is_never_exact() -> None:
    made = {"name": "a", "score": score_result({}, {}, {})}
    ended = [Result(**made, status=status) for status in ("completed", "failed")]
    assert [result.exact for result in ended] == [True, False]
    assert ResultTotals.from_results(tuple(ended)).exact == ResultTotals.from_results(tuple(ended)).failed == 1


def test_runs_are_compared_on_their_common_cases(tmp_path: Path) -> None:
    def run(model: str, results: Files) -> Run:
        base, reference = {"a": b"1\n"}, {"a": b"2\n"}
        made = [
            Result(
                name=name,
                status="completed",
                score=score_result(base, {"a": data}, reference),
                findings=("a:1: It is wrong.",),
            )
            for name, data in results.items()
        ]
        return Run(model=model, began="2026-01-31", copydesk="1", results=tuple(made))

    first, second = run("one", {"x": b"2\n", "y": b"3\n"}), run("two", {"x": b"3\n", "z": b"1\n"})
    save_run(first, tmp_path / "one.json")
    assert read_run(tmp_path / "one.json") == first
    kept = json.loads((tmp_path / "one.json").read_text())
    assert (kept["sum"]["f1"], kept["sum"]["findings"], kept["results"][0]["score"]["f1"]) == (1, 2, 1)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in compare_runs(first, second).splitlines()]
    assert ["exact", "1", "0", "-1"] in rows
    assert ["lines beyond", "0", "1", "+1"] in rows
    assert ["In one run only, and left out: y, z."] in rows
    assert "| **in sum** | 2 of 2 completed | 1 of 2 " in render_run(first)


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.agent", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.drill
def test_command_runs_cases_and_reports_errors_in_one_sentence(tmp_path: Path) -> None:
    path, base, _ = make_history(tmp_path)
    cases, out = tmp_path / "cases.toml", tmp_path / "out.json"
    written = f'[[case]]\nname = "old"\nprompt = "Do"\nrepository = "handbook.git"\nbase = "{base}"\nreference = '
    cases.write_text(f'{written}"main"\n', "utf-8")
    assert tomllib.loads(cases.read_text("utf-8"))["case"]
    good = run_command("run", str(cases), "--json", str(out))
    assert good.returncode == 0, good.stderr
    assert "| old " in good.stdout
    assert render_run(read_run(out)) == good.stdout
    cases.write_text(f'{written}"deadbeef"\n', "utf-8")
    bad = run_command("run", str(cases))
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith(f"There is no commit deadbeef in {path}")
    assert len(bad.stderr.splitlines()) == 1
