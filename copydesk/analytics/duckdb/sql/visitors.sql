-- A visitor is counted on the first day they appear in the range, which is the day whose previous one lies before it.
-- The site as a whole comes first, then the pages asked for and one more.
with found as (
    select scope, sum(human)::bigint as human, sum(ai)::bigint as ai, sum(total)::bigint as total
    from firsts
    where project = $project and day >= $first and day < $end and prev < $first
    group by scope
    having sum(total) > 0
)
select path, found.human, found.ai, total
from found join scopes on scopes.id = scope
where sort < 2
window ranked as (order by sort desc, total desc, path)
qualify row_number() over ranked = 1 or row_number() over ranked between $offset + 2 and $offset + $limit + 2
order by sort desc, total desc, path;
