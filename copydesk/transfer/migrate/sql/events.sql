select projects.name as project, moved.id
from events as moved
join projects on projects.id = moved.project
where true
