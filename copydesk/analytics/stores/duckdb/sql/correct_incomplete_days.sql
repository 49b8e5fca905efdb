-- The affected days of which raw views were deleted: they have fewer raw views than counted views.
with raw_views as (
    select (time // 86400000)::usmallint as day, count(*) as n
    from views
    where project = $project and seq <= $folded
    group by day
),
counted_views as (
    select day, sum(n) as n
    from counts
    where project = $project and (
        scope = (select site from projects where id = $project)
        or scope in (select id from scopes where project = $project and sort = 3)
    )
    group by day
)
select day
from affected_days left join raw_views using (day) left join counted_views using (day)
where coalesce(raw_views.n, 0) <> coalesce(counted_views.n, 0)
order by day;
