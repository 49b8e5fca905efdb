-- The first day of a project, the day after its last, and the number of rows, which is 0 if it has none.
select min(day), max(day) + 1, count() from counts where project = {project:String} and sort in (1, 3)
