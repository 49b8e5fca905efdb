-- Where requests for missing pages came from. The code inserts the condition that selects the views.
insert into missing_referrers
select
    project, page, (time // 86400000)::usmallint as day, kind::utinyint as kind, referrer, count(*) as n,
    max(time) as last
from views
/* condition */ and page in (select id from scopes where sort = 3)
group by project, page, day, kind, referrer;
