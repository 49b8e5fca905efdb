"""The commands `copydesk automation create|list|show|set|run|runs|delete|check`."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    make_printable,
    open_client,
    print_facts,
    print_json,
    print_table,
)
from copydesk.core.errors import InvalidRequest

if TYPE_CHECKING:
    from copydesk_client import Automation, AutomationFiles, Client

app = typer.Typer(
    rich_markup_mode=None,
    help="Creates and manages automations over the API. Reads COPYDESK_URL and COPYDESK_API_KEY.",
    no_args_is_help=True,
)

AutomationArgument = Annotated[str, typer.Argument(metavar="AUTOMATION", help="The automation ID.")]
SettingsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=VALUE",
        help="Fields, such as dailyLimit=5 or enabled=false. A value can be JSON; paths and reviewers are "
        "separated by commas.",
    ),
]
LIST_FIELDS = ("context", "paths", "reviewers")
TRIGGER_FIELDS = ("cron", "timezone", "repositories", "tags")
KIND_NAMES = (
    "custom, update_from_code, changelog, broken_links, feedback, missing_pages, unanswered_searches, stale_pages, "
    "typos, style_guide or translate"
)
"""The kinds, repeated here so that the help of a command imports no other module."""
OUTCOMES = {
    "running": "running",
    "review_needed": "review needed",
    "merged": "merged",
    "closed": "closed",
    "failed": "failed",
    "nothing_to_do": "nothing to do",
}


@app.command()
def create(
    project: ProjectOption,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The name.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help=f"{KIND_NAMES}.")] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="What the agent should do.")] = None,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="CRON", help='Run by a schedule, such as "0 6 * * 1".')
    ] = None,
    timezone: Annotated[str, typer.Option("--timezone", metavar="ZONE", help="The schedule's time zone.")] = "UTC",
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="TRIGGER", help="code_change, content_update, release or api, or JSON."),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another field. Can be repeated.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Creates an automation."""
    fields = {"name": name, "kind": kind, "prompt": prompt, "trigger": _build_trigger(trigger, cron, timezone)}
    given_fields = {field: value for field, value in fields.items() if value is not None}
    with open_client(project) as client:
        _print_automation(client.create_automation(**given_fields, **_parse_values(values or [])), json)


