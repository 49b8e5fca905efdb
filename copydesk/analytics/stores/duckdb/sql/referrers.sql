-- Where people came from: hosts (sort 6 to 31), and the kind without hosts, direct (sort = 5, kind = 5).
with sources as (
    select id as scope, kind, path from scopes
    where project = $project and (sort between 6 and 31 or (sort = 5 and kind = 5))
),
view_counts as (
    select scope, sum(n)::bigint as views from counts
    where project = $project and day >= $first and day < $end and scope in (select scope from sources)
    group by scope
    having sum(n) > 0
),
visitor_counts as (
    select scope, sum(total)::bigint as visitors from firsts
    where project = $project and day >= $first and day < $end and prev < $first
        and scope in (select scope from sources)
    group by scope
)
select kind, path, coalesce(visitors, 0) as visitors, views
from view_counts join sources using (scope) left join visitor_counts using (scope)
order by visitors desc, views desc, path, kind
limit $limit + 1 offset $offset;
