"""Publishes the question that a run ended with: in the job, and as a comment on its pull request."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from copydesk.jobs.agent.tools import Question
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Claim
from copydesk.jobs.job import COMPLETED, Job, JobFailed, JobOutcome, JobQuestion, Reason
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.unique_comments import add_comment_once
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.publish.messages import neutralize_markup


def ask_question(
    journal: Journal,
    job: Job,
    forge: Forge | None,
    question: Question,
    known_secrets: Sequence[str],
    check_still_active: Callable[[], None],
) -> JobOutcome:
    """Ends the run with a question. Edits stay in the journal, so that the follow-up continues from them."""
    with journal.step("ask", JobQuestion) as step:
        if not step.is_done:
            asked = redact_question(question, known_secrets)
            check_still_active()
            if forge is not None and job.pr_link is not None:
                comment_question(forge, job.pr_link, asked, journal.claim)
            step.save(asked, job={"question": asked.model_dump()})
    return JobOutcome(COMPLETED, Reason.QUESTION, step.result.text)


def redact_question(question: Question, known_secrets: Sequence[str]) -> JobQuestion:
    """Returns the question as the job stores it, without secrets that the model may have read."""
    return JobQuestion(
        text=redact_secrets(question.question, known_secrets),
        choices=tuple(redact_secrets(choice, known_secrets) for choice in question.choices),
    )


def comment_question(forge: Forge, pull_link: str, question: JobQuestion, claim: Claim) -> None:
    """Adds the question to the job's pull request, unless an attempt at this run that crashed has added it.

    The job shows it too, so a failure does not matter."""
    number = parse_pull_number(pull_link)
    if number is not None:
        with suppress(JobFailed):
            marker, since = f"question {claim.run_id}", claim.created_at
            may_exist = claim.attempt > 1
            add_comment_once(forge, number, render_comment(question), marker, since=since, may_exist=may_exist)


def render_comment(question: JobQuestion) -> str:
    choices = "\n".join(f"- {choice}" for choice in question.choices)
    text = "\n\n".join(filter(None, ["**Question**", question.text, choices]))
    return f"{neutralize_markup(text)}\n\nAnswer in a comment that mentions Copydesk, or on the job's page."
