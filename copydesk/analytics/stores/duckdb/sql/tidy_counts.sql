-- Sorted as the index is (see tidy_firsts.sql). The code inserts the first day.
create or replace temp table compacted as
select project, scope, day, kind, sum(n)::integer as n
from counts
where day >= /* first day */ 0
group by all
having sum(n) <> 0;
delete from counts where day >= /* first day */ 0;
insert into counts
from compacted order by scope in (select site from projects) desc, project, day, scope;
drop table compacted;
