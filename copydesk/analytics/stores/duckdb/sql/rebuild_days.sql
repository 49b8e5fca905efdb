-- Selects one part of all keys at a time, which bounds the memory.
create or replace temp table visitor_days as
select target as scope, key, day, bit_or(visitor_kinds(bits, human, ai)) as now
from visits join targets using (scope)
where key % $parts = $part and (project = $project or $project is null) and bits & (human | ai) <> 0
group by all;
