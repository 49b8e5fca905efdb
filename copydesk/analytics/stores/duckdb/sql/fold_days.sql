-- All days of keys with a change: as human (1), AI (2) or either (4), before this fold (was) and after it (now).
create or replace temp table changed_days as
select
    target as scope, key, day, bit_or(visitor_kinds(was, human, ai)) as was,
    bit_or(visitor_kinds(now, human, ai)) as now
from affected_visits join targets using (scope)
where now & (human | ai) <> 0 and key in (select key from affected_visits where now <> was)
group by all;
