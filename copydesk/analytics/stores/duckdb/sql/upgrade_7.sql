-- Moves the number of the last folded view from its mark into a table of its own, to which folds append. Files of visits
-- have filters from this version on, which earlier versions cannot read.
create table if not exists folds (upto ubigint not null);
insert into folds select value from marks where name = 'folded';
delete from marks where name = 'folded';
