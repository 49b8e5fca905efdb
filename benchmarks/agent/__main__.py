"""python -m benchmarks.agent run | review | mine | report"""

import argparse
import logging
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.agent.case_miner import MiningOptions, mine_cases
from benchmarks.agent.cases import BUILT_IN_CASES, InvalidCase, load_cases
from benchmarks.agent.report import compare_runs, render_run
from benchmarks.agent.results import Result, Run, read_run, save_run
from benchmarks.agent.review_cases import load_review_cases
from benchmarks.agent.runner import ModelChoice, run_cases
from benchmarks.agent.sources import CaseSources
from copydesk import __version__
from copydesk.core.errors import UserFacingError
from copydesk.core.text.plurals import pluralize

DESCRIPTION = """\
Measures how well a model does documentation jobs: each case is a change that a person made to a repository, the model
is asked for it through Copydesk's real flow, and what comes of it is compared with what the person did."""
EXAMPLES = """\
examples:
  python -m benchmarks.agent run                                  the built-in cases, with the mechanic
  python -m benchmarks.agent run --model openai:… --json a.json   the same with a language model
  python -m benchmarks.agent review                               what a reviewer is told of faulty and good changes
  python -m benchmarks.agent mine ../handbook --limit 30 > cases.toml
  python -m benchmarks.agent run cases.toml --model anthropic:… --json b.json --jobs 4
  python -m benchmarks.agent report a.json b.json"""


def main() -> None:
    options = _build_parser().parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        options.act(options)
    except UserFacingError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(options: argparse.Namespace) -> None:
    model = ModelChoice.parse(options.model)
    cases = model.select_cases(load_cases(options.cases, options.only), all_of_them=bool(options.only))
    finished: list[Result] = []

    def tell(result: Result) -> None:
        finished.append(result)
        score = f"F1 {result.score.f1:.2f}{', exact' if result.exact else ''}"
        print(f"… {len(finished)}/{len(cases)} {result.name}: {result.outcome}, {score}", file=sys.stderr, flush=True)

    began = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        run_cases(cases, model, options.jobs, tell)
    finally:  # saves the results that were paid for, also after an interrupt
        order = [case.name for case in cases]
        results = sorted(finished, key=lambda result: order.index(result.name))
        run = Run(model=model.name, began=began, copydesk=__version__, results=tuple(results))
        if options.json and finished:
            save_run(run, options.json)
    print(render_run(run), end="")


def _review(options: argparse.Namespace) -> None:
    from benchmarks.agent.review_runner import render_reviews, run_review_cases

    results = []
    for result in run_review_cases(load_review_cases(only=options.only)):
        results.append(result)
        print(f"… {result.case.name}: {'; '.join(result.faults) or 'as expected'}", file=sys.stderr, flush=True)
    print(render_reviews(results), end="")
    if any(result.faults for result in results):
        sys.exit(1)


def _mine(options: argparse.Namespace) -> None:
    mining_options = MiningOptions(options.since, options.limit, options.most_files, options.most_lines)
    repository_name = options.repository
    address = repository_name if "://" in repository_name else str(Path(repository_name).expanduser().resolve())
    with tempfile.TemporaryDirectory(prefix="copydesk-agent-") as folder:
        commits: list[None] = []
        repository = CaseSources(Path(folder)).open(address)
        cases = list(mine_cases(repository, mining_options, lambda: commits.append(None)))
    if not cases:
        raise InvalidCase(f"No commit of {address} changed documentation alone within these bounds.")
    print("\n\n".join(case.to_toml(address) for case in cases))
    origin = f"{pluralize(len(cases), 'case')} from {pluralize(len(commits), 'commit')}"
    print(f"{origin}. Read each prompt first: a message tells, a prompt asks.", file=sys.stderr)


def _print_report(options: argparse.Namespace) -> None:
    first = read_run(options.first)
    print(compare_runs(first, read_run(options.second)) if options.second else render_run(first), end="")


def _build_parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks.agent", None, DESCRIPTION, EXAMPLES, formatter_class=plain)
    commands = parser.add_subparsers(required=True, metavar="run|review|mine|report")

    run = commands.add_parser("run", help="run cases and print what came of them", description=_run_help)
    run.add_argument("cases", nargs="?", type=Path, default=BUILT_IN_CASES, metavar="CASES.toml",
                     help="a file of cases, or a folder of them; the built-in set when left out")  # fmt: skip
    run.add_argument("--model", default="mechanic", metavar="NAME", help="mechanic (the default), openai:…, "
                     "anthropic:…, google:…, openai-compatible:…, or script:FILE for the cases it knows")  # fmt: skip
    run.add_argument("--only", action="append", default=[], metavar="NAME", help="a case or a tag; may be repeated")
    run.add_argument("--json", type=Path, metavar="OUT", help="also write every figure to this file")
    run.add_argument(
        "--jobs", type=_parse_positive_number, default=1, metavar="N", help="cases that run at once (default 1)"
    )
    run.set_defaults(act=_run)

    review = commands.add_parser("review", help="play changes with known faults, and good ones; compare what the "
                                 "reviewer is told", description=_review_help)  # fmt: skip
    review.add_argument("--only", action="append", default=[], metavar="NAME", help="a case, `faults` or `good`")
    review.set_defaults(act=_review)

    find = commands.add_parser("mine", help="propose cases from a repository's own history", description=_mine_help)
    find.add_argument("repository", metavar="REPOSITORY", help="a path, or an address that git can clone")
    find.add_argument(
        "--since", type=_parse_date, metavar="DATE", help="no commits from before this day, as 2026-01-31"
    )
    find.add_argument(
        "--limit", type=_parse_positive_number, default=20, metavar="N", help="at most so many cases (default 20)"
    )
    find.add_argument(
        "--most-files", type=_parse_positive_number, default=10, metavar="N", help="in one commit (default 10)"
    )
    find.add_argument(
        "--most-lines", type=_parse_positive_number, default=200, metavar="N", help="in one commit (default 200)"
    )
    find.set_defaults(act=_mine)

    show = commands.add_parser("report", help="print a run again, or two side by side")
    show.add_argument("first", type=Path, metavar="OUT.json")
    show.add_argument("second", type=Path, nargs="?", metavar="OUT2.json")
    show.set_defaults(act=_print_report)
    return parser


_run_help = """Runs each case in a service of its own, in a temporary folder; the repositories that cases name are only
read. Keys, addresses and bounds of a job come from the environment, as for copydesk serve."""
_review_help = """Plays each case of reviews/ with a script in place of the model. Fails unless the pull request of each
faulty change says what is wrong with it, is a draft where it must be, and no good change is a draft."""
_mine_help = """Prints cases as TOML: commits of the main line that changed pages and navigation alone. The prompt is
drafted from the commit's message; edit it until it asks for the change without giving it away."""


def _parse_positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _parse_date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a date such as 2026-01-31") from None


if __name__ == "__main__":
    main()
