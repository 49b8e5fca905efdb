-- Sorted as the index is (see tidy_firsts.sql).
create or replace temp table compacted as
select project, scope, day, kind, sum(n)::integer as n from counts group by all having sum(n) <> 0;
delete from counts;
insert into counts
from compacted order by scope in (select site from projects) desc, project, day, scope;
drop table compacted;
