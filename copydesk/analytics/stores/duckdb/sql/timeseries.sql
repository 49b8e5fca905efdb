-- A visitor is counted in an interval on their first day in it, within the range. The interval is computed once per
-- day, not once per row of the index.
with daily_views as (
    select
        day, interval_start(day, $interval) as start_day, coalesce(sum(n) filter (kind = 1), 0) as human,
        coalesce(sum(n) filter (kind & $ai <> 0), 0) as ai
    from counts
    where project = $project and scope = $scope and day >= $first and day < $end
    group by day
),
visitor_counts as (
    select start_day, sum(firsts.human) as human, sum(firsts.ai) as ai, sum(total) as total
    from firsts join daily_views using (day)
    where project = $project and scope = $scope and day >= $first and day < $end and prev < greatest(start_day, $first)
    group by start_day
),
view_counts as (
    select start_day, sum(human) as human, sum(ai) as ai from daily_views group by start_day
)
select
    start_day, coalesce(visitor_counts.human, 0)::bigint, coalesce(visitor_counts.ai, 0)::bigint,
    coalesce(visitor_counts.total, 0)::bigint,
    view_counts.human::bigint, view_counts.ai::bigint
from view_counts left join visitor_counts using (start_day)
where view_counts.human + view_counts.ai > 0
order by start_day;
