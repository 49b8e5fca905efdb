-- Sorted by page, so that a report about one page reads little.
create or replace temp table compacted as
select project, page, day, agent, source, sum(n)::integer as n from page_counts group by all;
delete from page_counts;
insert into page_counts
from compacted order by project, page, day;
drop table compacted;
