-- Adds the number of an event's view, so that new views do not store their event a second time. Earlier versions must not
-- open the store, because files of visits may have keys of seven bytes, and because marks say which events are in files,
-- which they would not delete with the events.
alter table events add column seq bigint;
