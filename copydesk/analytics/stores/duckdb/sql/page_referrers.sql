with sources as (
    select source as scope, count(distinct visitor) as visitors, count(*) as views from views
    where page = $page and time >= $first and time < $end and source > 0 and views.kind = 1
        and seq <= (select max(upto) from folds)
    group by source
)
select kind, path, visitors, views
from sources join scopes on scopes.id = scope
order by visitors desc, views desc, path, kind
limit $limit;
