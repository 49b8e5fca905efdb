-- Adds where views came from. Folds find it for the views that are stored, in parts.
alter table views add column source integer;
insert into marks
select name, value
from (values ('sources_done', 0::ubigint), ('sources_end', (select coalesce(max(seq), 0)::ubigint from views)))
    as source_marks (name, value)
where exists (from views) and name not in (select name from marks);
