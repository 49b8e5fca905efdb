-- Adds sums of raw views. Folds compute them for the views that are stored, in parts.
create table if not exists page_counts (
    project integer not null, page integer not null, day usmallint not null, agent integer not null,
    source integer not null, n integer not null
);
create table if not exists rule_counts (
    project integer not null, agent integer not null, rule integer not null, day usmallint not null, n integer not null
);
