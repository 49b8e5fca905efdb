"""The description of a pull request: what a reviewer should know of the change, and how it came about."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from copydesk.core.clock import format_iso
from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import truncate
from copydesk.jobs.agent.evidence import Evidence
from copydesk.jobs.job import Job, JobSecondLook, Usage
from copydesk.jobs.pages.redirects import AddressChange
from copydesk.jobs.publish.messages import neutralize_markup, to_one_line
from copydesk.jobs.risk import Risk
from copydesk.jobs.storage.message_origins import OriginCommit
from copydesk.jobs.workspace.patches import FilePatch

MAX_FILES_LISTED = 30
MAX_ITEMS_LISTED = 20
MAX_ITEM_CHARS = 4000
MAX_ADDRESSES_CHARS = 20_000
MAX_ADDRESS_CHARS = 400
MAX_QUOTE_CHARS = 4000
MAX_ROUNDS_LISTED = 20
MAX_EVIDENCE_LISTED = 30
MAX_STATEMENT_CHARS = 500
MAX_ROUND_CHARS = 700
MAX_ORIGINS_LISTED = 3
MAX_ORIGIN_CHARS = 300
MAX_COMMIT_TITLE_CHARS = 100
MAX_ROUND_QUOTE_CHARS = 300
MAX_NEWEST_ROUND_CHARS = 6000


class RunOrigin(BaseModel):
    """What started a run of an automation."""

    automation: str
    text: str
    """A sentence, such as "1 new commit in code."."""
    commits: list[OriginCommit] = []
    has_more_commits: bool = False


class Round(BaseModel):
    """One run of the job, as the pull request tells of it. The journal stores it for the descriptions of later runs."""

    summary: str
    prompts: list[str] = []
    base_note: str | None = None
    """How the change was applied when the base branch moved during the run; None when it did not move."""
    requested_at: int
    """When the run was requested, in milliseconds."""
    closed_issues: list[str] = []
    """The issues that people want to close with the job's prompts."""
    origins: list[RunOrigin] = []
    """What started the run, if an automation did: one for each trigger."""


@dataclass(frozen=True)
class PullRequestReport:
    """Information about the whole change for the reviewer of its pull request."""

    rounds: Sequence[Round]
    """The runs that the pull request consists of, oldest first."""
    risks: Sequence[Risk] = ()
    """What the reviewer must look at, the gravest first."""
    files: Sequence[FilePatch] = ()
    evidence: Sequence[Evidence] = ()
    """The places that the model cites for its statements."""
    fixed: Sequence[str] = ()
    """Problems that existed before and that the change fixes."""
    new_addresses: Sequence[AddressChange] = ()
    """Pages that the change adds, or shows at another address."""
    reformatted: Sequence[str] = ()
    """One line for each file with lines that change only in form, with the model's reason."""
    external_urls: Sequence[str] = ()
    """External URLs that the change adds; those that browsers load without a click come first."""
    checks: Sequence[str] = ()
    """One sentence per check that ran."""
    command_output: str = ""
    """What the check command wrote, if the change makes it fail."""
    second_look: JobSecondLook | None = None
    """What the review model objected to; None if it was not asked."""
    instruction_files: Sequence[str] = ()
    """The files of the repository with instructions that the model read."""
    usage: Usage = field(default_factory=Usage)


