-- The changes of the index when the classes of these visits change from before to after. Each day of a visitor as human
-- (1), AI (2) or either (4) has a link to the previous such day. A visit to a page, or a missing page, counts for it. A
-- visit as an agent counts for the agent, in any class, and for the site. A visit from a host counts for it and its kind.
select
    {fold:UInt64} as fold, owner as project, to_sort as sort, to_scope as scope, day, link.1 as prev,
    sum(if(kind = 1, link.2, 0)) as human, sum(if(kind = 2, link.2, 0)) as ai, sum(if(kind = 4, link.2, 0)) as total
from (
    select
        owner, to_sort, to_scope, day, was, now,
        max(if(bitAnd(was, 1) != 0, day, 0)) over chain as human_before,
        max(if(bitAnd(was, 2) != 0, day, 0)) over chain as ai_before,
        max(if(bitAnd(was, 4) != 0, day, 0)) over chain as either_before,
        max(if(bitAnd(now, 1) != 0, day, 0)) over chain as human_after,
        max(if(bitAnd(now, 2) != 0, day, 0)) over chain as ai_after,
        max(if(bitAnd(now, 4) != 0, day, 0)) over chain as either_after
    from (
        select
            any(project) as owner, target.1 as to_sort, target.2 as to_scope, visitor, day,
            groupBitOr(toUInt8(
                (bitAnd(before, target.3) != 0) + 2 * (bitAnd(before, target.4) != 0)
                + 4 * (bitAnd(before, bitOr(target.3, target.4)) != 0)
            )) as was,
            groupBitOr(toUInt8(
                (bitAnd(after, target.3) != 0) + 2 * (bitAnd(after, target.5) != 0)
                + 4 * (bitAnd(after, bitOr(target.3, target.5)) != 0)
            )) as now
        from (
            select
                *, indexOf({chosen:Array(String)}, project) as place,
                if(place = 0, {ai:UInt8}, {ai_was:Array(UInt8)}[place]) as mask_was,
                if(place = 0, {ai:UInt8}, {ai_now:Array(UInt8)}[place]) as mask_now
            from ($visits)
            where CRC32(project) % {groups:UInt64} = {group:UInt64}
        )
        array join multiIf(
            sort = 2, [(2, scope, 0, 31, 31), (1, sipHash64(project, 'site'), 1, mask_was, mask_now)],
            sort > 5, [
                (sort, scope, 1, mask_was, mask_now),
                (5, sipHash64(project, 'source', toUInt8(sort - 5)), 1, mask_was, mask_now)
            ],
            [(sort, scope, 1, mask_was, mask_now)]
        ) as target
        group by to_sort, to_scope, visitor, day
    )
    window chain as (
        partition by to_sort, to_scope, visitor order by day rows between unbounded preceding and 1 preceding
    )
)
array join
    [1, 2, 4] as kind, [human_before, ai_before, either_before] as before, [human_after, ai_after, either_after] as after
array join arrayFilter(
    link -> link.2 != 0, [(before, -toInt64(bitAnd(was, kind) != 0)), (after, toInt64(bitAnd(now, kind) != 0))]
) as link
where bitAnd(was, kind) != bitAnd(now, kind) or (bitAnd(now, kind) != 0 and before != after)
group by owner, to_sort, to_scope, day, prev
having human != 0 or ai != 0 or total != 0
