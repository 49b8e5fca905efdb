-- Who came to what on which day, and as what.
create or replace temp table came as
select scope, key, day, bit_or(kind) as bits
from (
    select page as scope, xor(visitor, page_salt) as key, day, kind from placed where visitor is not null
    union all
    select site, xor(visitor, site_salt), day, kind from placed where visitor is not null
    union all
    select agent, xor(visitor, agent_salt), day, kind from placed where visitor is not null
)
group by all;
