insert into counts
select project, sort, scope, day, kind, count()
from inbox
array join if(missing, [3], [0, 1, 2]) as sort, if(missing, [lost], [page, site, told]) as scope
where batch in {batches:Array(UInt128)}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'counts')
group by project, sort, scope, day, kind;
