-- Groups by ids and joins the names last, because grouping many views by text is slow. The views after $after
-- are not in the sums yet.
with rule_views as (
    select agent as scope, rule as id, n from rule_counts
    where project = $project and day >= $first and day < $end
    union all
    select agent, rule, 1 from views
    where seq > $after and seq <= $folded and project = $project and time >= $first_at and time < $end_at
),
sums as (
    select scope, id, sum(n) as n from rule_views group by all
)
select agent, operator, kind, rules.rule, sum(n)::bigint as views
from sums join scopes on scopes.id = scope join rules on rules.id = sums.id
where sort = 2 or ($missing and sort = 4)
group by agent, operator, kind, rules.rule
order by views desc, agent, operator, kind, rules.rule
limit $limit;
