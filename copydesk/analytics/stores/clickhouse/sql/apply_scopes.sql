insert into scopes
select
    project, sort, scope, any(if(sort in (0, 3), inbox.path, '')), any(if(sort = 2, inbox.agent, '')),
    any(if(sort = 2, inbox.operator, '')), any(if(sort = 2, inbox.kind, 0))
from inbox
array join if(missing, [3], [0, 2]) as sort, if(missing, [lost], [page, told]) as scope
where batch in {batches:Array(UInt128)} and {fold:UInt64} > (select max(number) from applied)
    and (project, sort, scope) not in (select project, sort, scope from scopes)
group by project, sort, scope;
