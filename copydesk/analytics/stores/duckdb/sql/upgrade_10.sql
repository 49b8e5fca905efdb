-- Adds the number of an event's view, so that new views do not store their event a second time. From this version on,
-- files of visits may have keys of seven bytes, which earlier versions cannot read.
alter table events add column seq bigint;
