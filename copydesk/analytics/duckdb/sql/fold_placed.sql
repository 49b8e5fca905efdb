-- The views and the page, site and agent that each counts for, null where nobody has seen it before.
create or replace temp table placed as
select
    batch.project, batch.kind, batch.visitor, batch.day, batch.n,
    pages.id as page, pages.salt as page_salt, sites.id as site, sites.salt as site_salt,
    agents.id as agent, agents.salt as agent_salt
from batch
left join scopes as pages on pages.sort = 0 and pages.project = batch.project and pages.path = batch.path
left join scopes as sites on sites.sort = 1 and sites.project = batch.project
left join scopes as agents
    on agents.sort = 2 and agents.project = batch.project and agents.kind = batch.kind
    and agents.agent = batch.agent and agents.operator = batch.operator;
