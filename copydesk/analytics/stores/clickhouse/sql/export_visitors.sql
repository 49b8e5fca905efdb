-- The unique visitors of each page on a day.
select {day:UInt16} as date, path, human, ai, total
from (
    select scope, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where project = {project:String} and sort = 0 and day = {day:UInt16}
    group by scope
    having total > 0
) as totals
inner join (
    select scope, any(path) as path from scopes where project = {project:String} and sort = 0 group by scope
) as named using (scope)
