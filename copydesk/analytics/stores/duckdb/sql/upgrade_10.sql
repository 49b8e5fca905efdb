-- From this version on, files of visits may have keys of seven bytes, which earlier versions cannot read.
select 1;
