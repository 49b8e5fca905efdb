-- Counts the affected days again, after their raw views are corrected and their rows here are deleted.
insert into missing_referrers
select
    project, sipHash64(project, 'missing', path) as scope, toUInt16(intDiv(at, 86400000)) as day, kind, referrer,
    count(), max(at)
from views
where project = {project:String} and missing and toUInt16(intDiv(at, 86400000)) in {days:Array(UInt16)}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'missing_referrers')
group by project, scope, day, kind, referrer;
