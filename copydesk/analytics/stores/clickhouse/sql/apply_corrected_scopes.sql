-- A view that becomes one of a person may be the first from its host.
insert into scopes
select
    project, sort, scope, any(name), any(if(sort = 2, corrected_views.agent, '')),
    any(if(sort = 2, corrected_views.operator, '')),
    any(multiIf(sort = 2, corrected_views.kind, sort >= 5, source_kind, 0))
from corrected_views
array join visited.1 as sort, visited.2 as scope, visited.3 as name
where fold = {fold:UInt64} and sign > 0 and not missing and sort != 0
    and {fold:UInt64} > (select max(number) from applied)
group by project, sort, scope;
