-- A visitor is counted on their first day in the range, which is the day whose previous day is before the range.
select scope, sum(human)::bigint as human, sum(ai)::bigint as ai, sum(total)::bigint as total
from firsts
where project = $project and day >= $first and day < $end and prev < $first
group by scope;
