create table if not exists projects (
    id integer not null, name varchar not null, site integer not null, ai utinyint not null
);

-- A page (sort 0), a project's site as a whole (1), or an agent with its class (2): whatever visitors are counted of.
create table if not exists scopes (
    id integer not null, project integer not null, sort utinyint not null,
    path varchar not null, agent varchar not null, operator varchar not null, kind utinyint not null,
    salt bigint not null
);

-- Which rule told the class of a view, and the version of the table of agents that it belongs to.
create table if not exists rules (id integer not null, rule varchar not null, version varchar not null);

create table if not exists views (
    seq bigint not null, project integer not null, page integer not null, agent integer not null,
    kind integer not null, rule integer not null, time bigint not null, visitor bigint,
    host varchar not null, referrer varchar not null
);

create table if not exists events (project integer not null, id bigint not null);

-- The scope is a page or an agent, and the key the visitor xor its salt. Agents have the salt of their site, whose
-- visits are those of its agents. Several rows of one key and day add up: their bits are or-ed.
create table if not exists visits (
    scope integer not null, key bigint not null, day usmallint not null, bits utinyint not null
);

-- What a visit to a scope counts for, and which classes count there as human and as AI.
create table if not exists targets (
    scope integer not null, target integer not null, project integer not null,
    human utinyint not null, ai utinyint not null
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
