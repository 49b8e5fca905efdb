"""Renders the report: targets first, then each table with one line on how it was measured."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.jobs.engine_race import CONCURRENT_WORKFLOWS, STEPS_PER_WORKFLOW
from benchmarks.jobs.engines import pair_fastest
from benchmarks.jobs.measure import median
from benchmarks.jobs.results import BenchmarkResults, list_targets
from benchmarks.jobs.service import WORKER_SLOTS


def render_report(results: BenchmarkResults) -> str:
    sections = (
        _render_targets,
        _render_machine,
        _render_creation,
        _render_edits,
        _render_plain_git,
        _render_engines,
        _render_footprint,
    )
    return "\n\n".join(section(results) for section in sections) + "\n"


def _render_targets(results: BenchmarkResults) -> str:
    rows = [(aim.what, aim.aim, aim.measured, "yes" if aim.met else "**no**") for aim in list_targets(results)]
    return "# What a job costs\n\n" + _render_table(("figure", "aim", "measured", "met"), rows)


def _render_machine(results: BenchmarkResults) -> str:
    m = results.machine
    return (
        f"{m.system}, {m.cores} cores, load {m.load:.1f} at the start; Python {m.python}, git {m.git}, "
        f"SQLite {m.sqlite}, DBOS {m.dbos}; one 4 KB fsync takes {m.fsync_p50:.2f} ms (p99 {m.fsync_p99:.2f}), "
        f"ten million additions in a Python loop {m.loop:.2f} s of CPU. "
        f"The run took {results.took:.0f} s."
    )


def _render_creation(results: BenchmarkResults) -> str:
    how = (
        "POST …/job to `copydesk serve --no-worker` on SQLite; the clients are threads of another process, each with "
        "one kept connection, each asking again once answered. CPU is per request."
    )
    head = ("clients", "requests", "p50 ms", "p99 ms", "per second", "server CPU ms", "generator CPU ms")
    rows = [
        (c.clients, f"{c.requests:,}", f"{c.p50:.1f}", f"{c.p99:.1f}", f"{c.per_second:.0f}", f"{c.server_cpu:.2f}",
         f"{c.generator_cpu:.2f}")
        for c in results.creation
    ]  # fmt: skip
    return _render_section("Creating a job", how, head, rows)


def _render_edits(results: BenchmarkResults) -> str:
    how = (
        "Request to pull request by the mechanic, in a real `copydesk serve`. CPU is that of the server, its child "
        "processes and every git process, both sides of fetch and push, from /proc. Cold: the first job, which fetches "
        "the whole repository. Wall: jobs one after another, median. Per second: all queued at once, "
        f"{WORKER_SLOTS} slots."
    )
    head = ("files", "task", "cold wall ms", "cold CPU ms", "warm wall ms", "warm CPU ms", "jobs per second",
            "cores busy", "peak MB")  # fmt: skip
    rows = [
        (f"{e.files:,}", e.task, _format_integer(e.cold_wall), _format_integer(e.cold_cpu),
         _format_integer(e.warm_wall), _format_integer(e.warm_cpu), f"{e.per_second:.1f}", f"{e.busy_cpu:.2f}",
         _format_integer(e.peak_memory))
        for e in results.edits
    ]  # fmt: skip
    return _render_section("Jobs end to end", how, head, rows)


def _render_plain_git(results: BenchmarkResults) -> str:
    how = (
        "The same change with git alone: check out, edit in Python, commit, push; one after another. The ratios are to "
        "a warm Copydesk job of the same task and size, so above 1 the plain way costs more."
    )
    ours = {(e.files, e.task): e for e in results.edits}
    head = ("files", "task", "way", "wall ms", "CPU ms", "wall ratio", "CPU ratio")
    rows = []
    for plain in results.plain:
        edit = ours[plain.files, plain.task]
        ratios = f"{plain.wall / edit.warm_wall:.1f} ×", f"{plain.cpu / edit.warm_cpu:.1f} ×"
        rows.append(
            (
                f"{plain.files:,}",
                plain.task,
                plain.way,
                _format_integer(plain.wall),
                _format_integer(plain.cpu),
                *ratios,
            )
        )
    return _render_section("The plain way", how, head, rows)


def _render_engines(results: BenchmarkResults) -> str:
    how = (
        f"Enqueue, {STEPS_PER_WORKFLOW} trivial steps, read the result back; {CONCURRENT_WORKFLOWS} at once, caller "
        "and worker in one process, a fresh process and database per round, rounds in turns, medians. DBOS's queue "
        "polls (every second unless told otherwise), so it takes part with several intervals. CPU is this process's, "
        "not a database server's."
    )
    head = ("engine", "jobs", "jobs per second", "each round", "CPU ms per job", "enqueue p50 ms", "p99 ms")
    rows = []
    for entrant in results.engines:
        figures = (
            f"{entrant.speed:.0f}",
            ", ".join(f"{each.per_second:.0f}" for each in entrant.rounds),
            f"{entrant.median(lambda r: r.cpu):.1f}",
            f"{entrant.median(lambda r: r.enqueue_p50):.1f}",
            f"{entrant.median(lambda r: r.enqueue_p99):.1f}",
        )
        rows.append((entrant.name, entrant.jobs, *figures))
    return _render_section("The engine beside DBOS", how, head, rows) + "\n\n" + "\n".join(_render_ratios(results))


def _render_ratios(results: BenchmarkResults) -> Iterator[str]:
    for ours, theirs in pair_fastest(results.engines):
        thrift = theirs.median(lambda r: r.cpu) / ours.median(lambda r: r.cpu)
        yield (
            f"On {ours.database}, Copydesk does {ours.speed / theirs.speed:.1f} × the jobs per second of DBOS at its "
            f"fastest ({theirs.name}), which takes {thrift:.1f} × the CPU per job."
        )


def _render_footprint(results: BenchmarkResults) -> str:
    f = results.footprint
    how = (
        f"`copydesk serve` with its worker: left alone for {f.idle_seconds:g} s on an empty data folder; "
        f"started {len(f.start_fresh)} times each, exec to the first 200 of /healthz, median (slowest). "
        "Modules are compiled beforehand. Busy: during the jobs above."
    )
    busiest = max(results.edits, key=lambda e: e.peak_memory)
    rows = [
        ("idle CPU", f"{f.idle_cpu * 100:.2f} % of a core"),
        ("idle memory", f"{f.idle_memory:.0f} MB"),
        ("busy memory, peak", f"{busiest.peak_memory:.0f} MB ({busiest.files:,} files)"),
        ("busy CPU", f"{max(e.busy_cpu for e in results.edits):.2f} cores at most, git included"),
        ("start, fresh data folder", _format_start_seconds(f.start_fresh)),
        ("start, existing data folder", _format_start_seconds(f.start_existing)),
    ]
    return _render_section("Footprint", how, ("figure", "measured"), rows)


def _format_start_seconds(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s ({max(seconds):.2f})"


def _format_integer(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _render_section(title: str, how: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return f"## {title}\n\n{how}\n\n{_render_table(head, rows)}"


def _render_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Renders an aligned table, readable as plain text too."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
