"""Carrying out what was decided for a shard. All of it may be done again, by this process or by one that takes over."""

from collections.abc import Sequence

from copydesk.analytics.stores.clickhouse.connection.node import Node, pieces
from copydesk.analytics.stores.clickhouse.folding.batches import Batches, recounted
from copydesk.analytics.stores.clickhouse.folding.shard_lease import Plan, Turn
from copydesk.analytics.stores.clickhouse.sql_files import sql

FOLDED = ("visits", "counts", "events", "scopes", "views")
SUMMED = ("firsts", "counts", "views")
"""Where adding twice would count twice; rows of the others replace each other. Each is marked as it is done: a server
that loses its power may keep what was inserted and forget the token by which it tells a repetition."""
LAST = """
    select greatest(
        (select max(number) from applied), (select max(number) from carried), (select max(fold) from staged)
    )
"""
OF_A_PROJECT = ("views", "visits", "firsts", "counts", "events", "scopes")
COUNT = "select batch, count() from inbox where batch in {batches:Array(UInt128)} group by batch"
THEIRS = "project = {project:String} and visitor = {visitor:UInt64}"
MARK = "insert into carried select {number:UInt64}, {what:String}"
WAITING = "batch in {batches:Array(UInt128)}"


def last(shard: Node) -> int:
    """The greatest number that ClickHouse has seen, done or not."""
    [(number,)] = shard.ask(LAST)
    return int(number)


def carry_out(shard: Node, batches: Batches, turn: Turn) -> int:
    """How many views it counted."""
    plan = turn.decided
    assert plan is not None, "there is something decided"
    mine = batches.of(turn.shard, fold=turn.number)
    given = {"fold": turn.number, "batches": [batch.id for batch in mine]}
    for table in ("firsts", *(FOLDED if mine else ())):
        turn.hold()
        shard.act(sql(f"apply_{table}"), given, token=f"{turn.number}-{table}")
        if table in SUMMED:
            shard.act(MARK, {"number": turn.number, "what": table})
    if "project" in plan:
        turn.hold()
        waiting = [batch.id for batch in batches.of(turn.shard, upto=plan["upto"])]
        (_forget_visitor if "visitor" in plan else _forget)(shard, plan, waiting)
        with batches.database.write() as tx:
            recounted(tx, turn.shard, count(shard, waiting))
    shard.act("insert into applied select {number:UInt64}", {"number": turn.number})
    turn.settle()
    shard.act(f"alter table staged drop partition {turn.number}")
    return sum(batch.rows for batch in mine)


def count(shard: Node, batches: Sequence[int]) -> dict[int, int]:
    """How many rows ClickHouse shows of each."""
    found = dict.fromkeys(batches, 0)
    for some in pieces(batches):
        found.update((batch, rows) for batch, rows in shard.ask(COUNT, {"batches": some}))
    return found


def _forget_visitor(shard: Node, plan: Plan, waiting: Sequence[int]) -> None:
    shard.act(f"alter table visits delete where {THEIRS}", plan)
    shard.act(f"alter table views update visitor = 0 where {THEIRS}", plan)
    for some in pieces(waiting):
        shard.act(f"alter table inbox update visitor = 0 where {THEIRS} and {WAITING}", {**plan, "batches": some})


def _forget(shard: Node, plan: Plan, waiting: Sequence[int]) -> None:
    for table in OF_A_PROJECT:
        shard.act(f"alter table {table} delete where project = {{project:String}}", plan)
    for some in pieces(waiting):
        shard.act(
            f"alter table inbox delete where project = {{project:String}} and {WAITING}", {**plan, "batches": some}
        )
