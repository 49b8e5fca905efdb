"""Folding a shard: what its batches change in the index is staged, then decided, then carried out."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from copydesk.analytics.clickhouse.batches import AI_BY_DEFAULT, OLDEST, Batch, Batches, claim
from copydesk.analytics.clickhouse.carrying import applied, carry_out, count
from copydesk.analytics.clickhouse.cluster import Cluster
from copydesk.analytics.clickhouse.errors import StoreLags
from copydesk.analytics.clickhouse.node import MOST_BATCHES, Node
from copydesk.analytics.clickhouse.statements import sql
from copydesk.analytics.clickhouse.turns import Turn, Turns
from copydesk.core.clock import SECOND

MOST = 250_000
"""Views in one fold: enough to pay for looking their visitors up, few enough for the memory."""
LAG_SECONDS = 5.0
STAGED = "insert into staged (fold, project, sort, scope, day, prev, human, ai, total)"
PARTS = "select distinct toUInt64(partition) from system.parts where database = currentDatabase() and table = 'inbox'"
PART = 600 * SECOND
"""The inbox is dropped in parts of ten minutes."""


def fold(cluster: Cluster, batches: Batches, turns: Turns) -> int:
    """Counts what was logged before. How many views that were."""
    upto, views = batches.last(), 0
    for number, shard in enumerate(cluster.shards):
        if not batches.of(number, most=1):
            continue
        with turns.of([number]) as [turn]:
            cluster.catch_up(shard)
            views += resume(shard, batches, turn)
            while some := _some(batches.of(number, upto=upto, most=MOST_BATCHES)):
                _check(shard, some)
                begin(shard, turn)
                stage(shard, turn, sql("fold_visits"), batches.masks(), given={"batches": [batch.id for batch in some]})
                with batches.database.write() as tx:
                    claim(tx, number, turn.number, some)
                    turn.decide(tx, {})
                views += carry_out(shard, batches, turn)
            _drop_old(shard, batches, turn)
    return views


def resume(shard: Node, batches: Batches, turn: Turn) -> int:
    """Carries out what an earlier turn decided and did not live to."""
    return 0 if turn.decided is None else carry_out(shard, batches, turn)


def begin(shard: Node, turn: Turn) -> None:
    """With a number that ClickHouse has not seen either: the main database may be an older copy."""
    turn.advance(applied(shard))


def stage(
    shard: Node,
    turn: Turn,
    visits: str,
    masks: Mapping[str, int],
    before: Mapping[str, int] | None = None,
    given: Mapping[str, Any] | None = None,
    part: int = 0,
) -> None:
    """What the index changes by when these visits change so, under these choices of what is AI."""
    chosen = sorted(masks)
    asked = {
        "fold": turn.number,
        "ai": AI_BY_DEFAULT,
        "chosen": chosen,
        "ai_now": [masks[project] for project in chosen],
        "ai_was": [(masks if before is None else before).get(project, AI_BY_DEFAULT) for project in chosen],
    }
    query = f"{STAGED} {sql('links').replace('$visits', visits)}"
    shard.act(query, {**asked, **(given or {}), "part": part}, token=f"{turn.number}-staged-{part}")


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


def _drop_old(shard: Node, batches: Batches, turn: Turn) -> None:
    """Parts of the inbox of which nothing waits and nothing can come any more: what was folded, and what never came to
    exist because its process died."""
    now, known = batches.moment()
    waiting = {batch >> 80 for batch in known.batches}
    for (part,) in shard.ask(PARTS):
        begun, ended = part * PART, (part + 1) * PART
        if ended + 2 * OLDEST < now and not any(begun <= made < ended for made in waiting):
            turn.hold()
            shard.act(f"alter table inbox drop partition {part}")
