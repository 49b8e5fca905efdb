-- The days of the keys with something new: as human (1), AI (2), either (4), before this fold and after it.
create or replace temp table days as
select target as scope, key, day, bit_or(who(was, human, ai)) as was, bit_or(who(now, human, ai)) as now
from known join targets using (scope)
where now & (human | ai) <> 0 and key in (select key from known where now <> was)
group by all;
