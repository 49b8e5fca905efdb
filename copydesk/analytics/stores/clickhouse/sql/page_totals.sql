-- The visitors of a page, and its views by people and AI; no row if it has no views on any day.
select
    (
        select tuple(sum(human), sum(ai), sum(total)) from firsts
        where project = {project:String} and sort = 0 and scope = {scope:UInt64}
            and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    ) as visitors,
    sumIf(
        n, day >= {first:UInt16} and day < {end:UInt16} and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    ) as views
from counts
where project = {project:String} and sort = 0 and scope = {scope:UInt64}
having sum(n) > 0;
