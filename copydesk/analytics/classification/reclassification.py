"""Finds the stored views whose class changes with a new agent table."""

from collections.abc import Iterable

from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.stores.base import Reclassification
from copydesk.analytics.stores.report_rows import RuleRow


def find_reclassifications(rules: Iterable[RuleRow], classifier: Classifier) -> list[Reclassification]:
    """Returns the changes for the rules that classified stored views. Rules that give the same class are omitted."""
    changes = []
    for row in rules:
        agent, operator = row.agent or "", row.operator or ""
        new = classifier.reclassify(row.rule, agent, operator)
        if new and (new.kind, new.agent, new.operator) != (row.kind, agent, operator):
            changes.append(
                Reclassification(row.rule, agent, operator, row.kind, new.rule, new.agent, new.operator, new.kind.value)
            )
    return changes
