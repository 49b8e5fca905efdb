"""The commands `copydesk job create|watch|get|list|message|cancel|archive|unarchive|retry|diff`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.commands.jobs.assignments import parse_assignments
from copydesk.cli.commands.jobs.error_hints import explain_archived_job, explain_template_errors
from copydesk.cli.output import JsonOption, ProjectOption, open_client, print_facts, print_json, print_table
from copydesk.core.text.truncation import truncate

if TYPE_CHECKING:
    from copydesk_client import Client, Job

app = typer.Typer(
    rich_markup_mode=None,
    help="Creates, watches and manages jobs over the API. Reads COPYDESK_URL and COPYDESK_API_KEY.",
    no_args_is_help=True,
)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job ID.")]
PromptArgument = Annotated[str, typer.Argument(help="What the agent should do; - reads standard input.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Show the progress until the job ends.")]

MESSAGE_SENT = "Message sent. This is what happens from now on. To see the whole job, run: copydesk job watch {job}"


@app.command()
def create(
    project: ProjectOption,
    prompt: Annotated[
        str, typer.Argument(help="What the agent should do; - reads standard input. Leave out with --template.")
    ] = "",
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="Start from this prompt template.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="A value for a field of the template; can be repeated."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="The model to use.")] = None,
    ref: Annotated[str | None, typer.Option("--ref", metavar="BRANCH", help="The branch to start from.")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Open the pull request as a draft.")] = False,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TITLE", help="The title of the pull request.")
    ] = None,
    watch: WatchOption = False,
    json: JsonOption = False,
) -> None:
    """Creates a job, from a prompt or from a template."""
    if template is None and (not prompt or field):
        raise typer.BadParameter("Give a prompt, or --template." if not field else "--field needs --template.")
    if template is not None and prompt:
        raise typer.BadParameter("Give a prompt or --template, not both.")
    options = {"model": model, "ref": ref, "title": title}
    given_options = {name: value for name, value in options.items() if value is not None}
    with open_client(project) as client:
        if template is None:
            job = client.create_job(_read_prompt(prompt), draft=draft, **given_options)
        else:
            values = parse_assignments("--field", field or ())
            with explain_template_errors(client, template):
                job = client.create_job_from_template(template, values, draft=draft, **given_options)
        _watch_and_print(client, job, watch, json)


@app.command()
def watch(job: JobArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Shows a job's progress until it ends. The exit code is 1 if it fails or the prompt was not understood."""
    with open_client(project) as client:
        _watch_and_print(client, client.get_job(job), True, json)


@app.command()
def get(job: JobArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Shows the current state of a job."""
    with open_client(project) as client:
        _print_job(client.get_job(job), json)


@app.command("list")
def list_jobs(
    project: ProjectOption,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="active, completed, archived or failed.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="The number of jobs.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="The cursor of the next page.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Lists jobs, newest first."""
    with open_client(project) as client:
        page = client.list_jobs(status=status, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    rows = [
        (j["id"], j["status"], j["reason"], _describe_creator(j), j["prLink"], _shorten(j["title"] or j["prompt"]))
        for j in page["jobs"]
    ]
    print_table(("job", "status", "reason", "by", "pull request", "title"), rows, "No jobs found.")
    if page["nextCursor"]:
        typer.echo(f"For more jobs, add --cursor {page['nextCursor']}", err=True)


@app.command()
def message(
    job: JobArgument,
    prompt: PromptArgument,
    project: ProjectOption,
    watch: WatchOption = False,
    json: JsonOption = False,
) -> None:
    """Sends a follow-up to a job. With --watch, shows what happens from then on."""
    text = _read_prompt(prompt)
    with open_client(project) as client:
        with explain_archived_job(job):
            answer = client.message_job(job, text)
        after = 0
        if watch:
            from copydesk.cli.job_watcher import find_event_before_message

            after = find_event_before_message(client, job, text)
            if not json:
                typer.echo(MESSAGE_SENT.format(job=job), err=True)
        _watch_and_print(client, answer, watch, json, after=after)


@app.command()
def cancel(job: JobArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Stops an active job."""
    with open_client(project) as client:
        _print_job(client.cancel_job(job), json)


@app.command()
def archive(job: JobArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Archives a job. If the job is active, this also cancels it."""
    with open_client(project) as client:
        _print_job(client.archive_job(job), json)


@app.command()
def unarchive(job: JobArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Restores the previous status of an archived job."""
    with open_client(project) as client:
        _print_job(client.unarchive_job(job), json)


@app.command()
def retry(job: JobArgument, project: ProjectOption, watch: WatchOption = False, json: JsonOption = False) -> None:
    """Creates a new job with the prompt and options of one that has ended."""
    with open_client(project) as client:
        _watch_and_print(client, client.retry_job(job), watch, json)


@app.command()
def diff(job: JobArgument, project: ProjectOption) -> None:
    """Prints the job's changes so far as a unified diff."""
    with open_client(project) as client:
        sys.stdout.buffer.write(client.diff(job))


def _watch_and_print(client: "Client", job: "Job", watch: bool, json: bool, *, after: int = 0) -> None:
    """Prints a job; with `watch`, first its events that follow `after`, the number of an event."""
    if not watch:
        _print_job(job, json)
        return
    from copydesk.cli.job_watcher import watch_job

    job, new_summary, reason = watch_job(client, job["id"], after=after, quiet=json)
    _print_job(job, json, summary=new_summary)
    if job["status"] == "failed" or reason in ("not_understood", "question"):
        raise typer.Exit(1)


def _print_job(job: "Job", json: bool, *, summary: str | None = None) -> None:
    """Prints a job. `summary` is what the events of a watched job did not show of its summary.

    The message is left out then, because the last event showed it.
    """
    if json:
        print_json(job)
        return
    question = job["question"]
    is_watched = summary is not None
    has_own_message = job["message"] != job["summary"] and not question and not is_watched
    facts = {
        "job": job["id"],
        "status": job["status"] + (f" ({job['reason']})" if job["reason"] else ""),
        "title": job["title"],
        "started by": _describe_creator(job),
        "pull request": job["prLink"],
        "review first": "\n".join(f"{each['kind'].replace('_', ' ')}: {each['text']}" for each in job["risk"]),
        "summary": summary if is_watched else job["summary"],
        "message": job["message"] if has_own_message else None,
        "question": question["text"] if question else None,
        "choices": " · ".join(question["choices"]) if question else None,
        "answer": f"copydesk job message {job['id']} …" if question else None,
        "files": ", ".join(f"{f['path']} (+{f['additions']} −{f['deletions']})" for f in job["filesChanged"]),
    }
    print_facts({name: value for name, value in facts.items() if value})


def _describe_creator(job: "Job") -> str:
    """Returns the kind and name of who asked for the job; empty if nobody was named."""
    creator = job["createdBy"]
    return f"{creator['kind'].replace('_', ' ')} {creator['name']}" if creator else ""


def _read_prompt(argument: str) -> str:
    return sys.stdin.read() if argument == "-" else argument


def _shorten(text: str) -> str:
    return truncate(text.strip().splitlines()[0], 60)
