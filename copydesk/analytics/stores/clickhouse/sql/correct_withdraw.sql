insert into corrected_views (
    fold, sign, project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind
)
select
    {fold:UInt64}, -1, project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind
from views
where project = {project:String} and event in (select id from withdrawn_events where fold = {fold:UInt64});
