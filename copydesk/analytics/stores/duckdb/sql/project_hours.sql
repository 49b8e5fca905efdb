-- Visitors and views of several projects by hour, and in the hour -1 of all hours: what hours.sql counts for one project.
-- One scan for all projects takes far less time than one for each.
with hourly as (
    select
        project, projects.ai, time // 3600000 as hour, visitor, bit_or(kind) as bits,
        count(*) filter (kind = 1) as human_views, count(*) filter (kind & projects.ai <> 0) as ai_views
    from views join projects on projects.id = views.project
    where project in (select unnest($projects::integer[])) and time >= $first and time < $end
        and kind & (projects.ai | 1) <> 0 and seq <= $folded and agent in (select id from scopes where sort = 2)
    group by project, projects.ai, hour, visitor
),
of_all_hours as (
    select
        project, ai, -1 as hour, visitor, bit_or(bits) as bits, sum(human_views) as human_views,
        sum(ai_views) as ai_views
    from hourly
    group by project, ai, visitor
)
select
    project, hour, count(visitor) filter (bits & 1 <> 0), count(visitor) filter (bits & ai <> 0), count(visitor),
    sum(human_views)::bigint, sum(ai_views)::bigint
from (from hourly union all by name from of_all_hours)
group by project, hour
order by 1, 2;
