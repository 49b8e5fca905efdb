insert into rule_counts
select project, agent, rule, (time // 86400000)::usmallint as day, count(*)
from views
where /* condition */
group by all
order by project, day;
