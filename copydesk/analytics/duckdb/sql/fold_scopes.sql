-- Scopes that this batch is the first to name. The salt depends on the names alone, so that every copy agrees on it.
insert into scopes
select
    (select coalesce(max(id), 0) from scopes) + row_number() over (), project, sort, path, agent, operator, kind,
    md5_number_lower(concat_ws(chr(0), projects.name, sort, path, agent, operator, kind)),
    if(sort = 2, 0, 1), if(sort = 2, 31, projects.ai)
from (
    select distinct project, 0::utinyint as sort, path, '' as agent, '' as operator, 0::utinyint as kind from batch
    union all
    select distinct project, 1, '', '', '', 0 from batch
    union all
    select distinct project, 2, '', agent, operator, kind from batch
) as named
anti join scopes using (project, sort, path, agent, operator, kind)
join projects on projects.id = project;
