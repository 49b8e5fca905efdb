with agents as (
    select agent as scope, count(distinct visitor) as visitors, count(*) as views from views
    where page = $page and time >= $first and time < $end
        and seq <= (select max(upto) from folds)
    group by agent
)
select agent, operator, kind, visitors, views
from agents join scopes on scopes.id = scope
order by visitors desc, views desc, agent, operator, kind
limit $limit;
