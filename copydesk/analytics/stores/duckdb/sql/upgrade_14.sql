-- Long files of visits have keys as distances from the first one of the page from this version on, which earlier
-- versions cannot read.
select 1;
