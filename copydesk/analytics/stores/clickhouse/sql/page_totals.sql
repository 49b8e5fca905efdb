-- The visitors of a page, its views by people and AI, and the views of all classes of the page and of the site; no row if
-- the page has no views on any day.
select
    (
        select tuple(sum(human), sum(ai), sum(total)) from firsts
        where project = {project:String} and sort = 0 and scope = {scope:UInt64}
            and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
    ) as visitors,
    sumIf(
        n, day >= {first:UInt16} and day < {end:UInt16} and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    ) as views,
    sumIf(n, day >= {first:UInt16} and day < {end:UInt16}) as page_views,
    (
        select sum(n) from counts
        where project = {project:String} and sort = 1 and day >= {first:UInt16} and day < {end:UInt16}
    ) as site_views
from counts
where project = {project:String} and sort = 0 and scope = {scope:UInt64}
having sum(n) > 0;
