-- The visitors of a page by agent, and of people by source; the other of the two is null. Finds distinct visitors first:
-- what takes time is to find few views among many, so few columns are read.
with visits as (
    select distinct agent, source, visitor from (/* views */) as page_views
),
visits_from_sources as (
    select agent, if(list_contains($people::integer[], agent), coalesce(source, 0), 0) as source, visitor from visits
)
select agent, source, count(distinct visitor) from visits_from_sources group by grouping sets ((agent), (source));
