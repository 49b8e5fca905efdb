-- A visitor is counted on their first day in the range, which is the day whose previous day is before the range.
-- The first row is the whole site, then the requested pages and one more.
with placed as (
    select
        path, human, ai, total,
        row_number() over (
            order by
                which desc,
                multiIf({by:String} = 'human', human, {by:String} = 'ai', ai, {by:String} = 'total', total, 0)
                    * if({descending:Bool}, -1, 1),
                if({by:String} = 'path' and {descending:Bool}, path, '') desc,
                path
        ) as place
    from (
        select any(sort) as which, scope, sum(human) as human, sum(ai) as ai, sum(total) as total
        from firsts
        where project = {project:String} and sort in (0, 1)
            and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
        group by scope
        having total > 0
    ) as totals
    left join (
        select scope, any(path) as path from scopes where project = {project:String} and sort = 0 group by scope
    ) as named using (scope)
    where which = 1 or positionUTF8(lowerUTF8(path), lowerUTF8({search:String})) > 0
)
select path, human, ai, total
from placed
where place = 1 or place between {offset:UInt64} + 2 and {offset:UInt64} + {limit:UInt64} + 2
order by place;
