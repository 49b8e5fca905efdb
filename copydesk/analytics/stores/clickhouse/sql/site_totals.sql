-- The visitors and views of several sites. A visitor is counted on their first day in the range.
select
    project, transform(project, {projects:Array(String)}, {masks:Array(UInt8)}, toUInt8(0)) as ai_mask,
    visitor_counts.human, visitor_counts.ai, visitor_counts.total, view_counts.human, view_counts.ai
from (
    select
        project, sumIf(n, kind = 1) as human,
        sumIf(n, bitAnd(kind, transform(project, {projects:Array(String)}, {masks:Array(UInt8)}, toUInt8(0))) != 0) as ai
    from counts
    where project in {projects:Array(String)} and sort = 1 and day >= {first:UInt16} and day < {end:UInt16}
    group by project
    having human + ai > 0
) as view_counts
left join (
    select project, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project in {projects:Array(String)} and sort = 1
        and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    group by project
) as visitor_counts using (project)
order by project;
