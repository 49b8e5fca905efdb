-- The visitors and views of each agent on a day.
with view_counts as (
    select scope, sum(n) as views from counts where project = $project and day = $day group by scope
),
visitor_counts as (
    select scope, sum(total) as visitors from firsts where project = $project and day = $day group by scope
)
select
    $day as date, nullif(agent, '') as agent, nullif(operator, '') as operator,
    case kind
        when 1 then 'human' when 2 then 'assistant' when 4 then 'search' when 8 then 'training' else 'other'
    end as class,
    coalesce(visitors, 0) as visitors, views
from view_counts left join visitor_counts using (scope) join scopes on scopes.id = scope
where sort = 2 and views > 0
