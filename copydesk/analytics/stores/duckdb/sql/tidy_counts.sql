-- Sorted as the index is (see tidy_firsts.sql).
create or replace temp table tidied as
select project, scope, day, kind, sum(n)::integer as n from counts group by all having sum(n) <> 0;
delete from counts;
insert into counts
from tidied order by scope in (select site from projects) desc, project, day, scope;
drop table tidied;
