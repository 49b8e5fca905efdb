-- The one pass over everything stored: all days of the keys that came, what was known of them and what comes in now.
-- The lowest and the highest key are asked for so that DuckDB does not compare each with bounds that exclude hardly any.
create or replace temp table known as
with wanted as (
    select key from came union all values (0::bigint), (9223372036854775807::bigint)
)
select scope, key, day, bit_or(was) as was, bit_or(now) as now
from (
    select scope, key, day, bits as was, bits as now from visits where key in (from wanted)
    union all
    select scope, key, day, 0, bits from came
)
group by all;
