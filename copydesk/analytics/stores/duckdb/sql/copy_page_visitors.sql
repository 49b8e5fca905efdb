-- Sorted by page, so that a report about one page reads few row groups, and by agent and source, which saves disk. No
-- report counts visitors of missing pages by agent.
insert into page_visitors
select project, page, agent, source, (time // 86400000)::usmallint as day, visitor
from views
where seq > $after and seq <= $upto and visitor is not null and agent not in (select id from scopes where sort = 4)
    /* and condition */
order by page, agent, source;
