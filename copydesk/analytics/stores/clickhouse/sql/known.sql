-- The events that were logged before, in folded views or in pending batches.
select project, id from events
where project in {projects:Array(String)} and id in {ids:Array(UInt64)}
union all
select project, assumeNotNull(event) from inbox
where batch in {batches:Array(UInt128)} and event in {ids:Array(UInt64)};
