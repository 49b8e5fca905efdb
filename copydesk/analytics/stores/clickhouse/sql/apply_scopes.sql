insert into scopes
select
    project, sort, scope, any(name), any(if(sort = 2, inbox.agent, '')), any(if(sort = 2, inbox.operator, '')),
    any(multiIf(sort = 2, inbox.kind, sort >= 5, source_kind, 0))
from inbox
array join visited.1 as sort, visited.2 as scope, visited.3 as name
where batch in {batches:Array(UInt128)} and {fold:UInt64} > (select max(number) from applied)
    and (project, sort, scope) not in (select project, sort, scope from scopes)
group by project, sort, scope;
