-- Adds the event of a view, so that views can be withdrawn by their events. Older views have none.
alter table views add column event bigint;
