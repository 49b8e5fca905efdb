"""Folding a shard: what its batches change in the index is staged, then decided, then carried out."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.errors import StoreLags
from copydesk.analytics.stores.clickhouse.connection.node import MOST_BATCHES, MOST_PROJECTS, Node
from copydesk.analytics.stores.clickhouse.folding.apply_plan import carry_out, count, last
from copydesk.analytics.stores.clickhouse.folding.batches import AI_BY_DEFAULT, OLDEST, Batch, Batches, claim
from copydesk.analytics.stores.clickhouse.folding.shard_lease import Turn, Turns
from copydesk.analytics.stores.clickhouse.sql_files import sql
from copydesk.core.clock import SECOND

MOST = 250_000
"""Views in one fold: enough to pay for looking their visitors up, few enough for the memory."""
LAG_SECONDS = 5.0
STAGED = "insert into staged (fold, project, sort, scope, day, prev, human, ai, total)"
PROJECTS = "select distinct project from inbox where batch in {batches:Array(UInt128)}"
PARTS = "select distinct toUInt64(partition) from system.parts where database = currentDatabase() and table = 'inbox'"
DEAD = "select distinct fold from staged where fold <= (select max(number) from applied)"
PART = 600 * SECOND
"""The inbox is dropped in parts of ten minutes."""


def fold(cluster: Cluster, batches: Batches, turns: Turns) -> int:
    """Counts what was logged before. How many views that were."""
    upto, plans, views = batches.last(), turns.plans(), 0
    for number, replicas in enumerate(cluster.shards):
        if number not in plans and not batches.of(number, most=1):
            continue
        with turns.of([number]) as [turn]:
            shard = cluster.catch_up(replicas)
            views += resume(shard, batches, turn)
            while some := _some(batches.of(number, upto=upto, most=MOST_BATCHES)):
                _check(shard, some)
                begin(shard, turn)
                given = {"batches": [batch.id for batch in some]}
                stage(shard, turn, sql("fold_visits"), _masks(shard, batches, given), given=given)
                with batches.database.write() as tx:
                    claim(tx, number, turn.number, some)
                    turn.decide(tx, {})
                views += carry_out(shard, batches, turn)
            drop_old(shard, batches, turn)
    return views


def resume(shard: Node, batches: Batches, turn: Turn) -> int:
    """Carries out what an earlier turn decided and did not live to."""
    return 0 if turn.decided is None else carry_out(shard, batches, turn)


def begin(shard: Node, turn: Turn) -> None:
    """With a number that ClickHouse has not seen either: the main database may be an older copy."""
    turn.advance(last(shard))


def stage(
    shard: Node,
    turn: Turn,
    visits: str,
    masks: Mapping[str, int],
    before: Mapping[str, int] | None = None,
    given: Mapping[str, Any] | None = None,
    part: int = 0,
) -> None:
    """What the index changes by when these visits change so, under these choices of what is AI. It takes one group of
    projects at a time, since a statement has room for the choices of so many."""
    query = f"{STAGED} {sql('links').replace('$visits', visits)}"
    groups = 1 + len(masks) // MOST_PROJECTS
    for group in range(groups):
        chosen = sorted(project for project in masks if crc32(project.encode()) % groups == group)
        asked = {
            "fold": turn.number,
            "groups": groups,
            "group": group,
            "ai": AI_BY_DEFAULT,
            "chosen": chosen,
            "ai_now": [masks[project] for project in chosen],
            "ai_was": [(masks if before is None else before).get(project, AI_BY_DEFAULT) for project in chosen],
        }
        shard.act(query, {**asked, **(given or {}), "part": part}, token=f"{turn.number}-staged-{part}-{group}")


def _masks(shard: Node, batches: Batches, given: Mapping[str, Any]) -> dict[str, int]:
    """Of the projects in these batches alone, where there are so many that staging would go by groups."""
    masks = batches.masks()
    if len(masks) < MOST_PROJECTS:
        return masks
    return {project: masks[project] for (project,) in shard.ask(PROJECTS, given) if project in masks}


def _some(batches: Sequence[Batch]) -> list[Batch]:
    """As many as fit in one fold, and one at least."""
    taken: list[Batch] = []
    rows = 0
    for batch in batches:
        rows += batch.rows
        if taken and rows > MOST:
            break
        taken.append(batch)
    return taken


def _check(shard: Node, batches: Sequence[Batch]) -> None:
    """A replica that has not caught up must not be folded."""
    wanted, until = {batch.id: batch.rows for batch in batches}, time.monotonic() + LAG_SECONDS
    while count(shard, list(wanted)) != wanted:
        if time.monotonic() > until:
            raise StoreLags
        time.sleep(0.2)


def drop_old(shard: Node, batches: Batches, turn: Turn) -> None:
    """Parts of the inbox of which nothing waits and nothing can come any more: what was folded, and what never came to
    exist because its process died. And what was staged by a turn that did not live to decide."""
    now, known = batches.moment()
    waiting = {batch >> 80 for batch in known.batches}
    for (part,) in shard.ask(PARTS):
        begun, ended = part * PART, (part + 1) * PART
        if ended + 2 * OLDEST < now and not any(begun <= made < ended for made in waiting):
            turn.hold()
            shard.act(f"alter table inbox drop partition {part}")
    for (number,) in shard.ask(DEAD):
        turn.hold()
        shard.act(f"alter table staged drop partition {number}")
