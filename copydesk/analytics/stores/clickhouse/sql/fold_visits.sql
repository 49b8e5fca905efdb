-- All days of the visitors in these batches, for the scopes in these batches and all agents
-- and hosts: stored visits and new ones.
select project, sort, scope, visitor, day, bits as before, bits as after
from visits
where (project, visitor) in (
        select project, visitor from inbox where batch in {batches:Array(UInt128)} and visitor != 0
    )
    and (
        sort = 2 or sort > 5
        or (scope, visitor) in (
            select arrayJoin(visited.2), visitor from inbox
            where batch in {batches:Array(UInt128)} and visitor != 0
        )
    )
union all
select project, sort, scope, visitor, day, 0 as before, kind as after
from inbox
array join visited.1 as sort, visited.2 as scope
where batch in {batches:Array(UInt128)} and visitor != 0
