-- The number of a page, if it has views on any day.
select id from scopes
where project = $project and sort = 0 and path = $path
    and (select sum(n) from counts where counts.project = $project and counts.scope = scopes.id) > 0;
