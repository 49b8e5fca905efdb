-- A visitor is counted in an interval on the first day they appear in the part of it that lies in the range.
with site as (
    select id from scopes where project = $project and sort = 1
),
met as (
    select begin_of(day, $interval) as begun, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = $project and scope in (from site) and day >= $first and day < $end
        and prev < greatest(begin_of(day, $interval), $first)
    group by begun
),
seen as (
    select
        begin_of(day, $interval) as begun, sum(n) filter (kind = 1) as human,
        sum(n) filter (kind & (select ai from projects where id = $project) <> 0) as ai
    from counts
    where project = $project and scope in (from site) and day >= $first and day < $end
    group by begun
)
select
    begun, coalesce(met.human, 0)::bigint, coalesce(met.ai, 0)::bigint, coalesce(met.total, 0)::bigint,
    coalesce(seen.human, 0)::bigint, coalesce(seen.ai, 0)::bigint
from seen left join met using (begun)
where coalesce(seen.human, 0) + coalesce(seen.ai, 0) > 0
order by begun;
