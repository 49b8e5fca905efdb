insert into page_counts
select
    project, page, (time // 86400000)::usmallint as day, agent, if(kind = 1, source, 0) as source, count(*)
from views
where /* condition */ and agent in (select id from scopes where sort = 2)
group by all
order by project, page, day;
