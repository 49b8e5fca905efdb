-- Where people came from on a day: hosts (sort 6 to 31), and the kind without hosts, direct (sort = 5, kind = 5).
with sources as (
    select id as scope, kind, path from scopes
    where project = $project and (sort between 6 and 31 or (sort = 5 and kind = 5))
),
view_counts as (
    select scope, sum(n) as views from counts
    where project = $project and day = $day and scope in (select scope from sources)
    group by scope
    having sum(n) > 0
),
visitor_counts as (
    select scope, sum(total) as visitors from firsts
    where project = $project and day = $day and scope in (select scope from sources)
    group by scope
)
select
    $day as date, case when kind = 5 then null when path = '' then '(other)' else path end as referrer,
    case kind when 1 then 'ai' when 2 then 'search' when 3 then 'social' when 4 then 'site' else 'direct' end as kind,
    coalesce(visitors, 0) as visitors, views
from view_counts join sources using (scope) left join visitor_counts using (scope)
