create or replace temp table visitor_days as
select target as scope, key, day, bit_or(visitor_kinds(bits, human, ai)) as now
from visits join targets using (scope) join scopes on scopes.id = scope
where scopes.project = $project and key = xor($visitor::bigint, salt) and bits & (human | ai) <> 0
group by all;
