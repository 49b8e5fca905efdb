"""Names that a change invents are found, and names that exist in any spelling are not."""

from collections.abc import Callable

import pytest

from copydesk.jobs.checks import check, format_for_api
from tests.jobs.conftest import MakeWorkspace

RULE = "unknown-name"
CLI_SOURCE = b"""
parser.add_argument("--dry-run", action="store_true")
MAX_RETRIES = int(os.environ.get(PREFIX + "MAX_RETRIES", 3))
class Settings:
    cache_folder: Path
    requestTimeout = 30
app.post("/v2/projects/{project}/archive")
from "@acme/client"; import "github.com/acme/client/v2"
"""
SOURCES = {f"src/part_{number}.py": b"pass\n" for number in range(20)} | {"src/cli.py": CLI_SOURCE}
DOCS = {
    "mkdocs.yml": b"site_name: x\n",
    "docs/index.md": b"# Home\n\nSet `ACME_TOKEN` and run `acme --verbose`.\n\n```bash\npip install acme-tools\n```\n",
}
FindNames = Callable[[str], list[str]]


@pytest.fixture
def find_names(workspace: MakeWorkspace) -> FindNames:
    """Returns a function that adds a page to a repository with source code and returns what the checks say of names."""

    def find(text: str, request: str = "Write a page.") -> list[str]:
        edited = workspace({**SOURCES, **DOCS})
        edited.write("docs/new.md", f"# New\n\n{text}\n".encode())
        report = check(edited, request=request)
        assert not [each for each in report.not_judged if each.rule == RULE]
        return [finding.message for finding in report.introduced if finding.rule == RULE]

    return find


@pytest.mark.parametrize(
    "text",
    [
        "`--dry-run`",
        "`acme --verbose`",
        "`ACME_TOKEN`",
        "`ACME_MAX_RETRIES`",
        "`max_retries`",
        "`cache-folder`, `cache_folder` and `cacheFolder`",
        "`request_timeout`",
        "`POST /v2/projects/{id}/archive`",
        "```bash\npip install --upgrade acme-tools\n```",
        "```bash\npip install -e path/to/plugin\n```",
        "```bash\n$ pip install 'acme-tools[http2,tls]>=1.2; python_version < \"3.9\"' acme_tools==1.2  # both\n```",
        "```bash\ncargo add acme-tools@0.8.5 && npm i acme-tools@^3.5 @acme/client@1 --save-dev @acme/client\n```",
        "```bash\ngo get github.com/acme/client/v2@latest\npip install -r more.txt -c limits.txt --index-url x\n```",
        "`pip install acme-tools`, then `run it`",
        "```bash\n# pip install acme-tools for faster output\n```",
    ],
)
def test_name_that_exists_in_any_spelling_is_known(find_names: FindNames, text: str) -> None:
    assert find_names(text) == []


@pytest.mark.parametrize(
    ("text", "name", "suggestion"),
    [
        ("`acme --dry-ru`", "flag `--dry-ru`", "--dry-run"),
        ("```bash\nacme --force-rebuild\n```", "flag `--force-rebuild`", None),
        ("`ACME_TOKENS`", "environment variable `ACME_TOKENS`", "ACME_TOKEN"),
        ("`retry_backoff`", "setting `retry_backoff`", None),
        ("`server.retryBackoff`", "setting `server.retryBackoff`", None),
        ("`POST /v2/projects/{id}/purge`", "endpoint `/v2/projects/{id}/purge`", None),
        ("```bash\nnpm install @acme/sdk-extra\n```", "package `@acme/sdk-extra`", None),
    ],
)
def test_invented_name_is_found(find_names: FindNames, text: str, name: str, suggestion: str | None) -> None:
    [message] = find_names(text)
    assert message.startswith(f"The {name} occurs nowhere in the repository or the request.")
    assert message.partition("?")[0].endswith(f"Did you mean `{suggestion}`") == (suggestion is not None)


@pytest.mark.parametrize(
    "text",
    [
        "The word retry_backoff in prose.",
        "`your_token`, `MY_TOKEN`, `<SOME_NAME>`, `${SHELL_NAME}`, `example_key`",
        "`config.yaml`, `data.tar`, `example.org`",
        "```python\nlocal_variable = compute_things(other_thing=1)\n```",
        "`foo_bar(`",
        "[link](https://x.test/?first_name=a_b)",
    ],
)
def test_text_that_is_no_name_of_the_product_is_ignored(find_names: FindNames, text: str) -> None:
    assert find_names(text) == []


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pip install acme-tools one two==1.2 'three[extra]>=2' four.", ["one", "two", "three", "four"]),
        ("sudo python3 -m pip install -U one --prefix /opt two", ["one", "two"]),
        ("cargo add rand@0.8.5 --features small_rng serde", ["rand", "serde"]),
        ("npm install vue@3.5 @scope/one@1.2.3 @scope/two > log.txt", ["vue", "@scope/one", "@scope/two"]),
        ("npm i one && pip install two; go get code.test/three@v1", ["one", "two", "code.test/three"]),
        ("(pip install one) | tee log", ["one"]),
        ("pip install git+https://x.test/y.git . ./local ../other <name> $NAME dist/x.whl x.whl one", ["one"]),
        ("raise ImportError('Please pip install one to get two')", ["one"]),
    ],
)
def test_every_package_of_a_command_is_judged_without_version_and_extras(
    find_names: FindNames, command: str, names: list[str]
) -> None:
    found = [message.split("`")[1] for message in find_names(f"```bash\n{command}\n```")]
    assert sorted(found) == sorted(names)


