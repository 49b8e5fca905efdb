-- A visitor is counted on their first day in the range, which is the day whose previous day is before the range.
-- The first row is the whole site, then all pages up to the requested ones, and one more. The code inserts the order.
with totals as (
    select scope, sum(human)::bigint as human, sum(ai)::bigint as ai, sum(total)::bigint as total
    from firsts
    where project = $project and day >= $first and day < $end and prev < $first
    group by scope
    having sum(total) > 0
)
select path, totals.human, totals.ai, total
from totals join scopes on scopes.id = scope
where sort = 1 or (sort = 0 and contains(lower(path), lower($search)))
order by sort desc, /* order */ path
limit $offset + $limit + 2;
