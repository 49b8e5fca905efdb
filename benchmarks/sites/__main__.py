"""python -m benchmarks.sites [--only GENERATOR] [--job NAME] [--no-build] [--json OUT] [--show]"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.sites.changes import format_changes
from benchmarks.sites.runner import run_edits, run_sites
from benchmarks.sites.site_jobs import GENERATORS, load_jobs
from benchmarks.sites.verdicts import FAILED, Outcome


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.sites", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=GENERATORS, help="a generator; may be repeated")
    parser.add_argument("--job", action="append", default=[], help="the name of a job; may be repeated")
    parser.add_argument("--no-build", action="store_true", help="compare the edits alone; nothing is installed")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write every figure to this file")
    parser.add_argument("--show", action="store_true", help="print the edits of each job in the form of expected/")
    options = parser.parse_args()
    generators = options.only or GENERATORS
    if options.show:
        _show_edits(generators, options.job)
        return
    outcomes = run_sites(generators, options.job, not options.no_build, _tell)
    if options.json:
        options.json.write_text(json.dumps([each.to_json() for each in outcomes], indent=2) + "\n", "utf-8")
    print(render_table(outcomes), end="")
    sys.exit(any(each.verdict == FAILED for each in outcomes))


def _show_edits(generators: Sequence[str], names: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="copydesk-sites-") as folder:
        for generator in generators:
            for job in load_jobs(generator):
                if not names or job.name in names:
                    after, _, status = run_edits(job, Path(folder))
                    print(f"# {generator} {job.name}: {status}\n{format_changes(job.files, after)}")


def _tell(outcome: Outcome) -> None:
    print(f"… {outcome.generator} {outcome.job}: {outcome.verdict}", file=sys.stderr, flush=True)


def render_table(outcomes: list[Outcome]) -> str:
    """Renders the outcomes as a Markdown table, and the reasons and new warnings below it."""
    lines = [
        "| Site | Job | Warnings before | After | New | Findings | Files | Seconds | Verdict |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    notes = []
    for each in outcomes:
        before = "–" if each.warnings_before is None else str(each.warnings_before)
        after = "–" if each.warnings_after is None else str(each.warnings_after)
        new = "–" if each.warnings_before is None else str(len(each.new_warnings))
        verdict = each.verdict if each.verdict == "passed" else f"{each.verdict}: {'; '.join(each.reasons)}"
        lines.append(
            f"| {each.generator} | {each.job} | {before} | {after} | {new} | {len(each.findings)} | "
            f"{each.files_changed} | {each.seconds:.1f} | {verdict} |"
        )
        notes += [f"{each.generator} {each.job}: new warning: {warning}" for warning in each.new_warnings]
        notes += [f"{each.generator} {each.job}: finding: {finding}" for finding in each.findings]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


if __name__ == "__main__":
    main()
