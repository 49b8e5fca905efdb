-- Sites come first, so that a report on one does not read its pages; then by day, so that a short range reads little.
create or replace temp table compacted as
select
    project, scope, day, prev, sum(human)::integer as human, sum(ai)::integer as ai, sum(total)::integer as total
from firsts
group by all
having sum(human) <> 0 or sum(ai) <> 0 or sum(total) <> 0;
delete from firsts;
insert into firsts
from compacted order by scope in (select site from projects) desc, project, day, prev, scope;
drop table compacted;
