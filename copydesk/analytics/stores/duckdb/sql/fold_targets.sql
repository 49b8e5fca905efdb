-- Adds targets for scopes that were created since the last fold.
insert into targets
with new as (
    select scopes.id, project, sort, site, ai from scopes join projects on projects.id = project
    where sort <> 1 and scopes.id > (select coalesce(max(scope), 0) from targets)
)
select id, id, project, if(sort = 2, 0, 1), if(sort = 2, 31, ai) from new
union all
select id, site, project, 1, ai from new where sort = 2;
