"""Renders a run as a table with a row per case and totals, and compares two runs."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.agent.results import Result, ResultTotals, Run
from copydesk.core.text.plurals import pluralize

TABLE_HEAD = (
    "case", "outcome", "exact", "precision", "recall", "F1", "lines beyond", "lines missed", "checks", "bytes damaged",
    "requests", "tokens", "cost $", "seconds",
)  # fmt: skip
TAG_COLUMNS = ("cases", "exact", "F1", "lines beyond", "lines missed", "bytes damaged")
FIELD_BY_COLUMN = {
    "cases": "cases", "not completed": "failed", "exact": "exact", "precision": "precision", "recall": "recall",
    "F1": "f1", "lines beyond": "lines_beyond", "lines missed": "lines_missed", "checks": "findings",
    "bytes damaged": "bytes_damaged", "requests": "requests", "tokens": "tokens", "cost $": "cost_usd",
    "seconds": "seconds",
}  # fmt: skip
"""Columns about a complete run, and the field of its totals that each shows."""
DECIMAL_PLACES = {"cost $": 4}
"""Decimal places by column; the others have two."""
NO_VALUE = "–"


def render_run(run: Run) -> str:
    rows = [
        *(_render_case_row(result) for result in run.results),
        _render_total_row(ResultTotals.from_results(run.results)),
    ]
    title = f"# {run.model}\n\n{pluralize(len(run.results), 'case')}, {run.began}, Copydesk {run.copydesk}."
    return (
        "\n\n".join([title, render_table(TABLE_HEAD, rows), *_render_tags(run.results), *_render_notes(run.results)])
        + "\n"
    )


def compare_runs(first: Run, second: Run) -> str:
    """Compares two runs. Totals include only the cases that both have, so that they are comparable."""
    theirs = {result.name: result for result in second.results}
    pairs = [(result, theirs[result.name]) for result in first.results if result.name in theirs]
    ours, others = (ResultTotals.from_results(tuple(pair[n] for pair in pairs)) for n in (0, 1))
    head = ("", first.model, second.model, "difference")
    figures = [
        (name, *_format_figures(ours, [name]), *_format_figures(others, [name]), _format_difference(name, ours, others))
        for name in FIELD_BY_COLUMN
    ]
    changed_cases = [
        (one.name, _summarize_result(one), _summarize_result(other))
        for one, other in pairs
        if (one.score, one.outcome, one.findings) != (other.score, other.outcome, other.findings)
    ]
    parts = [f"# {first.model} beside {second.model}", render_table(head, figures)]
    if changed_cases:
        parts += ["Cases that differ:", render_table(("case", first.model, second.model), changed_cases)]
    alone = {r.name for r in (*first.results, *second.results)} - {one.name for one, _ in pairs}
    if alone:
        parts.append(f"In one run only, and left out: {', '.join(sorted(alone))}.")
    return "\n\n".join(parts) + "\n"


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    table_lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([table_lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *table_lines[1:]])


def _render_case_row(result: Result) -> list[str]:
    alone = ResultTotals.from_results((result,))
    return [result.name, result.outcome, "yes" if result.exact else "no", *_format_figures(alone, TABLE_HEAD[3:])]


def _render_total_row(total: ResultTotals) -> list[str]:
    outcome = f"{total.cases - total.failed} of {total.cases} completed"
    return ["**in sum**", outcome, f"{total.exact} of {total.cases}", *_format_figures(total, TABLE_HEAD[3:])]


def _render_tags(results: Sequence[Result]) -> Iterator[str]:
    tags = sorted({tag for result in results for tag in result.tags})
    rows = []
    for tag in tags:
        total = ResultTotals.from_results(tuple(result for result in results if tag in result.tags))
        rows.append([tag, *_format_figures(total, TAG_COLUMNS)])
    if rows:
        yield render_table(("tag", *TAG_COLUMNS), rows)


def _render_notes(results: Sequence[Result]) -> Iterator[str]:
    """Lists details of the cases that are not exact: the files, and the message of the job."""
    notes = {result.name: "; ".join(fault.rstrip(".") for fault in _list_faults(result)) for result in results}
    lines = [f"- {name}: {faults}" for name, faults in notes.items() if faults]
    if lines:
        yield "\n".join(lines)


def _list_faults(result: Result) -> Iterator[str]:
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


def _summarize_result(result: Result) -> str:
    score = result.score
    if result.exact:
        return f"{result.outcome}, exact"
    return (
        f"{result.outcome}, F1 {score.f1:.2f}, {score.lines_beyond} beyond, {score.lines_missed} missed, "
        f"{score.bytes_damaged} damaged, {pluralize(len(result.findings), 'fault')}"
    )


def _format_figures(total: ResultTotals, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = getattr(total, FIELD_BY_COLUMN[name])
        if value is None:
            yield NO_VALUE
        else:
            yield f"{value:,}" if isinstance(value, int) else f"{value:.{DECIMAL_PLACES.get(name, 2)}f}"


def _format_difference(name: str, ours: ResultTotals, others: ResultTotals) -> str:
    before, after = getattr(ours, FIELD_BY_COLUMN[name]), getattr(others, FIELD_BY_COLUMN[name])
    if before is None or after is None:
        return NO_VALUE
    gap = after - before
    return "same" if gap == 0 else f"{gap:+,}" if isinstance(gap, int) else f"{gap:+.{DECIMAL_PLACES.get(name, 2)}f}"
