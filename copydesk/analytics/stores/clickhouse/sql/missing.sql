-- The missing pages with requests by people or AI, most visitors first; then one more, and the page '' of all others,
-- which is the first row if it has requests.
select scope, path, human, ai, total, views
from (
    select scope, sum(n) as views
    from counts
    where project = {project:String} and sort = 3 and day >= {first:UInt16} and day < {end:UInt16}
        and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    group by scope
    having views > 0
) as request_counts
left join (
    select scope, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = 3
        and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    group by scope
) as visitor_counts using (scope)
inner join (
    select scope, any(path) as path from scopes where project = {project:String} and sort = 3 group by scope
) as named using (scope)
order by path != '', total desc, path
limit {offset:UInt64} + {limit:UInt64} + 2;
