with view_counts as (
    select scope, sum(n)::bigint as views from counts
    where project = $project and day >= $first and day < $end
    group by scope
),
visitor_counts as (
    select scope, sum(total)::bigint as visitors from firsts
    where project = $project and day >= $first and day < $end and prev < $first
    group by scope
)
select agent, operator, kind, coalesce(visitors, 0) as visitors, views
from view_counts left join visitor_counts using (scope) join scopes on scopes.id = scope
where sort = 2 and views > 0
order by visitors desc, views desc, agent, operator, kind
limit $limit + 1 offset $offset;
