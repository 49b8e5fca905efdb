"""Describes the events of a job in words, for progress displays."""

from copydesk_client.shapes import Event

PHASE_LABELS = {
    "queued": "waiting for a worker",
    "preparing": "preparing the repository",
    "thinking": "thinking",
    "checking": "checking",
    "publishing": "publishing",
}


def describe_event(event: Event) -> str:
    """Returns what happened. Further lines list details, such as the problems that a check found."""
    data = event["data"]
    match event["kind"]:
        case "queued" | "message":
            return f"“{data['prompt'].strip().splitlines()[0]}”"
        case "data":
            return f"collected for the agent: {data['text'].strip().splitlines()[0]}"
        case "phase":
            return str(PHASE_LABELS.get(data["phase"], data["phase"]))
        case "resumed":
            return f"resumed, attempt {data['attempt']}"
        case "thought":
            return str(data["text"])
        case "tool":
            return f"{'✓' if data['ok'] else '✗'} {data['tool']}: {data['result']}"
        case "checked" if data["passed"] and data.get("notJudged"):
            return f"✓ no problems found; not judged: {', '.join(data['notJudged'])}"
        case "checked" if data["passed"]:
            return "✓ no problems found"
        case "checked":
            return "\n".join([f"✗ {len(data['findings'])} not fixed:", *data["findings"]])
        case "waiting":
            return f"waiting {data['seconds']} s: {data['why']}"
        case "pushed":
            return f"pushed {data['commit'][:12]} to {data['branch']}"
        case "pull_request":
            return f"pull request {data['url']}"
        case "reviewers":
            names = ", ".join(data["requested"])
            return "\n".join([f"asked {names or 'no author'} to review", *data["notes"]])
        case "finished" if run := data.get("run"):
            label = "not understood" if run["reason"] == "not_understood" else "changed nothing"
            return f"{label}: {run['message']}"
        case "finished" if data.get("reason") == "not_understood":
            return f"not understood: {data['message']}"
        case "finished" if data.get("reason") == "question":
            return f"question: {data['message']}"
        case "finished":
            return f"{data['status']}" + (f": {data['message']}" if data.get("message") else "")
        case kind:
            return kind
