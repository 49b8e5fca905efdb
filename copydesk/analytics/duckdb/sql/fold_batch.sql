-- The views of one fold, those that are the same but for their time added up.
create or replace temp table batch as
select project, path, agent, operator, kind, visitor, (time // 86400000)::usmallint as day, count(*) as n
from views
where seq > $after and seq <= $upto
group by all;
