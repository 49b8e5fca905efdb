-- Moves the number of the last folded view from its mark into a table of its own, to which folds append. Files of visits
-- have filters from this version on, which earlier versions cannot read.
create table if not exists folds (upto ubigint not null);
insert into folds select value from marks where name = 'folded';
delete from marks where name = 'folded';

-- Adds sums of raw views. Folds compute them for the views that are stored, in parts.
create table if not exists page_counts (
    project integer not null, page integer not null, day usmallint not null, agent integer not null,
    source integer not null, n integer not null
);
create table if not exists rule_counts (
    project integer not null, agent integer not null, rule integer not null, day usmallint not null, n integer not null
);
