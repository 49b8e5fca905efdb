-- The one pass over everything stored: what is known of the keys that came.
create or replace temp table history as
select key, day, bit_or(bits) as bits
from visits
where key in (select key from came)
group by all;
