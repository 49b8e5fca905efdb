"""Stores the evidence of a run with its job, with permalinks to the cited lines."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from copydesk.core.projects.projects import Project
from copydesk.jobs.agent.evidence import Evidence, build_permalink, merge_evidence
from copydesk.jobs.agent.overview.context_overview import PinnedContext
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import Job
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedWork
from copydesk.jobs.workspace.workspace import Workspace

EVIDENCE_STEP = "evidence"


class RepositoryAddress(NamedTuple):
    forge: str
    url: str


def record_evidence(
    journal: Journal,
    isolated: IsolatedWork,
    job: Job,
    project: Project,
    contexts: Sequence[PinnedContext],
    workspace: Workspace,
    finished: Finished,
    known_secrets: Sequence[str],
) -> list[Evidence]:
    """Verifies the citations of finished work, and adds them to those of the job's earlier runs. Returns all of them.

    Reviewers see the quotes, so secrets in them are redacted. The result is journaled, so that a resumed run publishes
    the same.
    """
    if not finished.evidence and not journal.has_result(EVIDENCE_STEP):
        return [Evidence.model_validate(each) for each in job.evidence]
    addresses = {each.name: RepositoryAddress(each.forge, each.repository) for each in contexts}
    addresses[""] = RepositoryAddress(project.forge, project.repository)
    with journal.step(EVIDENCE_STEP, list[Evidence]) as step:
        if not step.is_done:
            verified = isolated.verify_citations(workspace, finished.evidence)
            shown = [each.model_copy(update={"quote": redact_secrets(each.quote, known_secrets)}) for each in verified]
            evidence = [_add_permalink(each, addresses) for each in shown]
            merged = merge_evidence(job.evidence, evidence)
            step.save([Evidence.model_validate(each) for each in merged], job={"evidence": merged})
    return step.result


def _add_permalink(evidence: Evidence, addresses: Mapping[str, RepositoryAddress]) -> Evidence:
    address = addresses.get(evidence.source.repository)
    if address is None or not evidence.verified:
        return evidence
    url = build_permalink(address.forge, address.url, evidence.source)
    return evidence.model_copy(update={"source": evidence.source.model_copy(update={"url": url})})
