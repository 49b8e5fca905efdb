"""Text of commits and pull requests, with the markup neutralized that a model or a page may have put into it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Job, Usage
from copydesk.jobs.publish.guard.executed_files import ExecutedFile
from copydesk.jobs.publish.guard.hidden_characters import strip_hidden_characters
from copydesk.jobs.workspace.patches import FilePatch

MAX_FILES_LISTED = 30
MAX_ITEMS_LISTED = 20
MAX_EXECUTED_LISTED = 100
MAX_ADDRESSES_CHARS = 20_000
MAX_ADDRESS_CHARS = 400
MAX_QUOTE_CHARS = 4000
# Markup that mentions people, refers to issues, loads images, hides text or runs quick actions on a forge. Escaping it
# with a backslash is not safe, because the text may already have a backslash there.
ACTIVE_MARKUP_PATTERN = re.compile(
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
CLOSING_KEYWORD_PATTERN = re.compile(
    r"\b(clos|fix|resolv|implement|reopen)(?=(?:e|es|ed|s|d|ing)?\b[\s:]*(?:issues?\s+)?(?:https?:|[A-Z][A-Z0-9_]+-\d))",
    re.I,
)
"""Keywords that close an issue named by its URL, or by its key in an external tracker."""
ZERO_WIDTH_SPACE = "\u200b"
EXECUTED_FILES_WARNING = (
    "**⚠️ Review these files first.** Builds, hosts or readers' browsers execute them, "
    "so they can do more than display text:"
)
FENCE_PATTERN = re.compile(r"^(`{3,}|~{3,})[^`~\n]*$", re.M)
CODE_SPAN_PATTERN = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class PullRequestReport:
    """Information about one run for the reviewer of its pull request."""

    summary: str
    unsure: str = ""
    base_note: str | None = None
    """How the change was applied when the base branch moved during the run; None when it did not move."""
    files: Sequence[FilePatch] = ()
    checks: Sequence[str] = ()
    """One sentence per check that ran."""
    findings: Sequence[str] = ()
    """Problems that the change introduces and that the model did not fix."""
    reformatted: Sequence[str] = ()
    """One line for each file with lines that change only in form, with the model's reason."""
    intended: Sequence[str] = ()
    """Findings that the model declared intended, with its reasons."""
    vanished_addresses: Sequence[str] = ()
    """Addresses of pages that the change removes without a redirect."""
    executed_files: Sequence[ExecutedFile] = ()
    """Changed files that a build, a host or a browser executes."""
    external_urls: Sequence[str] = ()
    """External URLs that the change adds; those that browsers load without a click come first."""
    instruction_files: Sequence[str] = ()
    """The files of the repository with instructions that the model read."""
    usage: Usage = field(default_factory=Usage)


def neutralize_markup(text: str) -> str:
    """Returns text that looks the same but cannot mention people, close issues, or load or hide anything on a forge.

    Code is left unchanged only where all Markdown parsers agree that it is code; ambiguous code is treated as prose.
    """
    text = strip_hidden_characters(text)
    parts = []
    end = 0
    for start, stop in _find_code_blocks(text):
        parts += [_neutralize_prose(text[end:start]), text[start:stop]]
        end = stop
    return "".join(parts) + _neutralize_prose(text[end:])


def _find_code_blocks(text: str) -> list[tuple[int, int]]:
    """Returns the spans of fenced code blocks.

    Returns none at all when any fence does not start its line or is not closed by an equal fence.
    """
    fences = list(FENCE_PATTERN.finditer(text))
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    all_paired = len(fences) == len(re.findall(r"`{3,}|~{3,}", text)) == 2 * len(pairs)
    if not all_paired or any(one[1] != other[0].rstrip() for one, other in pairs):
        return []
    return [(one.start(), other.end()) for one, other in pairs]


def _neutralize_prose(text: str) -> str:
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    return "".join(
        _neutralize(part) if _has_ambiguous_code(part) else _neutralize_around_code(part) for part in paragraphs
    )


def _has_ambiguous_code(paragraph: str) -> bool:
    """Returns whether Markdown parsers may disagree on which parts of the paragraph are code.

    They do when backticks are escaped, doubled or paired across lines, and in table cells, which end a code span.
    """
    has_unpaired_tick = any(line.count("`") % 2 for line in paragraph.splitlines())
    return has_unpaired_tick or re.search(r"``|\\`|\|", paragraph) is not None


def _neutralize_around_code(paragraph: str) -> str:
    parts = []
    end = 0
    for span in CODE_SPAN_PATTERN.finditer(paragraph):
        parts += [_neutralize(paragraph[end : span.start()]), span[0]]
        end = span.end()
    return "".join(parts) + _neutralize(paragraph[end:])


def _neutralize(text: str) -> str:
    return CLOSING_KEYWORD_PATTERN.sub(
        rf"\1{ZERO_WIDTH_SPACE}", ACTIVE_MARKUP_PATTERN.sub(lambda found: found[0] + ZERO_WIDTH_SPACE, text)
    )


