-- The missing pages that people or AI requested on a day, with up to 10 referrers of each. The path '' stands for all
-- paths beyond the limit of missing paths.
select
    {day:UInt16} as date, path, human, ai, total, requests, last as lastSeenAt, nullIf(listed, '') as referrers
from (
    select scope, sum(n) as requests
    from counts
    where project = {project:String} and sort = 3 and day = {day:UInt16}
        and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    group by scope
    having requests > 0
) as request_counts
left join (
    select scope, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = 3 and day = {day:UInt16}
    group by scope
) as visitor_counts using (scope)
left join (
    select
        scope, max(last_at) as last,
        arrayStringConcat(arrayMap(
            entry -> concat(entry.2, ' ', toString(-entry.1)),
            arraySlice(arraySort(groupArrayIf((-views, referrer), referrer != '')), 1, 10)
        ), '\n') as listed
    from (
        select scope, referrer, sum(n) as views, max(last) as last_at
        from missing_referrers
        where project = {project:String} and day = {day:UInt16} and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
        group by scope, referrer
        having views > 0
    )
    group by scope
) as details using (scope)
inner join (
    select scope, any(path) as path from scopes where project = {project:String} and sort = 3 group by scope
) as named using (scope)
