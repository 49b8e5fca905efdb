insert into missing_referrers
select project, lost, day, kind, referrer, count(), max(at)
from inbox
where batch in {batches:Array(UInt128)} and missing
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'missing_referrers')
group by project, lost, day, kind, referrer;
