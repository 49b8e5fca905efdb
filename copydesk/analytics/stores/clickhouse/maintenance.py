"""What happens now and then, on all shards at once: rebuilding, choosing what is AI, forgetting, dropping raw views."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import MOST_PROJECTS, SLOW_SECONDS, Node, pieces
from copydesk.analytics.stores.clickhouse.folding.apply_plan import THEIRS, carry_out
from copydesk.analytics.stores.clickhouse.folding.batches import Batches, choose, unchoose
from copydesk.analytics.stores.clickhouse.folding.fold import STAGED, begin, drop_old, resume, stage
from copydesk.analytics.stores.clickhouse.folding.shard_lease import Plan, Turn, Turns
from copydesk.core.clock import DAY

PART = 1_000_000
"""Visits that are chained at once."""
VISITS = "select project, sort, scope, visitor, day, {before} as before, {after} as after from visits where {which}"
OF_PART = "visitor % {parts:UInt64} = {part:UInt64}"
OF_PROJECT = VISITS.format(before="bits", after="bits", which=f"{OF_PART} and project = {{project:String}}")
OF_ALL = VISITS.format(before="0", after="bits", which=OF_PART)
OF_VISITOR = VISITS.format(before="bits", after="0", which=THEIRS)
CURRENT = f"""
    {STAGED}
    select {{fold:UInt64}}, project, sort, scope, day, prev, -sum(human), -sum(ai), -sum(total) from firsts
    group by project, sort, scope, day, prev
"""  # noqa: S608 - ours
OLD = "at < {time:Int64}"
Change = Callable[[Connection], None]


class Upkeep:
    def __init__(self, cluster: Cluster, batches: Batches, turns: Turns) -> None:
        self._cluster, self._batches, self._turns = cluster, batches, turns

    def rebuild(self) -> None:
        with self._all() as turns:
            masks = self._batches.masks()
            for shard, turn in turns:
                for part in range(parts := _parts(shard)):
                    stage(shard, turn, OF_ALL, masks, given={"parts": parts}, part=part)
                shard.act(CURRENT, {"fold": turn.number}, token=f"{turn.number}-current")
            self._decide(turns, {})

    def count_as_ai(self, project: str, mask: int, patience: float | None) -> None:
        """Costs two look-ups when it is so already: chosen first, and then carried out."""
        if self._batches.mask(project) == mask and not self._is_waiting(project):
            return
        with self._all(patience) as turns:
            before = self._batches.mask(project)
            if before == mask:
                return
            for shard, turn in turns:
                given = {"project": project, "parts": (parts := _parts(shard, project))}
                for part in range(parts):
                    stage(shard, turn, OF_PROJECT, {project: mask}, {project: before}, given, part)
            self._decide(turns, {"chosen": project}, lambda tx: choose(tx, project, mask))

    def forget(self, project: str) -> None:
        with self._all() as turns:
            plan: Plan = {"project": project, "upto": self._batches.last()}
            self._decide(turns, plan, lambda tx: unchoose(tx, project))

    def forget_visitor(self, project: str, visitor: int) -> None:
        with self._all() as turns:
            masks = {project: self._batches.mask(project)}
            for shard, turn in turns:
                stage(shard, turn, OF_VISITOR, masks, given={"project": project, "visitor": visitor})
            self._decide(turns, {"project": project, "visitor": visitor, "upto": self._batches.last()})

    def drop_views(self, before: int, projects: Collection[str] | None) -> int:
        """Nothing else reads raw views but the rules, so that no turn is needed for them; the inbox needs one."""
        dropped = 0
        which = OLD if projects is None else f"{OLD} and project in {{projects:Array(String)}}"
        for some in pieces(sorted(projects or ()), MOST_PROJECTS):
            given = {"time": before * DAY, "projects": some}
            for shard in self._cluster.shards:
                [(old,)] = shard.ask(f"select count() from views where {which}", given, SLOW_SECONDS)  # noqa: S608 - ours
                if old:
                    shard.act(f"alter table views delete where {which}", given)
                dropped += old
        self._tidy()
        return dropped

    def _is_waiting(self, project: str) -> bool:
        return any(plan.get("chosen") == project for plan in self._turns.plans().values())

    def _tidy(self) -> None:
        """What folds do as well, for a store that nothing comes to any more."""
        for number, replicas in enumerate(self._cluster.shards):
            with self._turns.of([number]) as [turn]:
                shard = self._cluster.catch_up(replicas)
                resume(shard, self._batches, turn)
                drop_old(shard, self._batches, turn)

    @contextmanager
    def _all(self, patience: float | None = None) -> Iterator[list[tuple[Node, Turn]]]:
        """The turns of all shards, each with a fresh number, and nothing left to carry out."""
        shards = self._cluster.shards
        with self._turns.of(range(len(shards)), patience) as turns:
            taken = []
            for replicas, turn in zip(shards, turns, strict=True):
                shard = self._cluster.catch_up(replicas)
                resume(shard, self._batches, turn)
                begin(shard, turn)
                taken.append((shard, turn))
            yield taken

    def _decide(self, turns: list[tuple[Node, Turn]], plan: Plan, change: Change = lambda _: None) -> None:
        """On all shards or on none."""
        with self._batches.database.write() as tx:
            for _, turn in turns:
                turn.decide(tx, plan)
            change(tx)
        for shard, turn in turns:
            carry_out(shard, self._batches, turn)


def _parts(shard: Node, project: str | None = None) -> int:
    """So many that each holds about as many visits as memory has room for."""
    where = "" if project is None else " where project = {project:String}"
    [(visits,)] = shard.ask(f"select count() from visits{where}", {"project": project or ""})  # noqa: S608 - ours
    return 1 + int(visits) // PART
