-- The raw views of a day, and the requests for missing pages.
select
    time, pages.path as path, pages.sort = 3 as missing,
    case views.kind
        when 1 then 'human' when 2 then 'assistant' when 4 then 'search' when 8 then 'training' else 'other'
    end as class,
    nullif(agents.agent, '') as agent, nullif(agents.operator, '') as operator,
    rules.rule as rule, rules.version as "agentTable", visitor,
    nullif(host, '') as host, nullif(referrer, '') as referrer
from views
join scopes as pages on pages.id = views.page
join scopes as agents on agents.id = views.agent
join rules on rules.id = views.rule
where views.project = $project and time >= $day::bigint * 86400000 and time < ($day::bigint + 1) * 86400000
