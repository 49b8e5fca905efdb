-- The views of each page on a day, by people and by AI.
select {day:UInt16} as date, path, human, ai, human + ai as total
from (
    select scope, sumIf(n, kind = 1) as human, sumIf(n, bitAnd(kind, {ai:UInt8}) != 0) as ai
    from counts
    where project = {project:String} and sort = 0 and day = {day:UInt16}
    group by scope
    having human + ai > 0
) as totals
inner join (
    select scope, any(path) as path from scopes where project = {project:String} and sort = 0 group by scope
) as named using (scope)
