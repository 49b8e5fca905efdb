-- Groups by ids and joins the names last, because grouping many views by text is slow.
with rule_counts as (
    select agent as scope, rule as id, count(*) as n
    from views
    where project = $project and time >= $first and time < $end
        and seq <= (select max(upto) from folds)
    group by all
)
select agent, operator, kind, rules.rule, sum(n)::bigint as views
from rule_counts join scopes on scopes.id = scope join rules on rules.id = rule_counts.id
where sort = 2 or ($missing and sort = 4)
group by agent, operator, kind, rules.rule
order by views desc, agent, operator, kind, rules.rule
limit $limit;
