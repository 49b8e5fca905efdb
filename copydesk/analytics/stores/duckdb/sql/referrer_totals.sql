select kind, sum(total)::bigint as visitors
from firsts join scopes on scopes.id = scope
where firsts.project = $project and sort = 5 and day >= $first and day < $end and prev < $first
group by kind;
