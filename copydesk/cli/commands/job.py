"""copydesk job create|watch|get|list|message|cancel|archive|unarchive|diff"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import AsJson, open_client, print_facts, print_json, print_table

if TYPE_CHECKING:
    from copydesk.client import Client, Job

app = typer.Typer(
    rich_markup_mode=None,
    help="Jobs, over the API: reads COPYDESK_URL, COPYDESK_API_KEY and COPYDESK_PROJECT.",
    no_args_is_help=True,
)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Prompt = Annotated[str, typer.Argument(help="What the agent should do; - reads it from standard input.")]
Watch = Annotated[bool, typer.Option("--watch", help="Stay and show what happens.")]


@app.command()
def create(
    prompt: Prompt,
    model: Annotated[str | None, typer.Option("--model", help="The model to use.")] = None,
    ref: Annotated[str | None, typer.Option("--ref", help="The branch to start from.")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Open the pull request as a draft.")] = False,
    title: Annotated[str | None, typer.Option("--title", help="The pull request's title.")] = None,
    watch: Watch = False,
    json: AsJson = False,
) -> None:
    """Creates a job."""
    options = {"model": model, "ref": ref, "title": title}
    given = {name: value for name, value in options.items() if value is not None}
    with open_client() as client:
        job = client.create_job(_prompt(prompt), draft=draft, **given)
        _show(client, job, watch, json)


@app.command()
def watch(job: JobId, json: AsJson = False) -> None:
    """Shows a job's progress until it ends; exit code 1 when it fails."""
    with open_client() as client:
        _show(client, client.get_job(job), True, json)


@app.command()
def get(job: JobId, json: AsJson = False) -> None:
    """Shows a job as it is now."""
    with open_client() as client:
        _print(client.get_job(job), json)


@app.command("list")
def list_jobs(
    status: Annotated[str | None, typer.Option("--status", help="active, completed, archived or failed.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Where the next page begins.")] = None,
    json: AsJson = False,
) -> None:
    """Lists jobs, newest first."""
    with open_client() as client:
        page = client.list_jobs(status=status, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    rows = [(j["id"], j["status"], j["reason"], j["prLink"], _short(j["title"] or j["prompt"])) for j in page["jobs"]]
    print_table(("job", "status", "reason", "pull request", "what"), rows, "There are no jobs.")
    if page["nextCursor"]:
        typer.echo(f"More with --cursor {page['nextCursor']}", err=True)


@app.command()
def message(job: JobId, prompt: Prompt, watch: Watch = False, json: AsJson = False) -> None:
    """Sends a follow-up to a job."""
    with open_client() as client:
        _show(client, client.message_job(job, _prompt(prompt)), watch, json)


@app.command()
def cancel(job: JobId, json: AsJson = False) -> None:
    """Stops an active job."""
    with open_client() as client:
        _print(client.cancel_job(job), json)


@app.command()
def archive(job: JobId, json: AsJson = False) -> None:
    """Archives a job; an active one is cancelled."""
    with open_client() as client:
        _print(client.archive_job(job), json)


@app.command()
def unarchive(job: JobId, json: AsJson = False) -> None:
    """Gives an archived job its status back."""
    with open_client() as client:
        _print(client.unarchive_job(job), json)


@app.command()
def diff(job: JobId) -> None:
    """Prints what the job changed so far, as a unified diff."""
    with open_client() as client:
        sys.stdout.buffer.write(client.diff(job))


def _show(client: "Client", job: "Job", watch: bool, json: bool) -> None:
    if watch:
        from copydesk.cli.job_watcher import follow

        job = follow(client, job["id"], quiet=json)
    _print(job, json)
    if watch and job["status"] == "failed":
        raise typer.Exit(1)


def _print(job: "Job", json: bool) -> None:
    if json:
        print_json(job)
        return
    facts = {
        "job": job["id"],
        "status": job["status"] + (f" ({job['reason']})" if job["reason"] else ""),
        "title": job["title"],
        "pull request": job["prLink"],
        "summary": job["summary"],
        "message": job["message"] if job["message"] != job["summary"] else None,
        "files": ", ".join(f"{f['path']} (+{f['additions']} −{f['deletions']})" for f in job["filesChanged"]),
    }
    print_facts({name: value for name, value in facts.items() if value})


def _prompt(given: str) -> str:
    return sys.stdin.read() if given == "-" else given


def _short(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line if len(line) <= 60 else line[:59] + "…"
