-- The missing pages with requests by people or AI, most visitors first; then one more, and the page '' of all others,
-- which is the first row if it has requests.
with missing_pages as (
    select id as scope, path from scopes where project = $project and sort = 3
),
request_counts as (
    select scope, sum(n)::bigint as views from counts
    where project = $project and day >= $first and day < $end and scope in (select scope from missing_pages)
        and kind & (1 | (select ai from projects where id = $project)) <> 0
    group by scope
    having sum(n) > 0
),
visitor_counts as (
    select scope, sum(human)::bigint as human, sum(ai)::bigint as ai, sum(total)::bigint as total from firsts
    where project = $project and day >= $first and day < $end and prev < $first
        and scope in (select scope from missing_pages)
    group by scope
)
select
    scope, path, coalesce(human, 0) as human, coalesce(ai, 0) as ai, coalesce(total, 0) as total, views
from request_counts join missing_pages using (scope) left join visitor_counts using (scope)
order by path <> '', total desc, path
limit $offset + $limit + 2;
