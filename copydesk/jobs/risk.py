"""Risks: what a reviewer must look at in a change. This module does no input or output."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class RiskKind(StrEnum):
    """Kinds of risks, the gravest first. The values are stored and are part of the API, so they must not change."""

    FAILED_CHECK = "failed_check"
    INTENDED = "intended"
    """A finding of the checks that the agent left as it is, with its reason."""
    REFUTED_EVIDENCE = "refuted_evidence"
    MISSING_EVIDENCE = "missing_evidence"
    OBJECTION = "objection"
    VANISHED_ADDRESS = "vanished_address"
    EXECUTED_FILE = "executed_file"
    PLEASE_CHECK = "please_check"
    """Something that may be right, such as a name that exists nowhere else."""
    UNSURE = "unsure"
    NOT_JUDGED = "not_judged"

    @property
    def label(self) -> str:
        """Returns the words that stand for the kind everywhere: in the pull request, on pages and in commands."""
        return self.value.replace("_", " ")


KINDS_WITHOUT_DRAFT = frozenset({RiskKind.PLEASE_CHECK, RiskKind.UNSURE, RiskKind.NOT_JUDGED})


@dataclass(frozen=True)
class Risk:
    kind: RiskKind
    text: str
    """One line for the reviewer."""

    @property
    def needs_draft(self) -> bool:
        return self.kind not in KINDS_WITHOUT_DRAFT


def needs_draft(risks: Iterable[Risk]) -> bool:
    """Returns whether a pull request with these risks is opened as a draft."""
    return any(risk.needs_draft for risk in risks)


def point_to_risks(risks: Iterable[Risk]) -> str:
    """Returns the sentence of a job's message that names the risks; empty if there is none."""
    summary = summarize_risks(risks)
    return f"Review first: {summary}." if summary else ""


def summarize_risks(risks: Iterable[Risk]) -> str:
    """Returns the kinds with their numbers, such as `failed check (2), objection`."""
    counts = Counter(risk.kind for risk in risks)
    kinds = [kind for kind in RiskKind if counts[kind]]
    return ", ".join(f"{kind.label} ({counts[kind]})" if counts[kind] > 1 else kind.label for kind in kinds)
