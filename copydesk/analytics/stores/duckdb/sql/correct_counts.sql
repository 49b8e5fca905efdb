insert into counts
with view_counts as (
    select coalesce(page, agent) as scope, (time // 86400000)::usmallint as day, kind::utinyint as kind, count(*) as n
    from views
    where project = $project and seq <= $folded
        and (time // 86400000)::usmallint in (select day from affected_days)
    group by grouping sets ((page, day, kind), (agent, day, kind))
)
select project, target, day, kind, sum(n) from view_counts join targets using (scope) group by all;
