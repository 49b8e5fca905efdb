-- A visitor is counted in an interval on their first day in it, within the range.
with day -> multiIf(
    {interval:String} = 'week', toInt32(day) - (day + 3) % 7,
    {interval:String} = 'month', toInt32(toStartOfMonth(toDate(day))),
    toInt32(day)
) as begin_of
select begun, met.human, met.ai, met.total, seen.human, seen.ai
from (
    select begin_of(day) as begun, sumIf(n, kind = 1) as human, sumIf(n, bitAnd(kind, {ai:UInt8}) != 0) as ai
    from counts
    where project = {project:String} and sort = 1 and day >= {first:UInt16} and day < {end:UInt16}
    group by begun
    having human + ai > 0
) as seen
left join (
    select begin_of(day) as begun, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = 1 and day >= {first:UInt16} and day < {end:UInt16}
        and prev < greatest(begin_of(day), {first:UInt16})
    group by begun
) as met using (begun)
order by begun;
