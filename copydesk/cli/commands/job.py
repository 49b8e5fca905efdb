"""copydesk job create|watch|get|list|message|cancel|archive|unarchive|diff"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import JsonOption, open_client, print_facts, print_json, print_table

if TYPE_CHECKING:
    from copydesk.client import Client, Job

app = typer.Typer(
    rich_markup_mode=None,
    help="Jobs, over the API: reads COPYDESK_URL, COPYDESK_API_KEY and COPYDESK_PROJECT.",
    no_args_is_help=True,
)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
PromptArgument = Annotated[str, typer.Argument(help="What the agent should do; - reads it from standard input.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Stay and show what happens.")]


@app.command()
def create(
    prompt: PromptArgument,
    model: Annotated[str | None, typer.Option("--model", help="The model to use.")] = None,
    ref: Annotated[str | None, typer.Option("--ref", help="The branch to start from.")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Open the pull request as a draft.")] = False,
    title: Annotated[str | None, typer.Option("--title", help="The pull request's title.")] = None,
    watch: WatchOption = False,
    json: JsonOption = False,
) -> None:
    """Creates a job."""
    options = {"model": model, "ref": ref, "title": title}
    given_options = {name: value for name, value in options.items() if value is not None}
    with open_client() as client:
        job = client.create_job(_read_prompt(prompt), draft=draft, **given_options)
        _watch_and_print(client, job, watch, json)


@app.command()
def watch(job: JobArgument, json: JsonOption = False) -> None:
    """Shows a job's progress until it ends; exit code 1 when it fails."""
    with open_client() as client:
        _watch_and_print(client, client.get_job(job), True, json)


@app.command()
def get(job: JobArgument, json: JsonOption = False) -> None:
    """Shows a job as it is now."""
    with open_client() as client:
        _print_job(client.get_job(job), json)


@app.command("list")
def list_jobs(
    status: Annotated[str | None, typer.Option("--status", help="active, completed, archived or failed.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Where the next page begins.")] = None,
    json: JsonOption = False,
) -> None:
    """Lists jobs, newest first."""
    with open_client() as client:
        page = client.list_jobs(status=status, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    rows = [(j["id"], j["status"], j["reason"], j["prLink"], _shorten(j["title"] or j["prompt"])) for j in page["jobs"]]
    print_table(("job", "status", "reason", "pull request", "what"), rows, "There are no jobs.")
    if page["nextCursor"]:
        typer.echo(f"More with --cursor {page['nextCursor']}", err=True)


@app.command()
def message(job: JobArgument, prompt: PromptArgument, watch: WatchOption = False, json: JsonOption = False) -> None:
    """Sends a follow-up to a job."""
    with open_client() as client:
        _watch_and_print(client, client.message_job(job, _read_prompt(prompt)), watch, json)


@app.command()
def cancel(job: JobArgument, json: JsonOption = False) -> None:
    """Stops an active job."""
    with open_client() as client:
        _print_job(client.cancel_job(job), json)


@app.command()
def archive(job: JobArgument, json: JsonOption = False) -> None:
    """Archives a job; an active one is cancelled."""
    with open_client() as client:
        _print_job(client.archive_job(job), json)


@app.command()
def unarchive(job: JobArgument, json: JsonOption = False) -> None:
    """Gives an archived job its status back."""
    with open_client() as client:
        _print_job(client.unarchive_job(job), json)


@app.command()
def diff(job: JobArgument) -> None:
    """Prints what the job changed so far, as a unified diff."""
    with open_client() as client:
        sys.stdout.buffer.write(client.diff(job))


def _watch_and_print(client: "Client", job: "Job", watch: bool, json: bool) -> None:
    if watch:
        from copydesk.cli.job_watcher import watch_job

        job = watch_job(client, job["id"], quiet=json)
    _print_job(job, json)
    if watch and job["status"] == "failed":
        raise typer.Exit(1)


def _print_job(job: "Job", json: bool) -> None:
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


def _read_prompt(argument: str) -> str:
    return sys.stdin.read() if argument == "-" else argument


def _shorten(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line if len(line) <= 60 else line[:59] + "…"
