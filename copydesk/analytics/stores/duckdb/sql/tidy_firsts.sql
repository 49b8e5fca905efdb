-- Sites come first, so that a report on one does not read its pages; then by day, so that a short range reads little.
-- The code inserts the first day with new rows; the days before it are sorted already.
create or replace temp table compacted as
select
    project, scope, day, prev, sum(human)::integer as human, sum(ai)::integer as ai, sum(total)::integer as total
from firsts
where day >= /* first day */ 0
group by all
having sum(human) <> 0 or sum(ai) <> 0 or sum(total) <> 0;
delete from firsts where day >= /* first day */ 0;
insert into firsts
from compacted order by scope in (select site from projects) desc, project, day, prev, scope;
drop table compacted;
