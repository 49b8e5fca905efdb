-- Marks say which events are in files from this version on, and earlier versions delete events without deleting the marks.
select 1;
