insert into visits
select project, visitor, sort, scope, day, groupBitOr(kind)
from inbox
array join visited.1 as sort, visited.2 as scope
where batch in {batches:Array(UInt128)} and visitor != 0 and {fold:UInt64} > (select max(number) from applied)
group by project, visitor, sort, scope, day;
