-- Sorted by day, so that a short range reads little.
create or replace temp table compacted as
select project, scope, day, kind, referrer, sum(n)::integer as n, max(last) as last
from missing_referrers
group by project, scope, day, kind, referrer;
delete from missing_referrers;
insert into missing_referrers
from compacted order by project, day, scope, kind, referrer;
drop table compacted;
