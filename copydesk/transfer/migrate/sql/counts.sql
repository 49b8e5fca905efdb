select projects.name as project, scopes.sort, hash as scope, day, moved.kind, n
from counts as moved
join scopes on scopes.id = moved.scope
join hashes on hashes.id = moved.scope
join projects on projects.id = scopes.project
where true
