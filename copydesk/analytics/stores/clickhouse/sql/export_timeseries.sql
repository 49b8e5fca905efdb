-- The visitors and views of the whole site on a day: one row, or none if neither people nor AI came.
select
    {day:UInt16} as date, visitor_counts.human as human, visitor_counts.ai as ai, visitor_counts.total as total,
    view_counts.human as viewsHuman, view_counts.ai as viewsAi, view_counts.human + view_counts.ai as viewsTotal
from (
    select sumIf(n, kind = 1) as human, sumIf(n, bitAnd(kind, {ai:UInt8}) != 0) as ai
    from counts
    where project = {project:String} and sort = 1 and day = {day:UInt16}
) as view_counts
cross join (
    select sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = 1 and day = {day:UInt16}
) as visitor_counts
where view_counts.human + view_counts.ai > 0
