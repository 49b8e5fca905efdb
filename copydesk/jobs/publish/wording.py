"""The words of a commit and of a pull request: short, useful, and harmless whatever a model or a page put into them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from copydesk.core.policy import Policy
from copydesk.jobs.agent.conversation import Usage
from copydesk.jobs.job import Job
from copydesk.jobs.patch import FilePatch

MOST_FILES = 30
MOST_LINES = 20
LONGEST_QUOTE = 4000
# What would call people, close issues, load pictures or hide text on a forge.
LOUD = re.compile(
    r"(?P<call>(?<![\w/])@)(?=\w)"
    r"|(?P<issue>(?:(?<=\s)|(?<=^)|(?<=\())(?:[\w./-]+)?[#!])(?=\d)"
    r"|(?P<html><)(?=[A-Za-z!/?])"
    r"|(?P<image>!)(?=\[)"
    r"|(?P<command>^[ \t]*/)(?=[a-z])",
    re.M,
)
INVISIBLE = "\u200b"
# Only what any reader takes for code: where in doubt it is prose, in which every sign is made harmless.
CODE = re.compile(r"^(`{3,}|~{3,})[^`\n]*\n(?:.*\n)*?\1[ \t]*$|(?<![\\`])`[^`\n]+`(?!`)", re.M)


@dataclass(frozen=True)
class Told:
    """What there is to tell the reviewer of one run."""

    summary: str
    unsure: str = ""
    note: str | None = None
    """What became of a base that moved."""
    files: Sequence[FilePatch] = ()
    checks: Sequence[str] = ()
    """A sentence for each check that ran."""
    findings: Sequence[str] = ()
    """Faults that the change brings and the model did not mend."""
    outside: Sequence[str] = ()
    """Addresses outside the documentation that the change adds."""
    usage: Usage = field(default_factory=Usage)


def quiet(text: str) -> str:
    """The same text to a reader, without the power to call people, close issues or load anything on a forge."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LOUD.sub(_hushed, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join(parts) + LOUD.sub(_hushed, text[end:])


def _hushed(found: re.Match[str]) -> str:
    return "\\" + found[0] if found["html"] or found["image"] else found[0] + INVISIBLE


def one_line(text: str, longest: int = 200) -> str:
    """A title: whatever a model put into it, one line without control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split())[:longest].strip() or "Documentation"


def commit_message(job: Job, policy: Policy, title: str, summary: str) -> str:
    """Trailers come last, and from the policy alone: a summary cannot add any."""
    trailers = [f"Copydesk-Job: {job.id}", *(f"Co-authored-by: {person}" for person in policy.co_authors)]
    if policy.sign_off:
        trailers.append(f"Signed-off-by: {policy.author_name} <{policy.author_email}>")
    body = re.sub(r"^(?=[A-Za-z-]+-by:|Copydesk-Job:)", " ", summary.strip(), flags=re.M | re.I)
    return "\n\n".join(part for part in (one_line(title), body, "\n".join(trailers)) if part) + "\n"


def pull_text(job: Job, prompts: Sequence[str], told: Told, job_link: str) -> str:
    parts = [
        quiet(told.summary.strip()),
        f"**Note:** {told.note}" if told.note else "",
        _listed("**Not mended** (the checks below find these in the change):", told.findings),
        f"**Unsure:** {quiet(told.unsure.strip())}" if told.unsure.strip() else "",
        _listed("**Files**", [_file(patch) for patch in told.files], MOST_FILES),
        _listed("**Checked**", told.checks),
        _listed("**New addresses outside the documentation**", told.outside),
        "**Asked for**" if prompts else "",
        *(_quoted(prompt) for prompt in prompts),
        f"Made by {job.model} ({_cost(told.usage)}) in job [`{job.id}`]({job_link}).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _file(patch: FilePatch) -> str:
    before = f" from {_code(patch.previous)}" if patch.previous else ""
    return f"{_code(patch.path)} {patch.change}{before}, +{patch.additions} −{patch.deletions}"


def _listed(heading: str, items: Sequence[str], most: int = MOST_LINES) -> str:
    if not items:
        return ""
    lines = [f"- {item}" for item in items[:most]]
    if len(items) > most:
        lines.append(f"- … and {len(items) - most} more")
    return "\n".join([heading, "", *lines])


def _code(text: str) -> str:
    """As code, whatever ticks it holds."""
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{one_line(text, 300)}{pad}{ticks}"


def _cost(usage: Usage) -> str:
    tokens = usage.input_tokens + usage.output_tokens
    parts = [f"{usage.requests} request{'' if usage.requests == 1 else 's'}", f"{tokens:,} tokens" if tokens else ""]
    parts.append(f"${usage.cost_usd:.2f}" if usage.cost_usd else "")
    return ", ".join(part for part in parts if part)


def _quoted(text: str) -> str:
    cut = text[:LONGEST_QUOTE] + (" …" if len(text) > LONGEST_QUOTE else "")
    return "\n".join(f"> {line}" for line in quiet(cut).splitlines())
