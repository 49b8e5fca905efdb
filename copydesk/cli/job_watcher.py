"""Prints a job's progress: live in a terminal, plain lines when piped."""

import typer

from copydesk.cli.output import find_terminal, make_printable
from copydesk.client import Client, Event, Job

PHASE_LABELS = {
    "queued": "waiting for a worker",
    "preparing": "preparing the repository",
    "thinking": "thinking",
    "checking": "checking",
    "publishing": "publishing",
}


def watch_job(client: Client, job_id: str, quiet: bool = False) -> Job:
    """Prints each event until the job ends. Returns the job in its final state."""
    console = None if quiet else find_terminal()
    if console:
        with console.status("watching …") as status:
            for event in client.watch(job_id):
                if event["kind"] in ("phase", "resumed"):
                    status.update(f"{PHASE_LABELS.get(event['data']['phase'], event['data']['phase'])} …")
                console.print(make_printable(format_event(event)), markup=False, soft_wrap=True)
    else:
        for event in client.watch(job_id):
            if not quiet:
                typer.echo(make_printable(format_event(event)))
    return client.get_job(job_id)


def format_event(event: Event) -> str:
    at = event["data"].get("at", "")[11:19]
    data = event["data"]
    match event["kind"]:
        case "queued" | "message":
            text = f"“{data['prompt'].strip().splitlines()[0]}”"
        case "phase":
            text = PHASE_LABELS.get(data["phase"], data["phase"])
        case "resumed":
            text = f"resumed, attempt {data['attempt']}"
        case "thought":
            text = data["text"]
        case "tool":
            text = f"{'✓' if data['ok'] else '✗'} {data['tool']}: {data['result']}"
        case "checked" if data["passed"] and data.get("notJudged"):
            text = f"✓ no problems found; not judged: {', '.join(data['notJudged'])}"
        case "checked" if data["passed"]:
            text = "✓ checks passed"
        case "checked":
            text = "\n          ".join([f"✗ {len(data['faults'])} not fixed:", *data["faults"]])
        case "waiting":
            text = f"waiting {data['seconds']} s: {data['why']}"
        case "pushed":
            text = f"pushed {data['commit'][:12]} to {data['branch']}"
        case "pull_request":
            text = f"pull request {data['url']}"
        case "reviewers":
            asked = (
                f"asked {', '.join(data['requested'])} to review" if data["requested"] else "asked no author to review"
            )
            text = "\n          ".join([asked, *data["notes"]])
        case "finished" if data.get("reason") == "not_understood":
            text = f"not understood: {data['message']}"
        case "finished" if data.get("reason") == "question":
            text = f"question: {data['message']}"
        case "finished":
            text = f"{data['status']}" + (f": {data['message']}" if data.get("message") else "")
        case kind:
            text = kind
    return f"{at}  {text}"
