create or replace temp table days as
select scope, key, day, who(bit_or(bits), any_value(human), any_value(ai)) as was, 0::utinyint as now
from visits join scopes on scopes.id = scope
where project = $project and key = xor($visitor::ubigint, salt)
group by scope, key, day
having was <> 0;
