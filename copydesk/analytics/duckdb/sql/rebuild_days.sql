-- One part of all keys at a time, so that memory stays bounded.
create or replace temp table days as
select scope, key, day, 0::utinyint as was, who(bit_or(bits), any_value(human), any_value(ai)) as now
from visits join scopes on scopes.id = scope
where key % $parts = $part and (project = $project or $project is null) and bits & (human | ai) <> 0
group by scope, key, day;
