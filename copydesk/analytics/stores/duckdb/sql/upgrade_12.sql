-- The visitors of raw views are copied by page from this version on, into the table page_visitors, and new kinds of sources
-- have the salt of their site. Earlier versions would not delete the copies when they change views, and would give new hosts
-- another salt than their kind.
select 1;