def to_one_line(text: str, max_chars: int = 200) -> str:
    """Returns the text as one line without control characters, for use as a title."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:max_chars].strip() or "Documentation"


def format_pull_title(text: str) -> str:
    """Returns the title of a pull request, neutralized because a forge may use it as the title of a commit."""
    return _neutralize(to_one_line(text))


def build_commit_message(job: Job, policy: Policy, title: str, summary: str) -> str:
    """Returns the commit message. Trailers come only from the policy; lines of the summary cannot act as trailers."""
    trailers = [f"Copydesk-Job: {job.id}", *(f"Co-authored-by: {person}" for person in policy.co_authors)]
    if policy.sign_off:
        trailers.append(f"Signed-off-by: {policy.author_name} <{policy.author_email}>")
    body = re.sub(
        r"^(?=[A-Za-z-]+-by:|Copydesk-Job:)",
        " ",
        _neutralize(strip_hidden_characters(summary.strip())),
        flags=re.M | re.I,
    )
    return "\n\n".join(part for part in (format_pull_title(title), body, "\n".join(trailers)) if part) + "\n"


def render_pull_body(job: Job, prompts: Sequence[str], report: PullRequestReport, job_link: str) -> str:
    parts = [
        _render_list(
            EXECUTED_FILES_WARNING,
            [f"{_format_code(file.path)}: {file.reason}" for file in report.executed_files],
            MAX_EXECUTED_LISTED,
        ),
        neutralize_markup(report.summary.strip()),
        f"**Note:** {report.base_note}" if report.base_note else "",
        _render_list("**Not fixed** (problems that the checks below found in this change):", report.findings),
        _render_list("**Intended** (findings that the model says are right as they are):", report.intended),
        f"**Unsure:** {neutralize_markup(report.unsure.strip())}" if report.unsure.strip() else "",
        _render_list(
            "**Addresses that no longer exist**, without a redirect:",
            [_format_code(address) for address in report.vanished_addresses],
        ),
        _render_list("**Reformatted** (lines that change only in form):", report.reformatted),
        _render_list("**Files**", [_describe_file(patch) for patch in report.files], MAX_FILES_LISTED),
        _render_list("**Checks**", report.checks),
        _render_addresses(report.external_urls, job_link),
        f"**Instructions read:** {', '.join(map(_format_code, report.instruction_files))}"
        if report.instruction_files
        else "",
        "**Request**" if prompts else "",
        *(_quote_prompt(prompt) for prompt in prompts),
        f"Created by {job.model} ({_format_usage(report.usage)}) in job [`{job.id}`]({job_link}).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _describe_file(patch: FilePatch) -> str:
    renamed_from = f" from {_format_code(patch.previous)}" if patch.previous else ""
    return f"{_format_code(patch.path)} {patch.change}{renamed_from}, +{patch.additions} −{patch.deletions}"


def _render_list(title: str, items: Sequence[str], max_items: int = MAX_ITEMS_LISTED) -> str:
    if not items:
        return ""
    lines = [f"- {neutralize_markup(item)}" for item in items[:max_items]]
    if len(items) > max_items:
        lines.append(f"- … and {len(items) - max_items} more")
    return "\n".join([title, "", *lines])


def _render_addresses(addresses: Sequence[str], job_link: str) -> str:
    """Returns the list of URLs, collapsed when it is long.

    A list that exceeds the size limit is cut and says how many URLs are missing and where to find them.
    """
    title = "**New external URLs**"
    shortened = [address if len(address) <= MAX_ADDRESS_CHARS else _cut_middle(address) for address in addresses]
    if len(addresses) <= MAX_ITEMS_LISTED:
        return _render_list(title, shortened)
    lines: list[str] = []
    size = 0
    for address in shortened:
        line = f"- {neutralize_markup(address)}"
        size += len(line) + 1
        if size > MAX_ADDRESSES_CHARS:
            break
        lines.append(line)
    cut_count = len(addresses) - len(lines)
    cut_note = f"\n\n{cut_count} more are not shown. See the diff of [this job]({job_link})." if cut_count else ""
    listing = "\n".join(lines)
    summary = f"<summary>{len(addresses)} URLs, starting with those that browsers load without a click</summary>"
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
    parts = [f"{usage.requests} request{'' if usage.requests == 1 else 's'}", f"{tokens:,} tokens" if tokens else ""]
    parts.append(f"${usage.cost_usd:.2f}" if usage.cost_usd else "")
    return ", ".join(part for part in parts if part)


def _quote_prompt(text: str) -> str:
    shortened = text[:MAX_QUOTE_CHARS] + (" …" if len(text) > MAX_QUOTE_CHARS else "")
    return "\n".join(f"> {line}" for line in neutralize_markup(shortened).splitlines())
