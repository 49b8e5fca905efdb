select projects.name as project, xor(key, salt) as visitor, scopes.sort, hash as scope, day, bits
from visits as moved
join scopes on scopes.id = moved.scope
join hashes on hashes.id = moved.scope
join projects on projects.id = scopes.project
where true
