insert into counts
select project, coalesce(page, site, agent), day, kind, sum(n)
from placed
group by grouping sets ((project, page, day, kind), (project, site, day, kind), (project, agent, day, kind));
