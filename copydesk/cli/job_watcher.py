"""A job's progress: live in a terminal, plain lines when piped."""

import typer

from copydesk.cli.output import find_terminal, plain
from copydesk.client import Client, Event, Job

PHASES = {
    "queued": "waiting for a worker",
    "preparing": "preparing the repository",
    "thinking": "thinking",
    "checking": "checking",
    "publishing": "publishing",
}


def follow(client: Client, job_id: str, quiet: bool = False) -> Job:
    """Shows each event until the job ends, then gives the job."""
    console = None if quiet else find_terminal()
    if console:
        with console.status("watching …") as status:
            for event in client.watch(job_id):
                if event["kind"] in ("phase", "resumed"):
                    status.update(f"{PHASES.get(event['data']['phase'], event['data']['phase'])} …")
                console.print(plain(line_of(event)), markup=False, soft_wrap=True)
    else:
        for event in client.watch(job_id):
            if not quiet:
                typer.echo(plain(line_of(event)))
    return client.get_job(job_id)


def line_of(event: Event) -> str:
    at, data = event["data"].get("at", "")[11:19], event["data"]
    match event["kind"]:
        case "queued" | "message":
            said = f"“{data['prompt'].strip().splitlines()[0]}”"
        case "phase":
            said = PHASES.get(data["phase"], data["phase"])
        case "resumed":
            said = f"taken up again, attempt {data['attempt']}"
        case "thought":
            said = data["text"]
        case "tool":
            said = f"{'✓' if data['ok'] else '✗'} {data['tool']}: {data['result']}"
        case "checked" if data["passed"]:
            said = "✓ the checks found nothing wrong with the change"
        case "checked":
            said = "\n          ".join([f"✗ {len(data['faults'])} not mended:", *data["faults"]])
        case "waiting":
            said = f"waiting {data['seconds']} s: {data['why']}"
        case "pushed":
            said = f"pushed {data['commit'][:12]} to {data['branch']}"
        case "pull_request":
            said = f"pull request {data['url']}"
        case "finished":
            said = f"{data['status']}" + (f": {data['message']}" if data.get("message") else "")
        case other:
            said = other
    return f"{at}  {said}"
