"""Settings in code blocks that exist nowhere are listed for a person, and never passed nor failed."""

import time
from collections.abc import Callable

import pytest

from copydesk.jobs.checks import check, format_for_api
from copydesk.jobs.checks.names.block_settings import collect_block_settings
from copydesk.jobs.workspace.context_tree import ContextTree
from tests.jobs.checks.names.test_unknown_names import DOCS, RULE, SOURCES
from tests.jobs.conftest import MakeWorkspace

FindSettings = Callable[..., list[str]]


@pytest.fixture
def find_settings(workspace: MakeWorkspace) -> FindSettings:
    """Returns a function that adds a page with a block and returns the settings that a person should check."""

    def find(language: str, block: str, path: str = "docs/new.md", request: str = "Write a page.") -> list[str]:
        edited = workspace({**SOURCES, **DOCS})
        edited.write(path, f"# New\n\n```{language}\n{block}\n```\n".encode())
        report = check(edited, request=request)
        assert [each for each in report.introduced if each.rule == RULE] == []
        return [f"{each.line} {each.message.split('`')[1]}" for each in report.please_check]

    return find


INVENTED = [
    ("yaml", "cache_folder: x\nretry_backoff: 2", ["5 retry_backoff"]),
    ("yml", "caches:\n  - cacheFolder: x\n    retry-backoff: 2", ["4 caches", "6 retry-backoff"]),
    ("yaml", 'cacheFolder: {retryBackoff: 2, "retry_limit": [1, 2]}', ["4 retryBackoff", "4 retry_limit"]),
    ("yaml", "cache_folder: |\n  retry_backoff: 2\n  x\nretry_limit: 1", ["7 retry_limit"]),
    ("yaml", "# retry_backoff: 2\ncache_folder: 'retry_limit: 2'", []),
    ("json", '{"cache_folder": {"retryBackoff": [{"retry_limit": "x_y: {z_z: 1}"}]}}',
     ["4 retryBackoff", "4 retry_limit"]),
    ("jsonc", '{\n  // "retry_limit": 1\n  "cache_folder": "a", /* "b_c": 1 */\n  retryBackoff: 1,\n}',
     ["7 retryBackoff"]),
    ("toml", 'cache_folder = "x"\n[retry_policy]\nback_off = 2\nx.y_y = """\nretry_limit = 1\n"""',
     ["5 retry_policy", "6 back_off", "7 y_y"]),
    ("toml", '[tool.acme]\ncache_folder = { retry_limit = 2 }\n[project]\nname_x = "a"', ["5 retry_limit"]),
    ("ini", "[my section]\ncache_folder = x\nretry_backoff = 2", ["6 retry_backoff"]),
    ("properties", "cache.folder=1\nserver.retryBackoff=2", ["5 server.retryBackoff"]),
]  # fmt: skip


@pytest.mark.parametrize(("language", "block", "expected"), INVENTED)
def test_setting_of_a_block_that_exists_nowhere_is_listed(
    find_settings: FindSettings, language: str, block: str, expected: list[str]
) -> None:
    assert find_settings(language, block) == expected
    assert find_settings("python", block) == []


@pytest.mark.parametrize(
    ("language", "block"),
    [
        ("yaml", "apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: Never"),
        ("yaml", "services:\n  web:\n    image: x\n    stop_grace_period: 1s"),
        ("yaml", "on: push\njobs:\n  build:\n    runs-on: x\n    timeout-minutes: 2"),
        ("yaml", "- uses: actions/checkout@v4\n  with:\n    fetch_depth: 0\n  continue-on-error: true"),
        ("yaml", "steps:\n  - run: x\n    working-directory: y"),
        ("yaml", "repos:\n  - repo: x\n    rev: y\n    minimum_pre_commit_version: 1"),
        ("yaml", "openapi: 3.1.0\npaths: {}\nexternalDocs: {}"),
        ("yaml title=docker-compose.yml", "stop_grace_period: 1s"),
        ("yaml", "# .github/workflows/ci.yml\ncontinue-on-error: true"),
        ("json", '{"compilerOptions": {"moduleResolution": "node"}}'),
        ("json", '{"name": "x", "devDependencies": {"left_pad": "1"}, "packageManager": "x"}'),
        ("json", '{"mcpServers": {"the_server": {"command_line": "x"}}}'),
        ("toml", '[build-system]\nbuild-backend = "x"'),
        ("toml", '[package]\nname = "x"\nedition = "2021"\nrust-version = "1"'),
        ("ini", "[Unit]\nDescription=x\n[Service]\nrestart_mode=direct"),
    ],
)
def test_files_of_other_programs_are_not_judged(find_settings: FindSettings, language: str, block: str) -> None:
    assert find_settings(language, block) == []


