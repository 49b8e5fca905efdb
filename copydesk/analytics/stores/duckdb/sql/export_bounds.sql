-- The first day of a project and the day after its last; null if it has none.
select min(day)::integer, max(day)::integer + 1 from counts where project = $project