@app.command("list")
def list_automations(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists the automations of the project."""
    with open_client(project) as client:
        automations = client.list_automations()
        files = _find_files(client)
    if json:
        print_json({"automations": automations, **({"files": files} if files and files["enabled"] else {})})
        return
    rows = [
        (each["id"], each["name"], "on" if each["enabled"] else "off", _describe_trigger(each), _describe_run(each),
         each["nextRun"])
        for each in automations
    ]  # fmt: skip
    print_table(("automation", "name", "enabled", "trigger", "last run", "next run"), rows, "No automations found.")
    for problem in _describe_file_problems(files) if files else ():
        typer.echo(make_printable(problem), err=True)


@app.command()
def show(automation: AutomationArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Shows an automation."""
    with open_client(project) as client:
        _print_automation(client.get_automation(automation), json)


@app.command("set")
def set_fields(
    automation: AutomationArgument, values: SettingsArgument, project: ProjectOption, json: JsonOption = False
) -> None:
    """Changes fields of an automation."""
    with open_client(project) as client:
        _print_automation(client.change_automation(automation, **_parse_values(values)), json)


@app.command()
def run(automation: AutomationArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Starts a run now."""
    with open_client(project) as client:
        started = client.run_automation(automation)
    if json:
        print_json(started)
        return
    print_facts({"run": started["id"], "job": started["jobId"], "continues an open one": started["appended"]})


@app.command()
def runs(
    automation: AutomationArgument,
    project: ProjectOption,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="The number of runs.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="The cursor of the next page.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Lists the runs of an automation, newest first, with their outcomes."""
    with open_client(project) as client:
        page = client.list_automation_runs(automation, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    rows = [
        (each["firedAt"], OUTCOMES.get(each["outcome"], each["outcome"]), each["jobId"], each["trigger"].get("text"))
        for each in page["runs"]
    ]
    print_table(("started", "outcome", "job", "trigger"), rows, "No runs found.")
    if page["nextCursor"]:
        typer.echo(f"For more runs, add --cursor {page['nextCursor']}", err=True)


@app.command()
def delete(automation: AutomationArgument, project: ProjectOption) -> None:
    """Deletes an automation. The jobs and pull requests of its runs stay."""
    with open_client(project) as client:
        client.delete_automation(automation)
    typer.echo(f"Deleted {automation}.")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Automation files of a checkout.")],
    json: JsonOption = False,
) -> None:
    """Checks automation files without a server. Fails if one of them is not valid."""
    from copydesk.automations.files.local import check_files

    checked = check_files(files)
    problems = [problem for file in checked for problem in file.problems]
    if json:
        print_json({"files": [file.to_json() for file in checked]})
    else:
        for file in checked:
            for line in file.describe():
                typer.echo(make_printable(line))
    if problems:
        sys.exit(1)


def _find_files(client: "Client") -> "AutomationFiles | None":
    """Returns the automation files of the project, or None if the server is too old to read any."""
    from copydesk_client import ApiError

    try:
        return client.list_automation_files()
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _describe_file_problems(files: "AutomationFiles") -> list[str]:
    repository = [f"The automation files cannot be read: {files['problem']}"] if files["problem"] else []
    return repository + [
        f"{file['file']}:{problem['line'] or 1}: {problem['message']}"
        for file in files["files"]
        for problem in file["problems"]
    ]


def _build_trigger(text: str | None, cron: str | None, timezone: str) -> Any:
    if cron is not None:
        return {"type": "schedule", "cron": cron, "timezone": timezone}
    if text is None:
        return None
    return _parse_json(text) if text.startswith("{") else {"type": text}


def _parse_values(pairs: list[str]) -> dict[str, Any]:
    """Parses NAME=VALUE. Values are JSON where they look like it; other values are text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise InvalidRequest(f"'{pair[:80]}' is not NAME=VALUE.")
        if name in LIST_FIELDS and not value.startswith("["):
            values[name] = [part.strip() for part in value.split(",") if part.strip()]
        elif name in ("name", "prompt", "kind", "model", "mode", "grouping") and value != "null":
            values[name] = value
        else:
            values[name] = _parse_json(value)
    return values


def _parse_json(text: str) -> Any:
    try:
        return json_format.loads(text)
    except ValueError:
        return text


def _print_automation(automation: "Automation", json: bool) -> None:
    if json:
        print_json(automation)
        return
    notice, source = automation["notice"], automation.get("source")
    facts = {
        "automation": automation["id"],
        "name": automation["name"],
        "enabled": "yes" if automation["enabled"] else "no",
        "kind": automation["kind"],
        "trigger": _describe_trigger(automation),
        "mode": automation["mode"],
        "grouping": automation["grouping"],
        "prompt": automation["prompt"],
        "last run": _describe_run(automation),
        "next run": automation["nextRun"],
        "waits": notice["text"] if notice else None,
        "defined in": source["file"] if source else None,
        "paused": source["problem"] if source else None,
    }
    optional = ("waits", "defined in", "paused")
    print_facts({name: value for name, value in facts.items() if name not in optional or value})


def _describe_trigger(automation: "Automation") -> str:
    trigger = automation["trigger"]
    details = [trigger[name] for name in TRIGGER_FIELDS if trigger.get(name)]
    texts = [", ".join(detail) if isinstance(detail, list) else str(detail) for detail in details]
    return " ".join([str(trigger["type"]), *texts])


def _describe_run(automation: "Automation") -> str | None:
    run = automation["lastRun"]
    return f"{OUTCOMES.get(run['outcome'], run['outcome'])}, {run['firedAt']}" if run else None
