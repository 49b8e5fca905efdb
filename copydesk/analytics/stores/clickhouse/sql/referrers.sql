-- Where people came from: hosts (sort > 5), and the kind without hosts, direct (sort = 5, kind = 5).
select kind, path, visitors, views
from (
    select scope, sum(n) as views
    from counts
    where project = {project:String} and sort >= 5 and day >= {first:UInt16} and day < {end:UInt16}
    group by scope
    having views > 0
) as view_counts
left join (
    select scope, sum(total) as visitors
    from firsts
    where project = {project:String} and sort >= 5
        and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    group by scope
) as visitor_counts using (scope)
inner join (
    select scope, any(kind) as kind, any(path) as path
    from scopes
    where project = {project:String} and sort >= 5
    group by scope
) as named using (scope)
order by visitors desc, views desc, path, kind
limit {limit:UInt64} + 1 offset {offset:UInt64};
