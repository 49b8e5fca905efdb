-- The visitors of raw views are copied by page from this version on, into the table page_visitors. Earlier versions would
-- not delete its rows when they change views.
select 1;
