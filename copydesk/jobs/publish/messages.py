"""The words of a commit and of a pull request: short, useful, and harmless whatever a model or a page put into them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Job, Usage
from copydesk.jobs.publish.guard.executed_files import Executed
from copydesk.jobs.publish.guard.hidden_characters import shown
from copydesk.jobs.workspace.patches import FilePatch

MOST_FILES = 30
MOST_LINES = 20
MOST_EXECUTED = 100
MAX_ADDRESSES_CHARS = 20_000
MAX_ADDRESS_CHARS = 400
LONGEST_QUOTE = 4000
# What would call people, refer to issues, load pictures, hide text or give orders on a forge. A backslash before any of
# it would do too, were there not texts that have one there already.
LOUD = re.compile(
    r"(?<![A-Za-z0-9])@(?=\w)"
    r"|[#!](?=\d)(?<!/[#!])"
    r"|\bGH-(?=\d)"
    r"|<(?=[A-Za-z!/?])"
    r"|&(?=#?\w+;)"
    r"|!(?=\[)"
    r"|[`~](?=[`~]{2})"
    r"|^[ \t]*/(?=[a-z])",
    re.M | re.I,
)
CLOSING = re.compile(
    r"\b(clos|fix|resolv|implement|reopen)(?=(?:e|es|ed|s|d|ing)?\b[\s:]*(?:issues?\s+)?(?:https?:|[A-Z][A-Z0-9_]+-\d))",
    re.I,
)
"""Of an issue that is named by its address, or in a tracker beside the forge."""
INVISIBLE = "\u200b"
EXECUTED = (
    "**⚠️ Review these files first.** A build, a host or readers' browsers execute them, "
    "so they can do more than the pages show:"
)
FENCE = re.compile(r"^(`{3,}|~{3,})[^`~\n]*$", re.M)
SPAN = re.compile(r"`[^`\n]+`")


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
    executed: Sequence[Executed] = ()
    """Changed files that a build, a host or a browser executes."""
    outside: Sequence[str] = ()
    """Addresses outside the documentation that the change adds, first those that readers load without a click."""
    usage: Usage = field(default_factory=Usage)


def quiet(text: str) -> str:
    """The same text to a reader, without the power to call people, close issues, load or hide anything on a forge.

    Code is left alone only where any reader finds it in the same places: where in doubt it is prose.
    """
    text, parts, end = shown(text), [], 0
    for start, stop in _blocks(text):
        parts += [_quiet_prose(text[end:start]), text[start:stop]]
        end = stop
    return "".join(parts) + _quiet_prose(text[end:])


def _blocks(text: str) -> list[tuple[int, int]]:
    """Blocks of code; none where a fence is not at the start of its line, or not closed by its like."""
    fences = list(FENCE.finditer(text))
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    all_plain = len(fences) == len(re.findall(r"`{3,}|~{3,}", text)) == 2 * len(pairs)
    if not all_plain or any(one[1] != other[0].rstrip() for one, other in pairs):
        return []
    return [(one.start(), other.end()) for one, other in pairs]


def _quiet_prose(text: str) -> str:
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    return "".join(_hushed(part) if _is_doubtful(part) else _around_code(part) for part in paragraphs)


def _is_doubtful(paragraph: str) -> bool:
    """Ticks that escape, pair up over lines or come doubled, and cells, which end a piece of code."""
    odd = any(line.count("`") % 2 for line in paragraph.splitlines())
    return odd or re.search(r"``|\\`|\|", paragraph) is not None


def _around_code(paragraph: str) -> str:
    parts, end = [], 0
    for code in SPAN.finditer(paragraph):
        parts += [_hushed(paragraph[end : code.start()]), code[0]]
        end = code.end()
    return "".join(parts) + _hushed(paragraph[end:])


def _hushed(text: str) -> str:
    return CLOSING.sub(rf"\1{INVISIBLE}", LOUD.sub(lambda found: found[0] + INVISIBLE, text))


def one_line(text: str, longest: int = 200) -> str:
    """A title: whatever a model put into it, one line without control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split())[:longest].strip() or "Documentation"


def heading(text: str) -> str:
    """The title of a pull request, which a forge may make the title of a commit."""
    return _hushed(one_line(text))


def commit_message(job: Job, policy: Policy, title: str, summary: str) -> str:
    """Trailers come last, and from the policy alone: a summary cannot add any."""
    trailers = [f"Copydesk-Job: {job.id}", *(f"Co-authored-by: {person}" for person in policy.co_authors)]
    if policy.sign_off:
        trailers.append(f"Signed-off-by: {policy.author_name} <{policy.author_email}>")
    body = re.sub(r"^(?=[A-Za-z-]+-by:|Copydesk-Job:)", " ", _hushed(shown(summary.strip())), flags=re.M | re.I)
    return "\n\n".join(part for part in (heading(title), body, "\n".join(trailers)) if part) + "\n"


def pull_text(job: Job, prompts: Sequence[str], told: Told, job_link: str) -> str:
    parts = [
        _listed(EXECUTED, [f"{_code(one.path)}: {one.why}" for one in told.executed], MOST_EXECUTED),
        quiet(told.summary.strip()),
        f"**Note:** {told.note}" if told.note else "",
        _listed("**Not mended** (the checks below find these in the change):", told.findings),
        f"**Unsure:** {quiet(told.unsure.strip())}" if told.unsure.strip() else "",
        _listed("**Files**", [_file(patch) for patch in told.files], MOST_FILES),
        _listed("**Checked**", told.checks),
        _list_addresses(told.outside, job_link),
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
    lines = [f"- {quiet(item)}" for item in items[:most]]
    if len(items) > most:
        lines.append(f"- … and {len(items) - most} more")
    return "\n".join([heading, "", *lines])


def _list_addresses(addresses: Sequence[str], job_link: str) -> str:
    """Returns all addresses, folded when they are many; says how many were cut, and where they can be seen."""
    title = "**New addresses outside the documentation**"
    short = [address if len(address) <= MAX_ADDRESS_CHARS else _cut_middle(address) for address in addresses]
    if len(addresses) <= MOST_LINES:
        return _listed(title, short)
    lines: list[str] = []
    size = 0
    for address in short:
        line = f"- {quiet(address)}"
        size += len(line) + 1
        if size > MAX_ADDRESSES_CHARS:
            break
        lines.append(line)
    cut = len(addresses) - len(lines)
    rest = f"\n\n{cut} more did not fit here: see the diff of [this job]({job_link})." if cut else ""
    listed = "\n".join(lines)
    summary = f"<summary>{len(addresses)} addresses, those that readers load first</summary>"
    return f"{title}\n\n<details>{summary}\n\n{listed}\n\n</details>{rest}"


def _cut_middle(text: str) -> str:
    return f"{text[: MAX_ADDRESS_CHARS // 2]} … {text[-MAX_ADDRESS_CHARS // 2 :]}"


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
