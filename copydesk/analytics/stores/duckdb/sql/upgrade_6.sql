-- Adds the sections of the first level as scopes, from the paths of the stored pages. Folds compute their visits in parts.
alter table scopes add column section integer;
create temp table page_sections as
select
    pages.id as page, pages.project, sites.salt,
    '/' || list_filter(string_split(split_part(pages.path, '?', 1), '/'), lambda part: part <> '')[1] as section
from scopes as pages join scopes as sites on sites.project = pages.project and sites.sort = 1
where pages.sort = 0;
insert into scopes
select
    (select max(id) from scopes) + row_number() over (order by project, section), project, 32, section, '', '', 0, salt,
    0
from (select distinct project, section, salt from page_sections where section is not null);
update scopes set section = sections.id
from page_sections
join scopes as sections
    on sections.sort = 32 and sections.project = page_sections.project and sections.path = page_sections.section
where page_sections.page = scopes.id;
drop table page_sections;
create table if not exists visit_runs (id integer not null, rows bigint not null);
insert into marks
select 'sections_done', 0
where (exists (from visits) or exists (from visit_runs)) and 'sections_done' not in (select name from marks);
