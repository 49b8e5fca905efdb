-- All days of the visitors in these batches, for the pages, missing pages and agents in these batches: stored visits and new ones.
select project, sort, scope, visitor, day, bits as before, bits as after
from visits
where (project, visitor) in (
        select project, visitor from inbox where batch in {batches:Array(UInt128)} and visitor != 0
    )
    and (
        sort = 2
        or (scope, visitor) in (
            select if(missing, lost, page), visitor from inbox where batch in {batches:Array(UInt128)} and visitor != 0
        )
    )
union all
select project, sort, scope, visitor, day, 0 as before, kind as after
from inbox
array join if(missing, [3], [0, 2]) as sort, if(missing, [lost], [page, told]) as scope
where batch in {batches:Array(UInt128)} and visitor != 0
