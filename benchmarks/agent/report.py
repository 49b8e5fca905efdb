"""Renders a run as a table with a row per case and totals, and compares two runs."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.agent.results import Result, Run, Sum
from copydesk.jobs.agent.mechanic.plan import pluralize

HEAD = (
    "case", "outcome", "exact", "precision", "recall", "F1", "lines beyond", "lines missed", "checks", "bytes damaged",
    "requests", "tokens", "cost $", "seconds",
)  # fmt: skip
OF_A_TAG = ("cases", "exact", "F1", "lines beyond", "lines missed", "bytes damaged")
FIGURES = {
    "cases": "cases", "not completed": "failed", "exact": "exact", "precision": "precision", "recall": "recall",
    "F1": "f1", "lines beyond": "lines_beyond", "lines missed": "lines_missed", "checks": "findings",
    "bytes damaged": "bytes_damaged", "requests": "requests", "tokens": "tokens", "cost $": "cost_usd",
    "seconds": "seconds",
}  # fmt: skip
"""Columns about a complete run, and the field of its totals that each shows."""
PLACES = {"cost $": 4}
"""Decimal places by column; the others have two."""
NONE = "–"


def render(run: Run) -> str:
    rows = [*(_case(result) for result in run.results), _sum(Sum.of(run.results))]
    title = f"# {run.model}\n\n{pluralize(len(run.results), 'case')}, {run.began}, Copydesk {run.copydesk}."
    return "\n\n".join([title, table(HEAD, rows), *_tags(run.results), *_notes(run.results)]) + "\n"


def compare(first: Run, second: Run) -> str:
    """Compares two runs. Totals include only the cases that both have, so that they are comparable."""
    theirs = {result.name: result for result in second.results}
    pairs = [(result, theirs[result.name]) for result in first.results if result.name in theirs]
    ours, others = (Sum.of(tuple(pair[n] for pair in pairs)) for n in (0, 1))
    head = ("", first.model, second.model, "difference")
    figures = [
        (name, *_shown(ours, [name]), *_shown(others, [name]), _difference(name, ours, others)) for name in FIGURES
    ]
    changed = [
        (one.name, _brief(one), _brief(other))
        for one, other in pairs
        if (one.score, one.outcome, one.findings) != (other.score, other.outcome, other.findings)
    ]
    parts = [f"# {first.model} beside {second.model}", table(head, figures)]
    if changed:
        parts += ["Cases that differ:", table(("case", first.model, second.model), changed)]
    alone = {r.name for r in (*first.results, *second.results)} - {one.name for one, _ in pairs}
    if alone:
        parts.append(f"In one run only, and left out: {', '.join(sorted(alone))}.")
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *shown[1:]])


def _case(result: Result) -> list[str]:
    alone = Sum.of((result,))
    return [result.name, result.outcome, "yes" if result.exact else "no", *_shown(alone, HEAD[3:])]


def _sum(total: Sum) -> list[str]:
    outcome = f"{total.cases - total.failed} of {total.cases} completed"
    return ["**in sum**", outcome, f"{total.exact} of {total.cases}", *_shown(total, HEAD[3:])]


def _tags(results: Sequence[Result]) -> Iterator[str]:
    tags = sorted({tag for result in results for tag in result.tags})
    rows = []
    for tag in tags:
        total = Sum.of(tuple(result for result in results if tag in result.tags))
        rows.append([tag, *_shown(total, OF_A_TAG)])
    if rows:
        yield table(("tag", *OF_A_TAG), rows)


def _notes(results: Sequence[Result]) -> Iterator[str]:
    """Lists details of the cases that are not exact: the files, and the message of the job."""
    told = {result.name: "; ".join(fault.rstrip(".") for fault in _faults(result)) for result in results}
    lines = [f"- {name}: {faults}" for name, faults in told.items() if faults]
    if lines:
        yield "\n".join(lines)


def _faults(result: Result) -> Iterator[str]:
    score = result.score
    wrong, missed = set(score.wrong), set(score.missed)
    yield from result.findings
    if result.status != "completed" and result.message:
        yield result.message
    if missed and not wrong and not score.right:
        yield f"left everything as it was; the reference changes {', '.join(score.missed)}"
        return
    yield from (f"touched {path}, which the reference leaves alone" for path in sorted(wrong - missed))
    yield from (f"left {path}, which the reference changes" for path in sorted(missed - wrong))
    yield from (f"kept or deleted {path}, unlike the reference" for path in sorted(wrong & missed))


def _brief(result: Result) -> str:
    score = result.score
    if result.exact:
        return f"{result.outcome}, exact"
    return (
        f"{result.outcome}, F1 {score.f1:.2f}, {score.lines_beyond} beyond, {score.lines_missed} missed, "
        f"{score.bytes_damaged} damaged, {pluralize(len(result.findings), 'fault')}"
    )


def _shown(total: Sum, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = getattr(total, FIGURES[name])
        if value is None:
            yield NONE
        else:
            yield f"{value:,}" if isinstance(value, int) else f"{value:.{PLACES.get(name, 2)}f}"


def _difference(name: str, ours: Sum, others: Sum) -> str:
    before, after = getattr(ours, FIGURES[name]), getattr(others, FIGURES[name])
    if before is None or after is None:
        return NONE
    gap = after - before
    return "same" if gap == 0 else f"{gap:+,}" if isinstance(gap, int) else f"{gap:+.{PLACES.get(name, 2)}f}"
