select
    projects.name as project, moved.time as "at", pages.path, moved.kind, agents.agent, agents.operator, rules.rule,
    version, coalesce(visitor, 0) as visitor, host, referrer, events.id as event,
    (pages.sort = 3)::utinyint as missing,
    coalesce(sources.path, '') as source, coalesce(sources.kind, 0)::utinyint as source_kind
from views as moved
join projects on projects.id = moved.project
join scopes as pages on pages.id = moved.page
join scopes as agents on agents.id = moved.agent
join rules on rules.id = moved.rule
left join scopes as sources on sources.id = moved.source
left join (select seq, id from events /* of the part */) as events on events.seq = moved.seq
where true
