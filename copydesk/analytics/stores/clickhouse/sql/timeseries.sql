-- A visitor is counted in an interval on their first day in it, within the range.
with day -> multiIf(
    {interval:String} = 'week', toInt32(day) - (day + 3) % 7,
    {interval:String} = 'month', toInt32(toStartOfMonth(toDate(day))),
    toInt32(day)
) as interval_start
select start_day, visitor_counts.human, visitor_counts.ai, visitor_counts.total, view_counts.human, view_counts.ai
from (
    select interval_start(day) as start_day, sumIf(n, kind = 1) as human, sumIf(n, bitAnd(kind, {ai:UInt8}) != 0) as ai
    from counts
    where project = {project:String} and sort = {sort:UInt8} and scope = {scope:UInt64} and day >= {first:UInt16} and day < {end:UInt16}
    group by start_day
    having human + ai > 0
) as view_counts
left join (
    select interval_start(day) as start_day, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = {sort:UInt8} and scope = {scope:UInt64} and day >= {first:UInt16} and day < {end:UInt16}
        and prev < greatest(interval_start(day), {first:UInt16})
    group by start_day
) as visitor_counts using (start_day)
order by start_day;
