create or replace temp table compacted as
select project, agent, rule, day, sum(n)::integer as n from rule_counts group by all;
delete from rule_counts;
insert into rule_counts
from compacted order by project, day;
drop table compacted;
