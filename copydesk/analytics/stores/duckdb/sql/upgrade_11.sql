-- Files of visits have pages of another format, which earlier versions cannot read.
select 1;
