select projects.name as project, moved.sort, hash as scope, moved.path, moved.agent, moved.operator, moved.kind
from scopes as moved
join hashes using (id)
join projects on projects.id = moved.project
where moved.sort not in (1, 4)
