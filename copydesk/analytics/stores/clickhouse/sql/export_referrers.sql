-- Where people came from on a day: hosts (sort > 5), and the kind without hosts, direct (sort = 5, kind = 5).
select
    {day:UInt16} as date, multiIf(source_kind = 5, null, path = '', '(other)', path) as referrer,
    transform(source_kind, [1, 2, 3, 4], ['ai', 'search', 'social', 'site'], 'direct') as kind, visitors, views
from (
    select scope, sum(n) as views
    from counts
    where project = {project:String} and sort >= 5 and day = {day:UInt16}
    group by scope
    having views > 0
) as view_counts
left join (
    select scope, sum(total) as visitors
    from firsts
    where project = {project:String} and sort >= 5 and day = {day:UInt16}
    group by scope
) as visitor_counts using (scope)
inner join (
    select scope, any(kind) as source_kind, any(path) as path
    from scopes
    where project = {project:String} and sort >= 5
    group by scope
) as named using (scope)
