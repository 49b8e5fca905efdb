insert into views (project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind)
select project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind
from inbox
where batch in {batches:Array(UInt128)}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'views');
