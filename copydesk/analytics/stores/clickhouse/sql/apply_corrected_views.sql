insert into views (project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind)
select project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind
from corrected_views
where fold = {fold:UInt64} and sign > 0
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'views');
