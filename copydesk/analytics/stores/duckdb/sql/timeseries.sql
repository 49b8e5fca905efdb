-- A visitor is counted in an interval on their first day in it, within the range. The interval is computed once per
-- day, not once per row of the index.
with days as (
    select
        day, begin_of(day, $interval) as begun, coalesce(sum(n) filter (kind = 1), 0) as human,
        coalesce(sum(n) filter (kind & $ai <> 0), 0) as ai
    from counts
    where project = $project and scope = $site and day >= $first and day < $end
    group by day
),
met as (
    select begun, sum(firsts.human) as human, sum(firsts.ai) as ai, sum(total) as total
    from firsts join days using (day)
    where project = $project and scope = $site and day >= $first and day < $end and prev < greatest(begun, $first)
    group by begun
),
seen as (
    select begun, sum(human) as human, sum(ai) as ai from days group by begun
)
select
    begun, coalesce(met.human, 0)::bigint, coalesce(met.ai, 0)::bigint, coalesce(met.total, 0)::bigint,
    seen.human::bigint, seen.ai::bigint
from seen left join met using (begun)
where seen.human + seen.ai > 0
order by begun;
