-- Files of visits have pages from this version on, which earlier versions cannot read.
select 1;
