-- Files of visits have their keys after each page from this version on, which earlier versions cannot read.
select 1;
