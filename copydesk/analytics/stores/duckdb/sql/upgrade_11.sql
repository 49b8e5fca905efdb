-- Finished days are stored by hour from this version on, in the table hour_counts. Earlier versions would not delete its
-- rows when they change views. Files of visits have pages of another format, which earlier versions cannot read.
select 1;
