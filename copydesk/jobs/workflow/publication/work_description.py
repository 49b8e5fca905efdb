"""Chooses the title and summary of a pull request: those of the run that edited the files that it publishes."""

from collections.abc import Iterator, Mapping

from pydantic import TypeAdapter

from copydesk.jobs.agent.conversation import Prompt, Reply
from copydesk.jobs.agent.tool_round import ToolRound
from copydesk.jobs.agent.tools import MAX_SUMMARY_CHARS, Finished
from copydesk.jobs.execution.journal import EarlierRun, Journal
from copydesk.jobs.job import Job, Reason
from copydesk.jobs.publish.messages import to_one_line
from copydesk.jobs.publish.plain_text import choose_title

StepResults = Mapping[str, bytes]


def has_unproposed_work(journal: Journal, job: Job, head: str | None) -> bool:
    """Returns whether the branch has work of an earlier run that failed to open or update the pull request.

    `head` is the tip of the job's branch; None means that there is none yet.
    """
    if head is None or job.pr_link is None:
        return head is not None
    last_publishing_run = next(
        (run for run in reversed(journal.list_earlier_runs()) if run.results.keys() & {"push", "open"}), None
    )
    return last_publishing_run is not None and "open" not in last_publishing_run.results


def describe_published_work(journal: Journal, finished: Finished) -> Finished:
    """Returns the title and summary of the edits that this run publishes.

    A follow-up such as "Try again" may edit nothing and publish the edits of an earlier run, whose push was refused. In
    that case, returns the description of the earlier run, because `finished` says that nothing changed.
    """
    described = _find_description(journal, finished)
    return described.model_copy(update={"title": choose_title(described.title, described.summary)})


def _find_description(journal: Journal, finished: Finished) -> Finished:
    if journal.claim.run_number == 1 or _has_edits(journal.results):
        return finished
    for run in reversed(journal.list_earlier_runs()):
        if _keeps_edits(run) and _has_edits(run.results):
            return _read_description(run.results) or _describe_by_prompt(run.results) or finished
    return finished


def _keeps_edits(run: EarlierRun) -> bool:
    """Returns whether later runs publish the edits of this run. Edits that the publish guard refused are discarded."""
    return run.reason is not Reason.PUBLISH_REFUSED or "push" in run.results


def _has_edits(results: StepResults) -> bool:
    return any(tool_round.splices for tool_round in _read_tool_rounds(results))


def _read_description(results: StepResults) -> Finished | None:
    """Returns how the run described its work: with the tool `finish`, or in the text of its last reply."""
    described = [tool_round.finished or tool_round.sent_back for tool_round in _read_tool_rounds(results)]
    if calls := [finished for finished in described if finished is not None]:
        return calls[-1]
    replies = [Reply.model_validate_json(data) for name, data in results.items() if name.endswith("-reply")]
    text = replies[-1].text.strip() if replies and not replies[-1].calls else ""
    return Finished(title=to_one_line(text.splitlines()[0]), summary=text[:MAX_SUMMARY_CHARS]) if text else None


def _describe_by_prompt(results: StepResults) -> Finished | None:
    """Returns the first line of the run's prompt as the title, for a run that ended before it described its work."""
    inboxes = [data for name, data in results.items() if name.endswith("-inbox")]
    prompts = [prompt for data in inboxes for prompt in TypeAdapter(list[Prompt]).validate_json(data)]
    lines = prompts[0].text.strip().splitlines() if prompts else []
    return Finished(title=to_one_line(lines[0]), summary="") if lines else None


def _read_tool_rounds(results: StepResults) -> Iterator[ToolRound]:
    return (ToolRound.model_validate_json(data) for name, data in results.items() if name.endswith("-acts"))
