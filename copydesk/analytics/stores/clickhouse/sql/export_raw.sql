-- The raw views of a day, and the requests for missing pages.
select
    at as time, path, missing,
    transform(kind, [1, 2, 4, 8], ['human', 'assistant', 'search', 'training'], 'other') as class,
    nullIf(toString(agent), '') as agent, nullIf(toString(operator), '') as operator,
    toString(rule) as rule, toString(version) as agentTable, nullIf(visitor, 0) as visitor,
    nullIf(toString(host), '') as host, nullIf(toString(referrer), '') as referrer
from views
where project = {project:String} and at >= {day:Int64} * 86400000 and at < ({day:Int64} + 1) * 86400000
