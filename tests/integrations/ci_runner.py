"""Runs the steps of the CI integrations as the runners of GitHub and GitLab do, with the environment that they give."""

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION_FOLDER = ROOT / "integrations/github-action"
TEMPLATE = ROOT / "integrations/gitlab/templates/copydesk.yml"
SCRIPT = ROOT / "integrations/shell/copydesk_job.py"
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
INTERPOLATION = re.compile(r"\$\[\[\s*inputs\.([\w-]+)\s*\]\]")
STEP_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class StepResult:
    exit_code: int
    log: str
    """What people see, with masked secrets."""
    commands: list[str]
    """The lines that GitHub's runner obeys."""
    outputs: dict[str, str]
    summary: str = ""

    @property
    def command_names(self) -> list[str]:
        return [re.sub(r"^::([\w-]+).*", r"\1", command) for command in self.commands]


def read_action() -> dict[str, Any]:
    action: dict[str, Any] = yaml.safe_load((ACTION_FOLDER / "action.yml").read_text("utf-8"))
    return action


def run_action(inputs: Mapping[str, str], folder: Path) -> StepResult:
    """Runs every step of action.yml like GitHub's runner: expressions in `env` and in outputs, commands in the log."""
    action = read_action()
    missing = {name for name, each in action["inputs"].items() if each["required"]} - set(inputs)
    assert not missing, missing
    context = {f"inputs.{name}": inputs.get(name, each.get("default", "")) for name, each in action["inputs"].items()}
    summary, exit_code, log, commands = folder / "summary", 0, "", list[str]()
    for number, step in enumerate(action["runs"]["steps"]):
        assert step["shell"] == "bash"
        output_file, script = folder / f"output-{number}", folder / f"step-{number}.sh"
        output_file.touch()
        script.write_text(step["run"], "utf-8")  # as it is: an expression in it would stay, and fail
        environment = {
            **runner_environment(folder),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ACTION_FOLDER),
            "GITHUB_OUTPUT": str(output_file),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{name: evaluate(value, context) for name, value in step["env"].items()},
        }
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
        exit_code, printed = run(command, environment, folder)
        step_commands, shown = obey_commands(printed)
        commands, log = commands + step_commands, log + shown
        context |= {
            f"steps.{step['id']}.outputs.{name}": value for name, value in read_assignments(output_file).items()
        }
        if exit_code:
            break
    outputs = {name: evaluate(each["value"], context) for name, each in action["outputs"].items()}
    return StepResult(exit_code, log, commands, outputs, summary.read_text("utf-8") if summary.exists() else "")


def evaluate(text: str, context: Mapping[str, str]) -> str:
    """Replaces expressions. An output that was not set is empty; an unknown input is an error."""

    def look_up(expression: re.Match[str]) -> str:
        name = expression[1]
        return context.get(name, "") if name.startswith("steps.") else context[name]

    return EXPRESSION.sub(look_up, text)


def obey_commands(printed: str) -> tuple[list[str], str]:
    """Returns the workflow commands of a log, in both of their forms, and the log after masking."""
    commands = [line.strip() for line in printed.splitlines() if line.lstrip().startswith("::") or "##[" in line]
    for command in commands:
        if command.startswith("::add-mask::"):
            printed = printed.replace(command, "").replace(command.removeprefix("::add-mask::"), "***")
    return commands, printed


def render_component(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the template with its inputs, which GitLab inserts into the parsed YAML."""
    header, template = yaml.safe_load_all(TEMPLATE.read_text("utf-8"))
    declared = header["spec"]["inputs"]
    assert not set(inputs) - set(declared)
    values = {name: inputs[name] if name in inputs else each["default"] for name, each in declared.items()}

    def insert(part: Any) -> Any:
        if isinstance(part, dict):
            return {insert(name): insert(each) for name, each in part.items()}
        if isinstance(part, list):
            return [insert(each) for each in part]
        return INTERPOLATION.sub(lambda found: format_input(values[found[1]]), part) if isinstance(part, str) else part

    rendered: dict[str, Any] = insert(template)
    return rendered


def format_input(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_component(inputs: Mapping[str, Any], key: str, folder: Path) -> StepResult:
    """Runs the component's job like GitLab's runner: its variables, its script, then its report."""
    [job] = render_component(inputs).values()
    variables = {
        name: each["value"] if isinstance(each, dict) else each for name, each in sorted(job["variables"].items())
    }
    environment = {**runner_environment(folder), "GITLAB_CI": "true", "COPYDESK_API_KEY": key, **variables}
    script = folder / "script.sh"
    script.write_text("set -eo pipefail\n" + "\n".join(job["script"]) + "\n", "utf-8")
    exit_code, printed = run(["bash", str(script)], environment, folder)
    report = folder / job["artifacts"]["reports"]["dotenv"]
    outputs = read_assignments(report) if report.exists() else {}
    return StepResult(exit_code, printed, obey_commands(printed)[0], outputs)


def runner_environment(folder: Path) -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}


def run(command: list[str], environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        command,
        env=dict(environment),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=STEP_TIMEOUT_SECONDS,
    )
    return done.returncode, done.stdout.decode()


def read_assignments(file: Path) -> dict[str, str]:
    """Reads lines `name=value`; a line of another form is an error, as it is for the runners."""
    values = {}
    for line in file.read_text("utf-8").splitlines():
        name, mark, value = line.partition("=")
        assert mark, line
        assert name not in values, line
        values[name] = value
    return values
