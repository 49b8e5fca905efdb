-- All days of the visitors in affected_visitors, as human (1), AI (2) or either (4), for every page, agent and the site.
create or replace temp table visitor_days as
select target as scope, key, day, bit_or(visitor_kinds(bits, human, ai)) as now
from visits join targets using (scope) join scopes on scopes.id = scope
where scopes.project = $project and xor(key, salt) in (select visitor from affected_visitors)
    and bits & (human | ai) <> 0
group by all;
