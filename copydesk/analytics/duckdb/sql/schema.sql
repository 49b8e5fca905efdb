create table if not exists projects (id integer not null, name varchar not null, ai utinyint not null);

-- A page, a project's site as a whole, or an agent: whatever visitors are counted of. A visit's key is its visitor
-- xor the scope's salt; a class counts as human or AI there if its bit is in that mask.
create table if not exists scopes (
    id integer not null, project integer not null, sort utinyint not null,
    path varchar not null, agent varchar not null, operator varchar not null, kind utinyint not null,
    salt ubigint not null, human utinyint not null, ai utinyint not null
);

create table if not exists views (
    seq ubigint not null, project integer not null, path varchar not null, time bigint not null,
    kind utinyint not null, agent varchar not null, operator varchar not null, rule varchar not null, visitor ubigint
);

create table if not exists events (project integer not null, id ubigint not null);

-- Several rows of one key and day add up: their bits are or-ed.
create table if not exists visits (
    scope integer not null, key ubigint not null, day usmallint not null, bits utinyint not null
);

-- So many visitors came on this day and before that last on day prev, 0 for never: as human, as AI, as either. Several
-- rows of the same add up, and a number may be negative.
create table if not exists firsts (
    project integer not null, scope integer not null, day usmallint not null, prev usmallint not null,
    human integer not null, ai integer not null, total integer not null
);

create table if not exists counts (
    project integer not null, scope integer not null, day usmallint not null, kind utinyint not null, n integer not null
);

-- folded: the last view that was folded. firsts and counts: how many rows the last tidying left in them.
create table if not exists marks (name varchar not null, value ubigint not null);
insert into marks
select name, 0 from (values ('folded'), ('firsts'), ('counts')) as wanted (name)
where name not in (select name from marks);
