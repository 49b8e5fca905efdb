"""The rounds of a pull request, from stored data: a resumed run tells the same of itself."""

from collections.abc import Sequence

from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.publish.closing_keywords import find_closed_issues
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.publish.pull_body import Round, RunOrigin
from copydesk.jobs.storage.message_origins import (
    MessageOrigin,
    OriginCommit,
    load_origins,
    load_requesters,
    load_words,
)


def build_round(journal: Journal, summary: str, base_note: str | None, known_secrets: Sequence[str]) -> Round:
    """Returns the round of the journal's run. In place of an automation's prompt, it says what started the run."""
    with journal.database.read() as tx:
        words = load_words(tx, journal.claim.run_id)
    return Round(
        summary=summary,
        prompts=[redact_secrets(prompt, known_secrets) for prompt in words],
        base_note=base_note,
        requested_at=journal.claim.created_at,
        closed_issues=sorted(read_closed_issues(journal)),
        origins=[_describe_origin(origin, known_secrets) for origin in read_origins(journal)],
    )


def _describe_origin(origin: MessageOrigin, known_secrets: Sequence[str]) -> RunOrigin:
    commits = [
        OriginCommit(id=each.id, title=redact_secrets(each.title, known_secrets), url=each.url)
        for each in origin.newest_commits
    ]
    return RunOrigin(
        automation=origin.automation,
        text=redact_secrets(origin.text, known_secrets),
        commits=commits,
        has_more_commits=sum(map(len, origin.commits.values())) > len(commits),
    )


def read_origins(journal: Journal) -> list[MessageOrigin]:
    """Returns what started the journal's run; nothing unless an automation did."""
    with journal.database.read() as tx:
        return load_origins(tx, journal.claim.run_id)


def read_closed_issues(journal: Journal) -> set[str]:
    """Returns the issues that people want to close with the job's prompts."""
    with journal.database.read() as tx:
        return find_closed_issues(journal.read_all_prompts(tx))


def read_requesters(journal: Journal) -> list[str]:
    """Returns the signed-in people who asked for the journal's run, each as `Name <address>`."""
    with journal.database.read() as tx:
        return load_requesters(tx, journal.claim.run_id)
