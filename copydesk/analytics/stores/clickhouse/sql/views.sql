-- The first row is the whole site, then the requested pages and one more.
with placed as (
    select path, human, ai, total, row_number() over (order by which desc, total desc, path) as place
    from (
        select
            any(sort) as which, scope, sumIf(n, kind = 1) as human, sumIf(n, bitAnd(kind, {ai:UInt8}) != 0) as ai,
            human + ai as total
        from counts
        where project = {project:String} and sort in (0, 1) and day >= {first:UInt16} and day < {end:UInt16}
        group by scope
        having total > 0
    ) as totals
    left join (
        select scope, any(path) as path from scopes where project = {project:String} and sort = 0 group by scope
    ) as named using (scope)
)
select path, human, ai, total
from placed
where place = 1 or place between {offset:UInt64} + 2 and {offset:UInt64} + {limit:UInt64} + 2
order by place;
