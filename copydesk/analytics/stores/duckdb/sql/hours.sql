-- Visitors and views by hour, and in the hour -1 of all hours. Requests for missing pages, whose agent has the sort 4,
-- are not views. Grouping by visitor first takes half the time of counting distinct visitors.
with hourly as (
    select
        time // 3600000 as hour, visitor, bit_or(kind) as bits, count(*) filter (kind = 1) as human,
        count(*) filter (kind & $ai <> 0) as ai
    from views
    where project = $project and time >= $first and time < $end and kind & ($ai | 1) <> 0 and seq <= $folded
        and agent in (select id from scopes where sort = 2)
    group by hour, visitor
),
of_all_hours as (
    select visitor, bit_or(bits) as bits, sum(human) as human, sum(ai) as ai from hourly group by visitor
)
select
    hour, count(visitor) filter (bits & 1 <> 0), count(visitor) filter (bits & $ai <> 0), count(visitor),
    sum(human)::bigint, sum(ai)::bigint
from hourly
group by hour
union all
select
    -1, count(visitor) filter (bits & 1 <> 0), count(visitor) filter (bits & $ai <> 0), count(visitor),
    sum(human)::bigint, sum(ai)::bigint
from of_all_hours
having count(*) > 0
order by 1;
