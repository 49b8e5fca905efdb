"""The command `copydesk analytics reclassify`."""

from typing import Annotated

import typer

from copydesk.cli.output import JsonOption, ProjectOption, current_actor, open_configured_desk, print_json, print_table
from copydesk.cli.project_lookup import find_project
from copydesk.core.text.plurals import pluralize

MAX_RULES = 100_000


def reclassify(
    project: ProjectOption,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes, but store nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Applies the current table of agents to the raw views that are still stored."""
    from copydesk.analytics.classification.reclassification import find_reclassifications
    from copydesk.analytics.stores.base import Correction
    from copydesk.core import audit_log

    with open_configured_desk() as desk:
        loaded_project = find_project(desk, project)
        classifier = desk.sites.classifier
        desk.store.fold()
        rules = desk.store.list_rules(loaded_project.id, limit=MAX_RULES, with_missing=True)
        changes = find_reclassifications(rules, classifier)
        correction = Correction(0)
        if changes and not dry_run:
            correction = desk.store.reclassify_views(loaded_project.id, changes, classifier.version)
            with desk.database.write() as tx:
                audit_log.record(
                    tx,
                    loaded_project.id,
                    current_actor(),
                    "analytics.reclassified",
                    loaded_project.id,
                    views=correction.views,
                    version=classifier.version,
                )
    counts = {(row.rule, row.agent or "", row.operator or "", row.kind): row.views for row in rules}
    rows = [
        {
            "rule": change.rule,
            "agent": change.agent,
            "class": change.kind,
            "newAgent": change.new_agent,
            "newClass": change.new_kind,
            "views": counts[change.rule, change.agent, change.operator, change.kind],
        }
        for change in changes
    ]
    skipped = len(correction.skipped_days)
    if json:
        facts = {"tableVersion": classifier.version, "dryRun": dry_run, "views": correction.views}
        print_json({**facts, "skippedDays": skipped, "changes": rows})
        return
    columns = ("rule", "agent", "class", "newAgent", "newClass", "views")
    print_table(columns, [[row[column] for column in columns] for row in rows], "No stored view changes its class.")
    if rows and not dry_run:
        typer.echo(f"Classified {pluralize(correction.views, 'view')} again, with table {classifier.version}.")
    if skipped:
        typer.echo(f"Left {pluralize(skipped, 'day')} as before, because some of the raw views were deleted.", err=True)