def test_name_in_the_request_is_known(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    edited.write("docs/new.md", b"# New\n\nUse `--offline-mode` or `--local-mode`.\n")
    report = check(edited, request="Document the new flag --offline-mode.")
    assert [finding.line for finding in report.introduced] == [3]
    assert "--local-mode" in report.introduced[0].message


def test_only_added_lines_count(workspace: MakeWorkspace) -> None:
    old = {**DOCS, "docs/old.md": b"# Old\n\n`--gone-flag`\n\nA line.\n"}
    edited = workspace({**SOURCES, **old})
    edited.write("docs/old.md", b"# Old\n\n`--gone-flag`\n\nAnother line.\n")
    assert check(edited).introduced == ()


def test_moved_page_brings_no_new_names(workspace: MakeWorkspace) -> None:
    page = b"# Old\n\n`--only-here`\n"
    edited = workspace({**SOURCES, **DOCS, "docs/old.md": page})
    edited.delete("docs/old.md")
    edited.write("docs/moved.md", page)
    assert [finding for finding in check(edited).introduced if finding.rule == RULE] == []


def test_repository_without_source_code_is_not_judged(workspace: MakeWorkspace) -> None:
    edited = workspace({**DOCS, "docs/example.py": b"pass\n"})
    edited.write("docs/new.md", b"# New\n\n`acme --invented-flag`\n")
    report = check(edited)
    [entry] = [entry for entry in format_for_api(report) if entry["name"] == RULE]
    assert (entry["status"], entry["introduced"]) == ("not_judged", 0)
    assert "no source code" in entry["reason"]
    assert "--invented-flag" in entry["notJudged"][0]["message"]


def test_names_beyond_the_limit_are_not_judged(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    flags = "\n".join(f"`--invented-{number}-x`" for number in range(101))
    edited.write("docs/new.md", f"# New\n\n{flags}\n".encode())
    report = check(edited)
    assert len([finding for finding in report.introduced if finding.rule == RULE]) == 100
    assert [each.reason for each in report.not_judged if each.rule == RULE] == ["the change has more than 100 names"]


def test_rule_can_be_ignored(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    edited.write("docs/new.md", b"# New\n\n`--invented-flag`\n")
    assert check(edited, ignored=[RULE]).introduced == ()
    assert check(edited, ignored=[f"{RULE}:docs/*"]).introduced == ()


def test_restructured_text_labels_are_no_names(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, "docs/conf.py": b"", "docs/index.rst": b"Home\n====\n"})
    body = b".. _my_own_label:\n\nHome\n====\n\nSee :ref:`my_own_label`, ``made_up_setting``.\n"
    edited.write("docs/index.rst", body)
    names = [finding.message for finding in check(edited).introduced if finding.rule == RULE]
    assert len(names) == 1
    assert "made_up_setting" in names[0]


def test_page_that_moves_claims_no_names(workspace: MakeWorkspace) -> None:
    page = b"# Old\n\n## Part\n\n```bash\nnpm install @other/client\n```\n"
    moved = workspace({**SOURCES, **DOCS, "docs/old.md": page})
    moved.delete("docs/old.md")
    moved.write("docs/guide/old.md", page + b"\n`--invented-flag`\n")
    names = [finding.message for finding in check(moved).introduced if finding.rule == RULE]
    assert [name for name in names if "--invented-flag" not in name] == []
    assert len(names) == 1


def test_name_that_the_change_adds_to_other_files_is_known(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    edited.write("src/new.py", b'parser.add_argument("--fast-mode")\nretry_limit = 1\n')
    edited.write("docs/new.md", b"# New\n\n`--fast-mode`, `retry_limit`, `slow_mode`\n\n```yaml\nretryLimit: 1\n```\n")
    report = check(edited)
    assert [each.message.split("`")[1] for each in report.introduced] == ["slow_mode"]
    assert report.please_check == ()


def test_name_that_the_change_adds_to_pages_and_menus_alone_is_unknown(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    edited.write("docs/retry_limit.md", b"# Retry\n\n`retry_limit`\n")
    edited.write("docs/more.md", b"# More\n\nretry_limit\n")
    edited.write("docs/notes.txt", b"retry_limit\n")
    edited.write("mkdocs.yml", b"site_name: x\nnav: [index.md, more.md, retry_limit.md]\n")
    names = [finding for finding in check(edited).introduced if finding.rule == RULE]
    assert [(each.path, each.line) for each in names] == [("docs/retry_limit.md", 3)]


def test_name_in_code_that_people_committed_to_the_branch_is_known(workspace: MakeWorkspace) -> None:
    """The agent may not edit code, and a follow-up is judged against the base of its job."""
    base = workspace({**SOURCES, **DOCS})
    branch = workspace({**SOURCES, **DOCS, "src/new.py": b"fast_mode = True\n"})
    branch.write("docs/new.md", b"# New\n\n`fast_mode`, `slow_mode`\n")
    names = [finding.message.split("`")[1] for finding in check(branch, origin=base.tree).introduced]
    assert names == ["slow_mode"]


def test_name_of_one_change_is_not_remembered_for_the_next_one(workspace: MakeWorkspace) -> None:
    page = b"# New\n\n`POST /v2/projects/{id}/purge`\n"
    first = workspace({**SOURCES, **DOCS})
    first.write("docs/new.md", page)
    first.write("src/new.py", b'app.post("/purge")\n')
    assert check(first).introduced == ()
    second = workspace({**SOURCES, **DOCS})
    second.write("docs/new.md", page)
    assert len(check(second).introduced) == 1
