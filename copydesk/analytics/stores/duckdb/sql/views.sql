-- The first row is the whole site, then all pages up to the requested ones, and one more.
with totals as (
    select
        scope, coalesce(sum(n) filter (kind = 1), 0)::bigint as human,
        coalesce(sum(n) filter (kind & (select ai from projects where id = $project) <> 0), 0)::bigint as ai,
        human + ai as total
    from counts
    where project = $project and day >= $first and day < $end
    group by scope
    having total > 0
)
select path, totals.human, totals.ai, total
from totals join scopes on scopes.id = scope
where sort < 2
order by sort desc, total desc, path
limit $offset + $limit + 2;
