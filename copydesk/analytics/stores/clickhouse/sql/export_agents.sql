-- The visitors and views of each agent on a day.
select
    {day:UInt16} as date, nullIf(agent, '') as agent, nullIf(operator, '') as operator,
    transform(kind, [1, 2, 4, 8], ['human', 'assistant', 'search', 'training'], 'other') as class, visitors, views
from (
    select scope, sum(n) as views
    from counts
    where project = {project:String} and sort = 2 and day = {day:UInt16}
    group by scope
    having views > 0
) as view_counts
left join (
    select scope, sum(total) as visitors
    from firsts
    where project = {project:String} and sort = 2 and day = {day:UInt16}
    group by scope
) as visitor_counts using (scope)
inner join (
    select scope, any(agent) as agent, any(operator) as operator, any(kind) as kind
    from scopes
    where project = {project:String} and sort = 2
    group by scope
) as named using (scope)