def render_pull_body(job: Job, report: PullRequestReport, job_url: str) -> str:
    """Returns the description in Markdown: what the reviewer needs, and how the change came about as one folded line.

    `job_url` is the job's page on the dashboard."""
    parts = [
        _render_risks(report.risks),
        _render_summary(report.rounds[0]) if len(report.rounds) == 1 else _render_rounds(report.rounds, job_url),
        _render_start(report.rounds[0].origins) if len(report.rounds) == 1 else "",
        _render_list("**Files**", [_describe_file(patch) for patch in report.files], MAX_FILES_LISTED),
        _render_evidence(report.evidence),
        _render_list("**Fixed** (problems that existed before this change):", report.fixed),
        _render_list("**New addresses**", [_describe_address(each) for each in report.new_addresses], MAX_FILES_LISTED),
        _render_list("**Reformatted** (lines that change only in form):", report.reformatted),
        _render_urls(report.external_urls, job_url),
        _render_origin(job, report, job_url),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def remove_risks(body: str, risks: Sequence[Risk]) -> str:
    """Returns a description without the risks that it begins with, for a page that shows them itself."""
    return body.removeprefix(f"{_render_risks(risks)}\n\n") if risks else body


def _render_risks(risks: Sequence[Risk]) -> str:
    """Returns a line for each risk. They are neutralized as one text, because code of a model may span its points."""
    if not risks:
        return ""
    text = neutralize_markup("\n".join(f"**{risk.kind.label}:** {risk.text}" for risk in risks))
    return "\n".join(["**Review first**", "", *(f"- {line}" for line in text.split("\n"))])


def _render_origin(job: Job, report: PullRequestReport, job_url: str) -> str:
    """Returns how the change came about: the requests, the checks, the instructions and the usage, folded."""
    parts = [
        *_render_requests(report.rounds),
        _render_list("**Checks**", report.checks),
        _render_list("**Output of the check command**", [report.command_output] if report.command_output else []),
        _render_second_look(report.second_look) if report.second_look else "",
        f"**Instructions read:** {', '.join(map(_format_code, report.instruction_files))}"
        if report.instruction_files
        else "",
        f"Created by {job.model} ({_format_usage(report.usage)}) in job [`{job.id}`]({job_url}).",
    ]
    content = "\n\n".join(part for part in parts if part)
    return f"<details><summary>How this change came about</summary>\n\n{content}\n\n</details>"


def _render_evidence(evidence: Sequence[Evidence]) -> str:
    """Returns the citations, those that could not be verified first. Links are Copydesk's own, so they may stay."""
    ordered = sorted(evidence, key=lambda each: each.verified)
    lines = [f"- {_describe_evidence(each)}" for each in ordered[:MAX_EVIDENCE_LISTED]]
    if len(ordered) > MAX_EVIDENCE_LISTED:
        lines.append(f"- … and {len(ordered) - MAX_EVIDENCE_LISTED} more")
    title = "**Evidence** (where the sources say so; Copydesk looked up each place):"
    return "\n".join([title, "", *lines]) if lines else ""


def _describe_evidence(evidence: Evidence) -> str:
    source = evidence.source
    name = _format_code(source.place)
    cited = f"[{name}]({source.url})" if source.url else f"{name} at {_format_code(source.commit[:12])}"
    statement = neutralize_markup(to_one_line(evidence.statement, MAX_STATEMENT_CHARS))
    page = _format_code(f"{evidence.path}:{evidence.line}")
    quote = f": {_format_code(evidence.quote)}" if evidence.quote.strip() else ""
    if evidence.verified:
        return f"{page} {statement} ({cited}{quote})"
    problem = neutralize_markup(to_one_line(evidence.problem or "", MAX_STATEMENT_CHARS))
    return f"**Not verified:** {page} {statement} ({problem}; {name}{quote})"


def _render_rounds(rounds: Sequence[Round], job_url: str) -> str:
    """Returns all rounds, newest last. Shortens every round, and earlier ones more; leaves out those in the middle."""
    first = max(1, len(rounds) - MAX_ROUNDS_LISTED + 1)
    parts = [_render_round(1, rounds[0], MAX_ROUND_CHARS)]
    if first > 1:
        parts.append(f"… {first - 1} more rounds, which [the job]({job_url}) shows …")
    for number, each in enumerate(rounds[first:], first + 1):
        parts.append(_render_round(number, each, MAX_NEWEST_ROUND_CHARS if number == len(rounds) else MAX_ROUND_CHARS))
    return "\n\n".join(parts)


def _render_round(number: int, each: Round, max_chars: int) -> str:
    shortened = each.model_copy(update={"summary": truncate(each.summary.strip(), max_chars)})
    parts = (f"**Round {number}**", format_day(each.requested_at), render_origins(each.origins))
    heading = " · ".join(part for part in parts if part)
    return "\n\n".join(part for part in (heading, _render_summary(shortened)) if part)


def format_day(at: int) -> str:
    """Returns the day of a time in UTC, such as `2026-11-16`."""
    return format_iso(at)[:10]


def render_origins(origins: Sequence[RunOrigin]) -> str:
    """Returns what started a run in one line. Names of tags and titles of commits may be markup; the links are ours."""
    lines = [_describe_run_origin(origin) for origin in origins[:MAX_ORIGINS_LISTED]]
    return " ".join([*lines, "…"] if len(origins) > MAX_ORIGINS_LISTED else lines)


def _describe_run_origin(origin: RunOrigin) -> str:
    text = neutralize_markup(to_one_line(origin.text, MAX_ORIGIN_CHARS))
    commits = [
        f"{f'[{commit.id[:7]}]({commit.url})' if commit.url else commit.id[:7]} "
        + neutralize_markup(to_one_line(commit.title, MAX_COMMIT_TITLE_CHARS))
        for commit in origin.commits
    ]
    listed = "; ".join([*commits, "…"] if origin.has_more_commits else commits)
    return f"{text.removesuffix('.')}: {listed}" if commits else text


def _render_start(origins: Sequence[RunOrigin]) -> str:
    """Returns which automation started a run, and why; empty for a run that a person requested."""
    if not origins:
        return ""
    name = neutralize_markup(to_one_line(origins[-1].automation, MAX_COMMIT_TITLE_CHARS))
    return f"Started by the automation “{name}”. {render_origins(origins)}"


def _render_summary(each: Round) -> str:
    note = f"**Note:** {each.base_note}" if each.base_note else ""
    summary = neutralize_markup(each.summary.strip(), each.closed_issues)
    return "\n\n".join(part for part in (summary, note) if part)


def _render_requests(rounds: Sequence[Round]) -> list[str]:
    """Returns what was asked for in each round. Shortens those of several rounds; leaves out those in the middle."""
    if len(rounds) == 1:
        return [_render_request("Request", rounds[0], MAX_QUOTE_CHARS)]
    first = max(1, len(rounds) - MAX_ROUNDS_LISTED + 1)
    numbered = list(enumerate(rounds, 1))
    return [
        _render_request(f"Request of round {number}", each, MAX_ROUND_QUOTE_CHARS)
        for number, each in (numbered[0], *numbered[first:])
    ]


def _render_request(title: str, each: Round, max_chars: int) -> str:
    quotes = [_quote_prompt(prompt, max_chars, each.closed_issues) for prompt in each.prompts]
    return "\n\n".join([f"**{title}**", *quotes]) if quotes else ""


def _render_second_look(look: JobSecondLook) -> str:
    return f"**Second look** by {_format_code(look.model)}: {neutralize_markup(look.outcome)}"


def _describe_file(patch: FilePatch) -> str:
    renamed_from = f" from {_format_code(patch.previous)}" if patch.previous else ""
    return f"{_format_code(patch.path)} {patch.change}{renamed_from}, +{patch.additions} −{patch.deletions}"


def _describe_address(change: AddressChange) -> str:
    if change.old is None:
        return f"{_format_code(change.new)}, a new page"
    return f"{_format_code(change.old)} → {_format_code(change.new)}"


def _render_list(title: str, items: Sequence[str], max_items: int = MAX_ITEMS_LISTED) -> str:
    if not items:
        return ""
    lines = [f"- {neutralize_markup(truncate(item, MAX_ITEM_CHARS))}" for item in items[:max_items]]
    if len(items) > max_items:
        lines.append(f"- … and {len(items) - max_items} more")
    return "\n".join([title, "", *lines])


def _render_urls(urls: Sequence[str], job_url: str) -> str:
    """Returns the list of URLs, collapsed when it is long.

    A list that exceeds the size limit is cut and says how many URLs are missing and where to find them.
    """
    title = "**New external URLs**"
    shortened = [address if len(address) <= MAX_ADDRESS_CHARS else _cut_middle(address) for address in urls]
    if len(urls) <= MAX_ITEMS_LISTED:
        return _render_list(title, shortened)
    lines: list[str] = []
    size = 0
    for address in shortened:
        line = f"- {neutralize_markup(address)}"
        size += len(line) + 1
        if size > MAX_ADDRESSES_CHARS:
            break
        lines.append(line)
    cut_count = len(urls) - len(lines)
    cut_note = f"\n\n{cut_count} more are not shown. See the diff of [this job]({job_url})." if cut_count else ""
    listing = "\n".join(lines)
    summary = f"<summary>{len(urls)} URLs, starting with those that browsers load without a click</summary>"
    return f"{title}\n\n<details>{summary}\n\n{listing}\n\n</details>{cut_note}"


def _cut_middle(text: str) -> str:
    return f"{text[: MAX_ADDRESS_CHARS // 2]} … {text[-MAX_ADDRESS_CHARS // 2 :]}"


def _format_code(text: str) -> str:
    """Returns the text as a code span, delimited by more backticks than it contains."""
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{to_one_line(text, 300)}{pad}{ticks}"


def _format_usage(usage: Usage) -> str:
    tokens = usage.input_tokens + usage.output_tokens
    parts = [pluralize(usage.requests, "request"), f"{tokens:,} tokens" if tokens else ""]
    parts.append(f"${usage.cost_usd:.2f}" if usage.cost_usd else "")
    return ", ".join(part for part in parts if part)


def _quote_prompt(text: str, max_chars: int, closed_issues: Collection[str]) -> str:
    shortened = text[:max_chars] + (" …" if len(text) > max_chars else "")
    return "\n".join(f"> {line}" for line in neutralize_markup(shortened, closed_issues).splitlines())
