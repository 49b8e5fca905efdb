-- All days of keys with a change: as human (1), AI (2) or either (4), before this fold (was) and after it (now).
create or replace temp table days as
select target as scope, key, day, bit_or(who(was, human, ai)) as was, bit_or(who(now, human, ai)) as now
from known join targets using (scope)
where now & (human | ai) <> 0 and key in (select key from known where now <> was)
group by all;
