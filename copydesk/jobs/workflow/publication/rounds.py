"""The rounds of a pull request, from stored data: a resumed run tells the same of itself."""

from collections.abc import Sequence

from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.publish.pull_body import Round
from copydesk.jobs.storage.message_origins import MessageOrigin, load_origins


def build_round(journal: Journal, summary: str, base_note: str | None, known_secrets: Sequence[str]) -> Round:
    """Returns the round of the journal's run."""
    with journal.database.read() as tx:
        messages = journal.read_messages(tx)
    return Round(
        summary=summary,
        prompts=[redact_secrets(message.prompt, known_secrets) for message in messages],
        base_note=base_note,
        requested_at=journal.claim.created_at,
        origins=[redact_secrets(origin.text, known_secrets) for origin in read_origins(journal)],
    )


def read_origins(journal: Journal) -> list[MessageOrigin]:
    """Returns what started the journal's run; nothing unless an automation did."""
    with journal.database.read() as tx:
        return load_origins(tx, journal.claim.run_id)
