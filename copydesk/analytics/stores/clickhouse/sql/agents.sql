select agent, operator, kind, visitors, views
from (
    select scope, sum(n) as views
    from counts
    where project = {project:String} and sort = 2 and day >= {first:UInt16} and day < {end:UInt16}
    group by scope
    having views > 0
) as view_counts
left join (
    select scope, sum(total) as visitors
    from firsts
    where project = {project:String} and sort = 2
        and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    group by scope
) as visitor_counts using (scope)
inner join (
    select scope, any(agent) as agent, any(operator) as operator, any(kind) as kind
    from scopes
    where project = {project:String} and sort = 2
    group by scope
) as named using (scope)
order by visitors desc, views desc, agent, operator, kind
limit {limit:UInt64} + 1 offset {offset:UInt64};
