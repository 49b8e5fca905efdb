"""The GitLab CI component, run like a runner does, and the script alone, as in any other CI system."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integrations.ci_runner import (
    ROOT,
    SCRIPT,
    TEMPLATE,
    render_component,
    run,
    run_component,
    runner_environment,
)
from tests.integrations.conftest import CiService
from tests.integrations.test_github_action import HOSTILE
from tests.support.scripted_model import edit, finish
from tests.support.service import Service


@pytest.mark.deep
def test_job_ends_with_a_report_of_its_merge_request(running: CiService, tmp_path: Path) -> None:
    running.follow(edit("docs/index.md", "colour", "color"), finish("American spelling", "Changed one word."))
    result = run_component({**running.inputs, "prompt": HOSTILE, "draft": True}, running.service.key, tmp_path)
    assert result.exit_code == 0, result.log
    job = running.service.client.get_job(result.outputs["COPYDESK_JOB_ID"])
    assert job["prompt"] == HOSTILE
    assert result.outputs == {
        "COPYDESK_STATUS": "completed",
        "COPYDESK_JOB_ID": job["id"],
        "COPYDESK_PR_LINK": job["prLink"],
    }
    assert job["prLink"]
    assert not list(tmp_path.rglob("injected"))
    assert running.service.key not in result.log


def test_job_that_does_not_end_in_time_fails_with_its_report(idle: Service, tmp_path: Path) -> None:
    given = {"url": idle.url, "project": idle.project.id, "prompt": "Change it", "timeout": "1s"}
    result = run_component(given, idle.key, tmp_path)
    assert (result.exit_code, result.outputs["COPYDESK_STATUS"]) == (1, "timed_out")
    assert result.commands == []


def test_component_passes_every_input_as_a_variable_that_is_not_expanded() -> None:
    header, _ = yaml.safe_load_all(TEMPLATE.read_text("utf-8"))
    [(name, job)] = render_component({"url": "https://desk.example.org", "project": "proj_1"}).items()
    assert name == "copydesk"
    variables = {f"COPYDESK_{each.upper().replace('-', '_')}" for each in header["spec"]["inputs"]}
    expanded = {each for each, value in job["variables"].items() if not isinstance(value, dict) or value["expand"]}
    assert expanded == {"GIT_STRATEGY", "COPYDESK_DOTENV"}
    assert set(job["variables"]) - expanded == variables - {"COPYDESK_JOB_NAME", "COPYDESK_STAGE", "COPYDESK_IMAGE"}


def test_component_contains_the_script_as_it_is() -> None:
    [job] = render_component({"url": "https://desk.example.org", "project": "proj_1"}).values()
    assert SCRIPT.read_text("utf-8") in job["script"][0], "run scripts/gitlab-component"
    before = TEMPLATE.read_bytes()
    subprocess.run([sys.executable, str(ROOT / "scripts/gitlab-component")], check=True)
    assert TEMPLATE.read_bytes() == before


def test_script_runs_on_python_3_8_with_the_standard_library_alone() -> None:
    tree = ast.parse(SCRIPT.read_text("utf-8"), feature_version=(3, 8))
    imports = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imports += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {name.partition(".")[0] for name in imports} <= sys.stdlib_module_names


def test_script_works_in_any_other_ci_system(running: CiService, tmp_path: Path) -> None:
    running.follow(finish("Nothing", "Nothing to do."))
    environment = {
        **runner_environment(tmp_path),
        "COPYDESK_URL": running.service.url,
        "COPYDESK_PROJECT": running.service.project.id,
        "COPYDESK_API_KEY": running.service.key,
        "COPYDESK_PROMPT": "Change it",
        "LC_ALL": "C",
    }
    exit_code, log = run([sys.executable, "-IS", str(SCRIPT)], environment, tmp_path)
    assert exit_code == 0, log
    assert "copydesk: completed: " in log
    assert "::" not in log