@pytest.mark.parametrize(
    ("language", "block"),
    [
        ("yaml", "env:\n  team_name: x\n  more:\n    log_level_x: y"),
        ("yaml", "projects:\n  billing_service:\n    cache_folder: x"),
        ("yaml", "my_setting: 1\nyour_setting: 2\nexample_key: 3\nFOO_BAR: 1\nId: x\n$ref: y\na/b: 1"),
        ("json", '{"projects": {"billing_service": {"cache_folder": "x"}}, "env": {"team_name": 1}}'),
        ("toml", '[projects.billing_service]\ncache_folder = "x"'),
        ("yaml", "cacheFolder: first_value\nrequest_timeout: [second_value]"),
    ],
)
def test_values_and_names_that_a_reader_chooses_are_not_judged(
    find_settings: FindSettings, language: str, block: str
) -> None:
    assert find_settings(language, block, request="Document the sections env and projects.") == []


def test_setting_is_known_from_requests_sources_and_context_repositories(
    workspace: MakeWorkspace, find_settings: FindSettings
) -> None:
    assert find_settings("yaml", "retryBackoff: 2", request="Document retry_backoff.") == []
    edited = workspace({**SOURCES, **DOCS})
    context = ContextTree("app", workspace({"app.py": b"retry_backoff = 2\n"}).tree)
    edited.contexts["app"] = context
    edited.write("docs/new.md", b"# New\n\n```yaml\nretryBackoff: 2\nretry_limit: 3\n```\n")
    assert [each.line for each in check(edited).please_check] == [5]


def test_only_added_lines_count_and_an_inline_name_is_not_listed_twice(workspace: MakeWorkspace) -> None:
    old = b"# A\n\n```yaml\nold_key: 1\n```\n"
    edited = workspace({**SOURCES, **DOCS, "docs/a.md": old})
    edited.write("docs/a.md", old.replace(b"old_key: 1", b"old_key: 2\nnew_key: 3\nretry_limit: 4") + b"\n`new_key`\n")
    report = check(edited)
    assert [each.line for each in report.please_check] == [6]
    assert [each.line for each in report.introduced] == [9]


def test_setting_is_listed_also_without_source_code(workspace: MakeWorkspace) -> None:
    edited = workspace(DOCS)
    edited.write("docs/new.md", b"# New\n\n```yaml\nretry_backoff: 2\n```\n")
    [entry] = [entry for entry in format_for_api(check(edited)) if entry["name"] == RULE]
    assert (entry["status"], entry["introduced"], entry["judged"]) == ("not_judged", 0, 0)
    assert [each["line"] for each in entry["pleaseCheck"]] == [4]
    assert check(edited, ignored=[f"{RULE}:docs/*"]).please_check == ()


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("a.md", "> ~~~yaml\n> retry_backoff: 1\n> ~~~\n"),
        ("a.md", "1. x\n\n    ```{code-block} yaml\n    retry_backoff: 1\n    ```\n"),
        ("a.mdx", "<Tab>\n    ```yaml {2} title=x\n    retry_backoff: 1\n    ```\n</Tab>\n"),
        ("a.md", "```text\nx\n```\n```yaml\nretry_backoff: 1\n```\n```text\nno_key: 1\n```\n"),
        ("a.rst", ".. code-block:: yaml\n   :linenos:\n\n   retry_backoff: 1\n\nno_key: 1\n"),
        ("a.rst", ".. code:: yaml\n\n   retry_backoff: 1\n"),
    ],
)
def test_blocks_are_read_in_every_kind_of_page(path: str, page: str) -> None:
    assert [each.name for each in collect_block_settings(path, page, frozenset(range(100)))] == ["retry_backoff"]


def test_settings_beyond_the_limit_are_not_judged(workspace: MakeWorkspace) -> None:
    edited = workspace({**SOURCES, **DOCS})
    keys = "\n".join(f"retry_limit_{number}: 1" for number in range(101))
    edited.write("docs/new.md", f"# New\n\n```yaml\n{keys}\n```\n".encode())
    report = check(edited)
    assert len(report.please_check) == 100
    reasons = [each.reason for each in report.not_judged if each.rule == RULE]
    assert reasons == ["the change has more than 100 settings in code blocks"]


@pytest.mark.parametrize(
    "block",
    ["{" * 2_000, '{"a":' * 2_000, "a_b:\n" * 2_000, " " * 1900 + "a_b: {" + "x," * 40, "[a." * 600, "- " * 900],
)
def test_hostile_block_is_read_quickly(block: str) -> None:
    for language in ("yaml", "json", "toml", "ini"):
        page = f"# X\n\n```{language}\n{block}\n{block}\n```\n"
        began = time.process_time()
        list(collect_block_settings("a.md", page, frozenset(range(50_000))))
        assert time.process_time() - began < 2
